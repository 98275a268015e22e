"""The rules of limits: what may still be spent, and what happens where it may not.

A limit is looked at before the spend. What does not fit is first recorded as refused, whoever's limit it is; from then
on the run raises, finishes or waits, as the owner of the limit wants it, until there is more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trouper.core import wording
from trouper.core.budget import Refusal
from trouper.core.decide_actions import cancel_action
from trouper.core.limits import Limits, OnLimit, Resource
from trouper.core.state import Phase, RunState
from trouper.core.steps import (
    AbandonModel,
    AskApproval,
    Authorize,
    Close,
    Fail,
    Plan,
    Refuse,
    RequestModel,
    StartAction,
    Step,
    Warn,
)


def at_step_limit(state: RunState) -> bool:
    """Whether all super-steps are taken."""
    return state.limits is not None and state.steps >= state.limits.max_steps


def on_limit(state: RunState, refusal: Refusal) -> OnLimit:
    """What is to happen at a limit: of a run above this one, only to wait with it, or to fail as its child."""
    if refusal.owner != state.run:
        return "wait" if refusal.on_limit == "wait" else "raise"
    return state.limits.on_limit if state.limits is not None else "raise"


def stalled(state: RunState) -> bool:
    """Whether a run waits for more of something."""
    if not state.started or state.limits is None or state.ended or state.cancel is not None:
        return False
    refusal = state.budget.refused
    if refusal is not None:
        return on_limit(state, refusal) == "wait"
    # A request that failed is sent again as the same step.
    between = state.model is None and (bool(state.unplanned) or not state.batch)
    return between and at_step_limit(state) and state.limits.on_limit == "wait"


def holds(state: RunState, plan: Plan) -> bool:
    """Whether a call of the last reply waits for more steps instead of being closed unseen."""
    waits = state.limits is not None and state.limits.on_limit == "wait" and not state.closing
    return waits and plan.refuse == "limit"


# ---- time


def time_is_up(state: RunState) -> bool:
    """Whether the time is up and the run is to be brought to its end."""
    refusal = state.budget.refused
    return (
        refusal is not None
        and refusal.resource == "seconds"
        and not state.closing
        and on_limit(state, refusal) != "wait"
    )


def alarm(state: RunState) -> tuple[Step, ...]:
    """The step that is due when the run's time is up."""
    deadline, limits = state.budget.deadline, state.limits
    if deadline is None or limits is None or limits.nanoseconds is None or state.closing:
        return ()
    refusal = state.budget.refused
    if refusal is not None and refusal.resource == "seconds":
        return ()
    return (Refuse("seconds", limits.nanoseconds, limits.nanoseconds, None, deadline),)


def wind_down(state: RunState) -> Iterator[Step]:
    """Start nothing more, let what is under way come to a known end, and close the rest."""
    if state.model is not None and state.model.phase == "requested":
        yield AbandonModel(state.model.index, state.model.attempt)
    for name, _ in state.unplanned:
        yield Plan(name, "limit")
    for action in state.batch:
        step = cancel_action(state, action)
        if step is not None:
            yield step


# ---- model calls


def request_steps(state: RunState, request: RequestModel) -> tuple[Step, ...]:
    """A request, if the run may still make one."""
    limits, refusal = state.limits, state.budget.refused
    if limits is None:
        return (request,)
    if request.closing and (refusal is None or refusal.owner == state.run):
        return (request,)
    if refusal is not None:
        return _instead(state, request, refusal)
    if request.attempt == 1:
        spent = state.model_calls + state.budget.below.model_calls
        if limits.max_model_calls is not None and spent >= limits.max_model_calls:
            return (Refuse("model_calls", limits.max_model_calls, spent),)
        if limits.soft is not None:
            return (*_warnings(state, limits, limits.soft), request)
    return (request,)


def _instead(state: RunState, request: RequestModel, refusal: Refusal) -> tuple[Step, ...]:
    match on_limit(state, refusal):
        case "wait":
            return ()
        case "finish":
            return (RequestModel(request.index, request.attempt, closing=True, not_before=request.not_before),)
        case _:
            return (Fail("budget", wording.over_budget(refusal, state.run)),)


def _warnings(state: RunState, limits: Limits, soft: float) -> Iterator[Step]:
    """What is running out and the model was not told of."""
    spent, warned = state.spent, state.budget.warned
    used: tuple[tuple[Resource, int | None, int], ...] = (
        ("steps", limits.max_steps, state.steps),
        ("model_calls", limits.max_model_calls, spent.model_calls),
        ("tool_calls", limits.max_tool_calls, spent.tool_calls),
        ("tokens", limits.max_tokens, spent.tokens),
        ("cost", limits.max_cost, spent.cost),
    )
    for resource, limit, so_far in used:
        if limit is not None and so_far >= soft * limit and resource not in warned:
            yield Warn(resource, limit, so_far)
    deadline, limit = state.budget.deadline, limits.nanoseconds
    if deadline is not None and limit is not None and "seconds" not in warned:
        yield Warn("seconds", limit, int(soft * limit), deadline - limit + int(soft * limit))


# ---- calls of tools


def call_steps(state: RunState, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps of a batch, as far as the limits of tool calls and a refusal allow.

    What is beyond a limit is refused only when no earlier call of the batch is about to be started: each start counts
    exactly, and may still come to nothing.
    """
    limits, refusal = state.limits, state.budget.refused
    if limits is None or not (limits.counts_tools or refusal is not None):
        yield from steps
        return
    spent = state.spent
    starting: Counter[str] = Counter()
    for step in steps:
        action = state.action(step.action) if isinstance(step, StartAction | AskApproval | Authorize) else None
        if action is None:
            yield step
        elif action.attempt > 0:
            if not _out_of_time(refusal):
                yield step
        elif (limit := limits.tool_calls.get(action.tool)) is not None and (
            spent.by_tool.get(action.tool, 0) + starting[action.tool] >= limit
        ):
            if not starting[action.tool]:
                yield Close(action.action, 0, "error", "not_started", wording.tool_limit(action.tool, limit))
        elif refusal is not None and (refusal.resource == "tool_calls" or _out_of_time(refusal)):
            if on_limit(state, refusal) != "wait":
                yield Close(action.action, 0, "error", "not_started", wording.not_afforded(refusal))
        elif limits.max_tool_calls is not None and spent.tool_calls + starting.total() >= limits.max_tool_calls:
            if not starting:
                yield Refuse("tool_calls", limits.max_tool_calls, spent.tool_calls, action.action)
                return
        else:
            if isinstance(step, StartAction):
                starting[action.tool] += 1
            yield step


def _out_of_time(refusal: Refusal | None) -> bool:
    return refusal is not None and refusal.resource == "seconds"


def may_end(state: RunState) -> bool:
    """Whether a run whose time is up is wound down; one last request cannot be made while a call is in doubt."""
    refusal = state.budget.refused
    if not state.batch or (refusal is not None and on_limit(state, refusal) == "raise"):
        return all(action.phase in {Phase.CLOSED, Phase.UNRESOLVED} for action in state.batch)
    return False
