"""The fold of what is particular to forks."""

from __future__ import annotations

import attrs

from trouper.core.action_events import ActionPlanned
from trouper.core.conversation import AI
from trouper.core.folding import changed
from trouper.core.fork import Fork, Forked
from trouper.core.state import RunState
from trouper.core.terms import AskedCall


def begun_as(state: RunState, fork: Fork) -> RunState:
    """A run that begins as a fork: where its history ends with calls, those are made first."""
    last = state.messages[-1] if state.messages else None
    state = changed(state, forked=Forked(fork))
    if not isinstance(last, AI) or not last.tool_calls:
        return state
    calls = tuple(
        (f"0.{number}", AskedCall(call.name, call.arguments, call.provider_id, dict(call.extra) or None))
        for number, call in enumerate(last.tool_calls)
    )
    return changed(state, index=1, unplanned=calls, forked=Forked(fork, replies=1))


def note_recorded(state: RunState, event: ActionPlanned) -> RunState:
    """A receipt on record answers one call."""
    if state.forked is None or event.recorded is None:
        return state
    return changed(state, forked=attrs.evolve(state.forked, used=(*state.forked.used, event.recorded)))
