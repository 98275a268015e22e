"""What is found out about calls and tools outside of the rules, and recorded before anything is done on it."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper_journal import Content, Plain, event


@event("action.authorized", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionAuthorized(Plain):
    """The ``authorize`` callbacks were asked about a call, and let it run."""

    action: str


@event("tools.bound", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ToolsBound(Plain):
    """The agent chose the tools of a model call.

    Attributes:
        index: Number of the model call.
        tools: Their names, in the agent's order.
        failed: Whether they could not be chosen.
        error: Why.
    """

    index: int
    tools: tuple[str, ...] = ()
    failed: bool = False
    error: Content[str] = ""


@event("action.denied", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionDenied(Plain):
    """A call may not run.

    Attributes:
        policy: What denied it: the tool's ``permissions``, or the ``authorize`` of the ``runtime`` or of the ``tool``.
        missing: Permissions that the run was not granted.
        reason: Why, as ``authorize`` said.
    """

    action: str
    policy: Literal["permissions", "runtime", "tool"]
    missing: tuple[str, ...] = ()
    reason: Content[str] = ""
