"""What people may ask of a run beside its task, as pure rules like those in `trouper.core.commands`."""

from __future__ import annotations

from collections.abc import Sequence

from trouper.core.commands import Already
from trouper.core.control_events import PauseRequested, RunSignalled
from trouper.core.conversation import Message
from trouper.core.state import RunState
from trouper.core.terms import Principal
from trouper.errors import SteerError

INBOX = 1000
"""How many signals a run keeps that it has not heard yet."""


def steer_run(state: RunState, messages: Sequence[Message], *, by: Principal) -> RunSignalled:
    """Send messages to a run under way.

    Raises:
        SteerError: It is over, or being cancelled, or giving its last answer; or it has too many unheard.
    """
    if state.ended:
        raise SteerError(state.run, f"it is over ({state.phase.value}); submit another run to go on from it")
    if state.cancel is not None:
        raise SteerError(state.run, "it is being cancelled")
    if state.closing:
        raise SteerError(state.run, "it has reached its limit and gives its last answer")
    if len(state.control.inbox) >= INBOX:
        raise SteerError(state.run, f"{INBOX} messages wait to be heard already")
    return RunSignalled(tuple(messages), by)


def pause_run(state: RunState, *, by: Principal, reason: str | None) -> PauseRequested | Already:
    """Have a run begin nothing more until it is resumed; for one over, being cancelled or paused nothing changes."""
    if state.ended or state.cancel is not None or state.control.pause is not None:
        return Already()
    return PauseRequested(by, reason)
