"""The rules: ``decide(state) -> steps``, what must happen now, from the state alone.

A request or an attempt that is under way asks for no step: its outcome will come as an event. The rules have a number;
a change that alters the steps of any recorded run raises it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from trouper.core import wording
from trouper.core.budget import Refusal
from trouper.core.decide_actions import LOSSES, action_steps, cancel_action
from trouper.core.decide_budget import (
    alarm,
    at_step_limit,
    call_steps,
    holds,
    may_end,
    request_steps,
    time_is_up,
    wind_down,
)
from trouper.core.decide_children import children_first, waits_for_child
from trouper.core.decide_control import deadline, hears, held_back
from trouper.core.decide_hooks import after_call, after_reply, before_calls, before_request, halting, on_error
from trouper.core.decide_output import ending, held_outputs
from trouper.core.decide_session import abandon_summary, before_start
from trouper.core.decide_tools import before_binding
from trouper.core.state import Action, RunState
from trouper.core.steps import AbandonModel, EndCancelled, Fail, Plan, RequestModel, Step

RULES = 1
"""Number of the rules below."""

# A model that is cut off while calling tools is asked this often in a row to be shorter.
TRUNCATIONS = 3


def decide(state: RunState) -> tuple[Step, ...]:
    """What must happen now; empty while outcomes, people or nothing at all are waited for."""
    if state.ended:
        return ()
    if state.stopping:
        return tuple(_stopping(state))
    if state.drift is not None:
        return deadline(state)
    steps = _going_on(state)
    if state.batch or state.control.pause is not None:
        steps = held_back(state, steps)
    return steps if state.control.deadline is None else (*deadline(state), *steps)


def _going_on(state: RunState) -> tuple[Step, ...]:
    if not state.started:
        return before_start(state.turn, state.control.start_at)
    if state.halt is not None and (first := children_first(state)) is not None:
        return first
    if state.halt is not None:
        return halting(state, state.halt)
    if state.budget.refused is not None and time_is_up(state):
        # No reply is the output, or is shown again, before the hooks behind the model have seen it.
        if (hook := after_reply(state)) is not None:
            return (hook,)
        return tuple(wind_down(state)) or _out_of_time(state, state.budget.refused)
    if state.budget.deadline is not None:
        return (*_working(state), *alarm(state))
    return _working(state)


def _out_of_time(state: RunState, refusal: Refusal) -> tuple[Step, ...]:
    """Nothing is under way any more."""
    if not may_end(state):
        return _working(state)
    if state.batch:
        # Calls that no hook has seen, or that are in doubt: nothing may be said before they have their answers.
        return (Fail("budget", wording.over_budget(refusal, state.run)),)
    return before_request(state, _conversation(state))


def _working(state: RunState) -> tuple[Step, ...]:
    # A run without any of this is looked at a dozen times too: what its agent does not have is not asked for.
    hooks = state.terms.hooks
    if hooks and (hook := after_reply(state)) is not None:
        return (hook,)
    if state.unplanned:
        plans = [Plan(name, _refusal(state, call.name)) for name, call in state.unplanned]
        plans = [plan for plan in plans if plan.refuse is None or not holds(state, plan)]
        return before_calls(state, plans) if hooks else tuple(plans)
    if state.batch:
        hook = after_call(state) if hooks else None
        grants = state.tools.grants
        steps = tuple(call_steps(state, (step for action in state.batch for step in action_steps(action, grants))))
        return (*steps, *held_outputs(state)) if hook is None else (*steps, hook)
    steps = _conversation(state)
    if hooks:
        steps = before_request(state, steps)
    return before_binding(state, steps) if state.terms.binds else steps


def _refusal(state: RunState, tool: str) -> Literal["limit", "truncated", "refused"] | None:
    if not state.terms.hands_in(tool):
        first = _first_call(state)
        if state.closing or (at_step_limit(state) if first is None else first.gate == "limit"):
            return "limit"
    if state.answer.refused:
        return "refused"
    return "truncated" if state.truncated else None


def _first_call(state: RunState) -> Action | None:
    """The first call of the batch that is more than the final output."""
    return next((action for action in state.batch if not state.terms.hands_in(action.tool)), None)


def _conversation(state: RunState) -> tuple[Step, ...]:
    """Between batches: ask the model, or end."""
    call = state.model
    if call is not None and call.phase == "requested":
        return ()
    if heard := hears(state):
        return heard
    if call is not None:
        if (hook := on_error(state)) is not None:
            return (hook,)
        attempts = state.limits.model_attempts if state.limits else 1
        if call.phase == "failed" and (call.retry_at is None or call.attempt - call.spent >= attempts):
            return (Fail("model", call.message),)
        if call.phase == "lost" and call.attempt - call.spent >= attempts + LOSSES:
            return (Fail("model", wording.lost(call.attempt)),)
        return request_steps(state, RequestModel(call.index, call.attempt + 1, call.closing, call.retry_at))
    if state.index > 0 and (step := ending(state)) is not None:
        return (step,)
    if state.truncations >= TRUNCATIONS:
        return (Fail("truncated", wording.cut_off(state.truncations)),)
    if at_step_limit(state):
        if state.limits is not None and state.limits.on_limit == "finish":
            return request_steps(state, RequestModel(state.index, 1, closing=True))
        if state.limits is not None and state.limits.on_limit == "wait":
            return ()
        return (Fail("step_limit", wording.step_limit(state.steps)),)
    return request_steps(state, RequestModel(state.index, 1))


def _stopping(state: RunState) -> Iterator[Step]:
    """Start nothing more, let what is under way come to a known end, close the rest, then end."""
    open_ones = False
    if state.model is not None and state.model.phase == "requested":
        open_ones = True
        yield AbandonModel(state.model.index, state.model.attempt)
    if (abandon := abandon_summary(state.turn)) is not None:
        open_ones = True
        yield abandon
    for name, _ in state.unplanned:
        open_ones = True
        yield Plan(name, "deadline" if state.cancel is None else "cancelled")
    for action in state.batch:
        step = cancel_action(state, action)
        if step is not None:
            open_ones = True
            yield step
        elif waits_for_child(action):
            open_ones = True
    if not open_ones:
        yield Fail("deadline", wording.DEADLINE) if state.cancel is None else EndCancelled()
