"""The fold of what is found out about calls and tools outside of the rules."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import tool_events as ev
from trouper.core.evolve_actions import change_action
from trouper.core.folding import advanced, changed
from trouper.core.state import Phase, RunState, known
from trouper.core.tooling import Denial


def _authorized(state: RunState, event: ev.ActionAuthorized) -> RunState:
    return change_action(state, event.action, lambda action: changed(action, authorize=False))


def _denied(state: RunState, event: ev.ActionDenied) -> RunState:
    denial = Denial(event.policy, event.missing, known(event.reason, ""))
    return change_action(state, event.action, lambda action: changed(action, phase=Phase.FORBIDDEN, denial=denial))


def _bound(state: RunState, event: ev.ToolsBound) -> RunState:
    error = known(event.error, "") or "its tools could not be chosen" if event.failed else ""
    tools = attrs.evolve(state.tools, bound=event.tools, bound_for=event.index, misbound=error)
    return advanced(state, tools=tools)


TOOL_STEPS: dict[type, Callable[..., RunState]] = {
    ev.ActionAuthorized: _authorized,
    ev.ActionDenied: _denied,
    ev.ToolsBound: _bound,
}
