"""The rule for a journal that was put back to an older copy: whatever had been started there may have ended since."""

from __future__ import annotations

from collections.abc import Mapping

from trouper.core.action import Action
from trouper.core.action_events import ActionInterrupted
from trouper.core.effects import Effect
from trouper.core.state import Phase, RunState

_OPEN = frozenset({Phase.STARTED, Phase.INTERRUPTED, Phase.REPEAT})
_AHEAD = frozenset({Phase.PLANNED, Phase.AWAITING, Phase.APPROVED})


def under_way(action: Action) -> bool:
    """Whether a call is a write that was started and has no receipt, and that nothing marks as unknown yet."""
    return _is_write(action) and action.phase in _OPEN and action.cause != "restored"


def ahead(action: Action) -> bool:
    """Whether a call is a write that was not started, and may be: what became of it since, this copy cannot know."""
    return _is_write(action) and action.phase in _AHEAD and action.gate not in {"refused", "limit", "hook"}


def _is_write(action: Action) -> bool:
    return action.effect is not Effect.READ_ONLY and action.child is None


def unknown_since(state: RunState, started: Mapping[str, int], position: int) -> tuple[ActionInterrupted, ...]:
    """What must be recorded of a run's writes that were started and have no receipt.

    Calls that only read are run again as after any restart, requests under way are lost as after any restart, and
    sub-agents are found in their own streams.

    Args:
        state: The run.
        started: Position of each action's last start.
        position: Where it was accepted that the journal was put back: what was started later is not meant.
    """
    if state.ended:
        return ()
    return tuple(
        ActionInterrupted(action.action, action.attempt, "restored")
        for action in state.batch
        if under_way(action) and started.get(action.action, position) < position
    )
