"""What people may ask of a run beside its task, as pure rules like those in `trouper.core.commands`."""

from __future__ import annotations

from collections.abc import Sequence

from trouper.core.commands import Already
from trouper.core.control_events import DeadlineExtended, PauseRequested, RunSignalled
from trouper.core.conversation import Message
from trouper.core.state import RunState
from trouper.core.terms import Principal
from trouper.errors import SteerError, TrouperError

INBOX = 1000
"""How many signals a run keeps that it has not heard yet."""


def steer_run(state: RunState, messages: Sequence[Message], *, by: Principal) -> RunSignalled:
    """Send messages to a run under way.

    Raises:
        SteerError: It is over, or being cancelled, or giving its last answer; or it has too many unheard.
    """
    if state.ended:
        raise SteerError(state.run, f"it is over ({state.phase.value}); submit another run to go on from it")
    if state.stopping:
        why = "its deadline has passed" if state.cancel is None else "it is being cancelled"
        raise SteerError(state.run, why)
    if state.closing:
        raise SteerError(state.run, "it has reached its limit and gives its last answer")
    if len(state.control.inbox) >= INBOX:
        raise SteerError(state.run, f"{INBOX} messages wait to be heard already")
    return RunSignalled(tuple(messages), by)


def pause_run(state: RunState, *, by: Principal, reason: str | None) -> PauseRequested | Already:
    """Have a run begin nothing more until it is resumed; for one over, being cancelled or paused nothing changes."""
    if state.ended or state.stopping or state.control.pause is not None:
        return Already()
    return PauseRequested(by, reason)


def extend_deadline(
    state: RunState, deadline: int | None, *, by: Principal, reason: str | None, now: int
) -> DeadlineExtended | Already:
    """Let a run take longer; one that had failed at its deadline goes on.

    Args:
        state: The run.
        deadline: The new deadline (ns UTC), later than the present one; None for none at all.
        by: Who extends it.
        reason: Why.
        now: Now (ns UTC).

    Raises:
        TrouperError: If it is over for another reason or being cancelled, has no deadline, or the new one is not later.
    """
    present = state.control.deadline
    if state.ended and state.failure != "deadline":
        raise TrouperError(f"run {state.run} is over ({state.phase.value}): a later deadline would change nothing")
    if state.cancel is not None:
        raise TrouperError(f"run {state.run} is being cancelled: a later deadline would change nothing")
    if not state.ended and not state.control.overdue and deadline == present:
        return Already()
    if present is None:
        raise TrouperError(f"run {state.run} has no deadline to extend")
    if deadline is not None and deadline <= max(present, now):
        raise TrouperError(f"the deadline of run {state.run} can only be extended, and to a moment that is to come")
    return DeadlineExtended(deadline, by, reason)
