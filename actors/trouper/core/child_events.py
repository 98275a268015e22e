"""What happens between a run and the sub-agents that it calls; each stands in the parent's stream."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.core.budget import NOTHING_SPENT, Spent
from trouper_journal import Content, Plain, Value, event


@event("child.started", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ChildStarted(Plain):
    """A call is about to begin a run of its own; that run's ``run.submitted`` stands in the same commit.

    Attributes:
        action: The call.
        run: The child's id.
        agent: The child's agent.
        history: Version of this stream up to which the child is shown the conversation; 0 where it is not.
    """

    action: str
    run: str
    agent: str
    history: int = 0


@event("child.cancel_requested", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ChildCancelRequested(Plain):
    """The run's cancellation was passed on; the child's ``run.cancel_requested`` stands in the same commit."""

    action: str
    run: str


@event("child.finished", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ChildFinished(Plain):
    """A child has ended; written by the child's agent, in the commit that ends the child.

    Attributes:
        action: The call that began it.
        run: The child's id.
        status: How it ended.
        kind: How it failed, where it did.
        spent: What it and everything below it has spent.
        text: What the parent's model is told.
        value: Its answer, where that is something else than the text.
    """

    action: str
    run: str
    status: Literal["succeeded", "failed", "cancelled"]
    kind: str | None = None
    spent: Spent = NOTHING_SPENT
    text: Content[str] = ""
    value: Content[Value] = None
