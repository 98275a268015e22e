"""What becomes of a run's final output: accepted, or sent back with what is wrong about it."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper_journal import Content, Plain, Value, event


@event("output.accepted", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class OutputAccepted(Plain):
    """The final output was read, and fits what the agent was asked for.

    Attributes:
        index: The model call whose reply it came with.
        action: The call of ``final_result`` that brought it; None: the reply's text.
        value: The output, as JSON.
    """

    index: int
    action: str | None = None
    value: Content[Value] = None


@event("output.rejected", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class OutputRejected(Plain):
    """A reply that would have ended the run does not; the model is told why.

    Attributes:
        index: The model call whose reply it is.
        kind: ``invalid``: it cannot be read as the output; ``incomplete``: something must be done first.
        text: What the model is told.
    """

    index: int
    kind: Literal["invalid", "incomplete"]
    text: Content[str] = ""
