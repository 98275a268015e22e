"""Asking the host's own code whether a call may run, just before it does."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from attrs import evolve, frozen

from trouper._clock import Clock
from trouper.core.conversation import Value
from trouper.core.effects import Effect
from trouper.core.terms import Principal

# A callback that hangs must not keep its run for ever.
_LIMIT = 30.0


@frozen
class Denied:
    """An ``authorize`` callback's answer: the call may not run.

    Attributes:
        reason: Why; the model is told, and it is recorded.
    """

    reason: str = ""


@frozen
class AuthorizeRequest:
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
    verdict: object = Denied(f"the authorize callback did not answer within {_LIMIT:g} seconds")
    try:
        with clock.timeout(_LIMIT):
            answer: object = authorize(evolve(request, arguments=own))
            verdict = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 -- the callback is the user's code
        return Denied(f"the authorize callback raised {type(error).__name__}")
    if verdict is True:
        return None
    if isinstance(verdict, Denied):
        return Denied(str(verdict.reason)[:2000])
    return Denied("" if verdict is False else f"the authorize callback answered {type(verdict).__name__}, not true")
