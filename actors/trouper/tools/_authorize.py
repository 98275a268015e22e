"""Asking the host's own code whether a call may run, just before it does."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from attrs import evolve, frozen

from trouper._clock import Clock
from trouper.core.conversation import Value
from trouper.core.effects import Effect
from trouper.core.terms import Principal
from trouper_journal import Plain

from ._asking import Unanswered, ask


@frozen(slots=False, repr=False, eq=False)
class Denied(Plain):
    """An ``authorize`` callback's answer: the call may not run.

    Attributes:
        reason: Why; the model is told, and it is recorded.
    """

    reason: str = ""


@frozen(slots=False, repr=False, eq=False)
class AuthorizeRequest(Plain):
    """A call about which an ``authorize`` callback is asked.

    Attributes:
        run: Id of the run.
        action: Id of the call.
        agent: Name of the agent that calls.
        tool: Name of the tool.
        effect: Its effect class.
        arguments: What it would run with, as JSON values; an approver's edit is in them.
        permissions: What the tool asks for; the run has all of it.
        grants: What the run was granted.
        by: Who submitted the run; None where nobody said.
        approved_by: Who approved the call, the last of them where several had to; None where nobody did.
    """

    run: str
    action: str
    agent: str
    tool: str
    effect: Effect
    arguments: Mapping[str, Value]
    permissions: tuple[str, ...]
    grants: tuple[str, ...]
    by: Principal | None
    approved_by: Principal | None


Verdict: TypeAlias = bool | Denied
Authorize: TypeAlias = Callable[[AuthorizeRequest], Verdict | Awaitable[Verdict]]
"""Answers true, or `Denied`; plain or async."""


async def ask_authorize(authorize: Authorize, request: AuthorizeRequest, clock: Clock) -> Denied | None:
    """Ask whether a call may run: None if so.

    What cannot be judged is treated as the dangerous case: a callback that raises, that takes more than 30 seconds, or
    that answers anything but true, denies. It gets a copy of the arguments, so that it cannot change what will be run.

    Raises:
        trio.Cancelled: Cancelled meanwhile.
    """
    own = copy.deepcopy(dict(request.arguments))
    denied = await ask(authorize, evolve(request, arguments=own), read=_denied, clock=clock)
    # Without the words of its error: a model is told.
    return Denied(f"the authorize callback {denied.reason}") if isinstance(denied, Unanswered) else denied


def _denied(verdict: object) -> Denied | None:
    if verdict is True:
        return None
    if isinstance(verdict, Denied):
        return Denied(str(verdict.reason)[:2000])
    return Denied("" if verdict is False else f"the authorize callback answered {type(verdict).__name__}, not true")
