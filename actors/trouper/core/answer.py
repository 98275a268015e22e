"""How a run's answer stands: what has been done for it, and what became of the model's last attempt at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from attrs import field, frozen

from trouper_journal import Plain, Value


def _none() -> dict[str, int]:
    return {}


@frozen(repr=False, eq=False)
class Answer(Plain):
    """How a run's answer stands.

    Attributes:
        receipts: By tool, how many of its calls are known to have done what was asked.
        index: The model call whose reply was looked at last as a final answer; -1 for none.
        verdict: What was found then.
        value: The output as JSON, where it was accepted.
        action: The call that brought it; None: the reply's text.
        told: What the model was told, where it was not accepted.
        rejections: How many replies were not accepted; fewer again after somebody resumed the run.
        refused: Whether the last reply is a refusal, or was filtered.
    """

    receipts: Mapping[str, int] = field(factory=_none)
    index: int = -1
    verdict: Literal["accepted", "invalid", "incomplete"] | None = None
    value: Value = None
    action: str | None = None
    told: str = ""
    rejections: int = 0
    refused: bool = False

    def receipted(self, tool: str) -> Answer:
        """How it stands once another call of that tool has done what was asked."""
        # Each receipt of each run comes by here: attrs.evolve would take nearly twice as long.
        receipts = {**self.receipts, tool: self.receipts.get(tool, 0) + 1}
        return Answer(
            receipts, self.index, self.verdict, self.value, self.action, self.told, self.rejections, self.refused
        )


NO_ANSWER: Final = Answer()
"""Of a run at its beginning."""

FILTERED: Final = frozenset({"content_filter", "refusal"})
"""Finish reasons of replies that a provider, or the model, would not give."""
