"""What a run knows of its parent and of its children.

A sub-agent is an ordinary run in a stream of its own. Its id is its parent's with the call behind it:
``01ABC~0.1`` is what the second call of run ``01ABC``'s first reply began, ``01ABC~0.1~2.0`` what that run began.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from attrs import frozen

from trouper.core.budget import NOTHING_SPENT, Spent
from trouper_journal import Plain, Value

DEPTH: Final = 16
"""Most agents from a root to its deepest descendant, both counted."""

Returns: TypeAlias = Literal["answer", "steps"]
"""What a sub-agent's caller gets: its last reply, or all of its messages."""

ChildStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled"]


@frozen(slots=False, repr=False, eq=False)
class Parent(Plain):
    """Who called this run.

    Attributes:
        run: The parent's id.
        action: The call in the parent that this run answers.
        returns: What the parent is given of it.
        session: The session whose turn the root of the tree is; None where it is none. What the tree holds is erased
            with the session.
    """

    run: str
    action: str
    returns: Returns = "answer"
    session: str | None = None


@frozen(slots=False, repr=False, eq=False)
class Child(Plain):
    """A run that a call began.

    Attributes:
        run: Its id.
        agent: Its agent's name.
        status: ``running`` until it has ended, whatever it waits for.
        cancelled: Whether its parent has passed a cancellation on to it.
        paused: Whether its parent has passed a pause on to it, and not its end.
        history: Version of its parent's stream up to which it is shown the conversation; 0 where it is not.
        text: What its parent is told of it, once it has ended.
        value: Its answer, where that is something else than the text.
        spent: What it and everything below it had spent when it ended.
    """

    run: str
    agent: str
    status: ChildStatus = "running"
    cancelled: bool = False
    paused: bool = False
    history: int = 0
    text: str = ""
    value: Value = None
    spent: Spent = NOTHING_SPENT

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.status != "running"


@frozen(slots=False, repr=False, eq=False)
class Family(Plain):
    """Where a run stands in its tree.

    Attributes:
        parent: Who called it; None for a root.
        path: Agent names from the root to this run; empty for a root.
    """

    parent: Parent | None = None
    path: tuple[str, ...] = ()


ALONE: Final = Family()
"""Of a run that nobody's call began."""


def child_id(run: str, action: str) -> str:
    """The id of the run that a call begins."""
    return f"{run}~{action}"


def root_of(run: str) -> str:
    """The root of a run's tree."""
    return run.partition("~")[0]


def parent_of(run: str) -> str:
    """The run whose call began this one; empty for a root."""
    return run.rpartition("~")[0]
