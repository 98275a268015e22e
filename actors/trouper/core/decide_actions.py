"""The rules for one call: gates, attempts, and the recovery table."""

from __future__ import annotations

from collections.abc import Iterator

from trouper.core import wording
from trouper.core.decide_children import cancel_child, child_steps
from trouper.core.decide_control import cut_short, sleeping
from trouper.core.effects import Effect
from trouper.core.state import Action, Phase, RunState
from trouper.core.steps import (
    AbortAction,
    AskApproval,
    Authorize,
    Close,
    Deny,
    Doubt,
    Expire,
    QueryAction,
    StartAction,
    Step,
)
from trouper.core.tooling import missing

# A call that takes the process down with it must not do so for ever.
LOSSES = 10


def action_steps(action: Action, grants: tuple[str, ...] = ()) -> Iterator[Step]:
    """What must happen to a call now.

    Args:
        action: The call.
        grants: The permissions that its run was submitted with.
    """
    name, attempt = action.action, action.attempt
    match action.phase:
        case Phase.PLANNED if action.gate == "output":
            return  # see decide_output
        case Phase.PLANNED if action.gate in {"refused", "limit", "hook"}:
            yield _unmade(action)
        case Phase.PLANNED if lacks := missing(action.permissions, grants):
            yield Deny(name, lacks)
        case Phase.FORBIDDEN:
            yield Close(name, 0, "error", "not_started", wording.forbidden(action))
        case Phase.PLANNED if action.gate == "person":
            asking = action.consent.asking
            yield AskApproval(name, action.request + 1, asking.quorum, asking.separation)
        case Phase.AWAITING if action.expires_at is not None:
            yield Expire(name, action.request, action.expires_at)
        case Phase.LAPSED:
            yield Close(name, 0, "error", "not_started", wording.LAPSED)
        case Phase.DENIED:
            yield Close(name, 0, "error", "person", wording.denied(action))
        case Phase.PLANNED | Phase.APPROVED if action.authorize:
            yield Authorize(name)
        case Phase.PLANNED | Phase.APPROVED | Phase.REPEAT:
            yield StartAction(name, attempt + 1)
        case Phase.STARTED | Phase.SLEEPING:
            yield from _while_away(action)
        case Phase.INTERRUPTED:
            yield _after_interruption(action)
        case Phase.RESOLVED:
            yield _resolution(action)
        case _:
            return


def _unmade(action: Action) -> Step:
    if action.gate == "hook":
        return Close(action.action, 0, action.answer or "ok", "hook", action.refusal or "")
    return Close(action.action, 0, "error", "not_started", action.refusal or wording.NOT_STARTED)


def _while_away(action: Action) -> Iterator[Step]:
    """What must happen to a call whose outcome comes from elsewhere: from its attempt, its run, or its timer."""
    if action.phase is Phase.SLEEPING and action.sleep is not None:
        yield sleeping(action, action.sleep)
    else:
        yield from child_steps(action)


def _after_interruption(action: Action) -> Step:
    """The recovery table: what may follow an attempt that has no outcome to be trusted."""
    name, attempt = action.action, action.attempt
    again = StartAction(name, attempt + 1, action.retry_at)
    lost = action.cause in {"lost", "shutdown"}
    spent = action.losses >= LOSSES if lost else attempt - action.losses >= action.attempts
    failed = Close(name, attempt, "error", "tool_error", wording.interrupted(action))
    doubt = Doubt(name, attempt, wording.doubt(action))
    if action.cause == "not_begun":
        return again
    if action.cause == "restored":
        # It may have ended, been made again or been settled in the records that are gone. That its effect is there is
        # evidence; that it is not, is none that nobody has undone or refused it: a person says what becomes of it.
        ask = action.effect is Effect.QUERYABLE_WRITE and action.query is None
        return QueryAction(name, attempt) if ask else doubt
    if action.cause in {"transient", "tool_error"} and (spent or action.cause == "tool_error"):
        # What this attempt says of itself is no word on an earlier one that was cut off.
        return doubt if action.doubted else failed
    if action.cause == "transient":
        return again
    match action.effect:
        case Effect.READ_ONLY:
            return again if (lost or action.cause == "retryable") and not spent else failed
        case Effect.IDEMPOTENT_WRITE:
            return doubt if spent else again
        case Effect.QUERYABLE_WRITE if action.query is None:
            return QueryAction(name, attempt)
        case Effect.QUERYABLE_WRITE if action.query == "absent":
            return Close(name, attempt, "error", "query", wording.interrupted(action)) if spent else again
        case _:
            return doubt


def _resolution(action: Action) -> Step:
    ok = action.verdict == "applied"
    return Close(action.action, action.attempt, "ok" if ok else "error", "person", wording.resolved(action))


def cancel_action(state: RunState, action: Action) -> Step | None:
    """What must happen to a call so that its run can end; None where nothing is left to do."""
    match action.phase:
        case Phase.CLOSED | Phase.UNRESOLVED:
            return None
        case Phase.STARTED if action.child is not None:
            return cancel_child(action)
        case Phase.STARTED:
            return AbortAction(action.action, action.attempt)
        case Phase.SLEEPING if action.sleep is not None:
            return cut_short(state, action, action.sleep)
        case Phase.RESOLVED:
            return _resolution(action)
        case Phase.REPEAT:
            return Doubt(action.action, action.attempt, wording.doubt(action))
        case Phase.INTERRUPTED:
            step = _after_interruption(action)
            if not isinstance(step, StartAction):
                return step
            if action.doubted:
                return Doubt(action.action, action.attempt, wording.doubt(action))
            return Close(action.action, action.attempt, "error", "tool_error", wording.not_again(action, state))
        case _:
            return Close(action.action, 0, "error", "not_started", wording.cancelled(state))
