"""Plans what happens to calls that sleep."""

from __future__ import annotations

from trouper._moments import iso
from trouper.core import events as ev
from trouper.core.state import Action
from trouper.runtime.launches import NOTHING, Plan


def fire(action: Action, now: int) -> Plan:
    """Wake a call, and say what time it is."""
    if action.sleep is None:
        return NOTHING
    said = f"{action.sleep.text} " if action.sleep.text else ""
    return Plan((ev.TimerFired(action.action, action.attempt, f"{said}It is now {iso(now)}."),))
