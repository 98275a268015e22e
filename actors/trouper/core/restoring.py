"""The rule for a journal that was put back to an older copy: whatever had been started there may have ended since."""

from __future__ import annotations

from collections.abc import Mapping

from trouper.core.action_events import ActionInterrupted
from trouper.core.effects import Effect
from trouper.core.state import Phase, RunState

_OPEN = frozenset({Phase.STARTED, Phase.INTERRUPTED, Phase.REPEAT})


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
        if action.phase in _OPEN
        and action.effect is not Effect.READ_ONLY
        and action.child is None
        and action.cause != "restored"
        and started.get(action.action, position) < position
    )
