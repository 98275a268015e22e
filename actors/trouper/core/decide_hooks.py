"""The rules of when hooks are called: once at each point, one point of a run at a time.

A point at which the agent has no hooks asks for no step at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from trouper.core.conversation import AI
from trouper.core.decide_actions import action_steps
from trouper.core.state import Halt, Phase, RunState
from trouper.core.steps import Close, Doubt, Fail, Plan, RequestModel, RunHook, Step


def halting(state: RunState, halt: Halt) -> tuple[Step, ...]:
    """Begin nothing more, let what is under way end, say what is in doubt, then fail; the rest stays as it is."""
    if any(action.phase is Phase.STARTED and action.child is None for action in state.batch):
        return ()
    # A call that is a run of its own, and that is started still, has ended: those that go on are stopped before this.
    over = {Phase.INTERRUPTED, Phase.RESOLVED, Phase.STARTED}
    cut_off = [action for action in state.batch if action.phase in over]
    steps = [
        step
        for action in cut_off
        for step in action_steps(action, state.tools.grants)
        if isinstance(step, Close | Doubt)
    ]
    return tuple(steps) or (Fail(halt.kind, halt.message),)


def after_reply(state: RunState) -> RunHook | None:
    """The hooks behind the model: as soon as its reply is there, before anything is done about it."""
    if "after_model" not in state.terms.hooks or state.batch or state.hooks.after >= state.index - 1:
        return None
    last = state.messages[-1] if state.messages else None
    answered = isinstance(last, AI) and last.id == f"{state.run}/{state.index - 1}"
    return RunHook("after_model", str(state.index - 1)) if answered else None


def before_calls(state: RunState, plans: Sequence[Plan]) -> tuple[Step, ...]:
    """The hooks before a tool: for each call in its order, before it is looked at."""
    if "before_tool" not in state.terms.hooks:
        return tuple(plans)
    ready: list[Step] = []
    tools = {name: asked.name for name, asked in state.unplanned}
    for plan in plans:
        # What hands in the output calls no tool.
        hooked = plan.refuse is None and not state.terms.hands_in(tools.get(plan.action, ""))
        if hooked and plan.action not in state.hooks.calls:
            return (*ready, RunHook("before_tool", plan.action))
        ready.append(plan)
    return tuple(ready)


def after_call(state: RunState) -> RunHook | None:
    """The hooks behind a tool: for each call that was made and is over, one after the other."""
    if "after_tool" not in state.terms.hooks:
        return None
    return next((RunHook("after_tool", action.action) for action in state.batch if action.unreviewed), None)


def on_error(state: RunState) -> RunHook | None:
    """The hooks about errors: after each attempt that failed."""
    call = state.model
    if call is None or call.phase != "failed" or "on_error" not in state.terms.hooks:
        return None
    place = (call.index, call.attempt)
    return None if state.hooks.error == place else RunHook("on_error", f"{call.index}.{call.attempt}")


def before_request(state: RunState, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The hooks before the model: for each call of it, and again if the conversation has changed since."""
    if "before_model" not in state.terms.hooks:
        return steps
    return tuple(
        RunHook("before_model", str(step.index), step.not_before)
        if isinstance(step, RequestModel) and state.hooks.before != (step.index, state.chain)
        else step
        for step in steps
    )
