"""The fold of what happens between a run and its children."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from trouper.core import child_events as ev
from trouper.core.evolve_actions import change_action
from trouper.core.evolve_budget import spent_below
from trouper.core.family import Child
from trouper.core.folding import changed
from trouper.core.state import Action, RunState, known


def _child_started(state: RunState, event: ev.ChildStarted) -> RunState:
    child = Child(event.run, event.agent, history=event.history)
    return change_action(state, event.action, lambda action: changed(action, child=child))


def _cancel_requested(state: RunState, event: ev.ChildCancelRequested) -> RunState:
    return _change(state, event, lambda child: evolve(child, cancelled=True))


def _child_finished(state: RunState, event: ev.ChildFinished) -> RunState:
    text, value = known(event.text, ""), known(event.value, None)
    action = state.action(event.action)
    if action is not None and action.child is not None and action.child.run == event.run and not action.child.ended:
        state = changed(state, budget=spent_below(state.budget, event.spent))
    return _change(
        state, event, lambda child: evolve(child, status=event.status, text=text, value=value, spent=event.spent)
    )


def _change(
    state: RunState, event: ev.ChildCancelRequested | ev.ChildFinished, change: Callable[[Child], Child]
) -> RunState:
    def of_action(action: Action) -> Action:
        child = action.child
        # What has ended stays as it ended.
        if child is None or child.run != event.run or child.ended:
            return action
        return changed(action, child=change(child))

    return change_action(state, event.action, of_action)


CHILD_STEPS: dict[type, Callable[..., RunState]] = {
    ev.ChildStarted: _child_started,
    ev.ChildCancelRequested: _cancel_requested,
    ev.ChildFinished: _child_finished,
}
