"""The fold of what hooks did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from trouper.core.evolve_actions import after_review
from trouper.core.folding import advanced, changed
from trouper.core.hook_events import HookApplied
from trouper.core.hook_ops import Answer, Drop, Insert, Op, Replace, SetArguments, UseModel
from trouper.core.hooking import CallEdit, HookState, extended
from trouper.core.state import Halt, ModelCall, RunState, Usage, known
from trouper_journal import Erased


def _applied(state: RunState, event: HookApplied) -> RunState:
    ops = [op for done in known(event.done, ()) for op in done.ops]
    usage = Usage(
        state.usage.input_tokens + event.input_tokens,
        state.usage.output_tokens + event.output_tokens,
        state.usage.unknown + event.unknown,
    )
    state = changed(state, usage=usage, erased=state.erased or isinstance(event.done, Erased))
    if event.model_calls or event.replied:
        state = _spent(state, event)
    if event.overtaken:
        return advanced(state)
    if event.failed:
        # What it asked for besides is not done: the hooks of this point are called again if the run is resumed.
        return advanced(state, halt=Halt("hook", known(event.reason, "")))
    state = _shown(state, ops)
    match event.point:
        case "before_model":
            return advanced(_before_model(state, int(event.subject), ops, replied=event.replied))
        case "after_model":
            return advanced(state, hooks=attrs.evolve(state.hooks, after=int(event.subject)))
        case "before_tool":
            return advanced(state, hooks=_before_tool(state, event.subject, ops))
        case "after_tool":
            return after_review(state, event.subject, _answer(ops))
        case _:
            return advanced(_on_error(state, event.subject, ops))


def _spent(state: RunState, event: HookApplied) -> RunState:
    hooks = attrs.evolve(
        state.hooks,
        asked=state.hooks.asked + event.model_calls,
        unpriced=state.hooks.unpriced + event.unpriced,
        answered=state.hooks.answered + (event.replied and not event.failed),
    )
    budget = attrs.evolve(state.budget, cost=state.budget.cost + event.cost) if event.cost else state.budget
    return changed(state, hooks=hooks, budget=budget)


def _shown(state: RunState, ops: Sequence[Op]) -> RunState:
    messages = tuple(op for op in ops if isinstance(op, Drop | Insert | Replace))
    if not messages:
        return state
    hooks = attrs.evolve(state.hooks, ops=state.hooks.ops + messages)
    return changed(state, hooks=hooks, chain=extended(state.chain, state.salt, messages))


def _before_model(state: RunState, index: int, ops: Sequence[Op], *, replied: bool) -> RunState:
    hooks, steps = attrs.evolve(state.hooks, before=(index, state.chain)), state.steps
    chosen = _chosen(ops)
    if chosen is not None and not (hooks.chosen(index) and hooks.model is not None and hooks.model[2]):
        hooks = attrs.evolve(hooks, model=(index, chosen.name, False))
    if state.model is not None or not replied:
        return changed(state, hooks=hooks)
    # No request will count for it, and a hook that asks for calls for ever must come to the limit too.
    closing = state.limits is not None and steps >= state.limits.max_steps
    return changed(state, hooks=hooks, steps=steps if closing else steps + 1, closing=closing)


def _before_tool(state: RunState, name: str, ops: Sequence[Op]) -> HookState:
    edit = CallEdit()
    for op in ops:
        if isinstance(op, SetArguments):
            edit = attrs.evolve(edit, arguments=op.arguments)
        elif isinstance(op, Answer):
            edit = attrs.evolve(edit, answer=op.text, ok=op.ok)
    passed = dict(state.hooks.passed)
    if edit.answer is None:
        tool = next((asked.name for found, asked in state.unplanned if found == name), "")
        passed[tool] = passed.get(tool, 0) + 1
    return attrs.evolve(state.hooks, calls={**state.hooks.calls, name: edit}, passed=passed)


def _answer(ops: Sequence[Op]) -> tuple[str, bool] | None:
    return next(((op.text, op.ok) for op in reversed(ops) if isinstance(op, Answer)), None)


def _chosen(ops: Sequence[Op]) -> UseModel | None:
    return next((op for op in reversed(ops) if isinstance(op, UseModel)), None)


def _on_error(state: RunState, subject: str, ops: Sequence[Op]) -> RunState:
    index, _, attempt = subject.partition(".")
    place = (int(index), int(attempt))
    hooks = attrs.evolve(state.hooks, error=place, tried=_tried(state.hooks, place[0]))
    call, chosen = state.model, _chosen(ops)
    # A model that failed at this call is not asked again for it by a hook: so that no hook can ask for ever.
    if chosen is not None and call is not None and chosen.name not in hooks.tried[1]:
        hooks = attrs.evolve(hooks, model=(place[0], chosen.name, True))
        call = _afresh(call)
    return changed(state, hooks=hooks, model=call)


def _tried(hooks: HookState, index: int) -> tuple[int, tuple[str, ...]]:
    before = hooks.tried[1] if hooks.tried[0] == index else ()
    return index, (*before, hooks.chosen(index))


def _afresh(call: ModelCall) -> ModelCall:
    """The call with another model: attempts so far no longer count, and it need not wait."""
    return attrs.evolve(call, phase="lost", retry_at=None, spent=call.attempt)


HOOK_STEPS: dict[type, Callable[..., RunState]] = {HookApplied: _applied}
