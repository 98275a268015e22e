"""The fold of what a run spends: reserved before, settled after, given back, or held."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import budget_events as ev
from trouper.core.budget import NO_BUDGET, NO_RAISE, NOTHING_SPENT, Budget, Raise, Refusal, Spent
from trouper.core.conversation import System
from trouper.core.events import ModelRequested, ModelResponded, RunStarted
from trouper.core.folding import advanced, changed, say
from trouper.core.limits import SECOND, Limits
from trouper.core.state import Action, RunPhase, RunState, known

LIMIT_FAILURES = frozenset({"step_limit", "budget"})
"""Kinds of failure that a raised limit mends."""


def begun(state: RunState, event: RunStarted) -> tuple[Limits, Budget]:
    """Limits and budget of a run that is taken up: what was raised before comes on top."""
    promised, deadline = state.budget.promised, event.deadline
    if deadline is not None:
        deadline += int(promised.seconds * SECOND)
    elif state.budget is NO_BUDGET:
        return event.limits, state.budget
    return raised(event.limits, promised), attrs.evolve(state.budget, deadline=deadline, promised=NO_RAISE)


def reserved(budget: Budget, event: ModelRequested) -> Budget:
    """A request went out: what it may come to counts as spent until its outcome is known."""
    return budget if event.reserve is budget.reserve else attrs.evolve(budget, reserve=event.reserve)


def settled(budget: Budget, event: ModelResponded) -> Budget:
    """The reply is there: what it took stands in the place of what was reserved."""
    if budget.reserve is None and event.cost is None and not event.cached_tokens and not event.assumed_tokens:
        return budget
    return attrs.evolve(
        budget,
        reserve=None,
        cached_tokens=budget.cached_tokens + (event.cached_tokens or 0),
        assumed_tokens=budget.assumed_tokens + event.assumed_tokens,
        cost=budget.cost + (event.cost or 0),
        priced=budget.priced + (event.cost is not None),
    )


def given_back(budget: Budget) -> Budget:
    """The request is known to have failed: nothing was spent."""
    return budget if budget.reserve is None else attrs.evolve(budget, reserve=None)


def called(budget: Budget, action: Action) -> Budget:
    """An attempt at a call begins; another attempt is the same call."""
    if action.attempt > 0:
        return budget
    tools = {**budget.by_tool, action.tool: budget.by_tool.get(action.tool, 0) + 1}
    return changed(budget, tool_calls=budget.tool_calls + 1, by_tool=tools)


def spent_below(budget: Budget, spent: Spent) -> Budget:
    """A sub-agent has ended: what it and everything below it has spent is spent here too."""
    return budget if spent == NOTHING_SPENT else changed(budget, below=budget.below + spent)


def raised(limits: Limits, more: Raise) -> Limits:
    """The limits with more of what is limited."""

    def plus(limit: int | None, extra: int) -> int | None:
        return None if limit is None else limit + extra

    return attrs.evolve(
        limits,
        max_steps=limits.max_steps + more.steps,
        max_model_calls=plus(limits.max_model_calls, more.model_calls),
        max_tool_calls=plus(limits.max_tool_calls, more.tool_calls),
        tool_calls={name: calls + more.by_tool.get(name, 0) for name, calls in limits.tool_calls.items()},
        max_tokens=plus(limits.max_tokens, more.tokens),
        max_cost=plus(limits.max_cost, more.cost),
        max_seconds=None if limits.max_seconds is None else limits.max_seconds + more.seconds,
    )


def _refused(state: RunState, event: ev.BudgetRefused) -> RunState:
    if event.tool is not None:
        # Only that call is refused; its receipt follows.
        return advanced(state)
    refusal = Refusal(event.resource, event.owner, event.limit, event.spent, None, event.on_limit, event.unpriced)
    return advanced(state, budget=attrs.evolve(state.budget, refused=refusal))


def _warned(state: RunState, event: ev.BudgetWarned) -> RunState:
    told = System(id=f"{state.run}/budget-{state.version + 1}", content=known(event.text, ""))
    messages, chain = say(state, (told,))
    budget = state.budget
    if event.owner:
        above = (event.owner, event.resource, event.limit)
        budget = attrs.evolve(budget, warned_above=(*budget.warned_above, above))
    else:
        budget = attrs.evolve(budget, warned=(*budget.warned, event.resource))
    return advanced(state, messages=messages, chain=chain, budget=budget)


def _raised(state: RunState, event: ev.BudgetRaised) -> RunState:
    if state.handed_on:
        return advanced(state)
    budget, more, refused = state.budget, event.more, state.budget.refused
    if event.owner:
        cleared = refused is not None and refused.owner == event.owner
    else:
        cleared = refused is not None and refused.owner == state.run and more.raises(refused.resource)
        if not state.started or state.limits is None:
            # The limits are pinned when the run is taken up; until then only the difference is known.
            return advanced(state, budget=attrs.evolve(budget, promised=budget.promised + more))
        warned = tuple(resource for resource in budget.warned if not more.raises(resource))
        deadline = budget.deadline
        if deadline is not None and event.deadline is not None and more.seconds:
            deadline = max(deadline, event.deadline)
        budget = attrs.evolve(budget, warned=warned, deadline=deadline)
        state = changed(state, limits=raised(state.limits, more))
    if cleared:
        budget = attrs.evolve(budget, refused=None)
    state = changed(state, budget=budget)
    failed = state.phase is RunPhase.FAILED
    if failed and (cleared if state.failure == "budget" else state.failure == "step_limit" and more.steps > 0):
        return advanced(state, phase=RunPhase.RUNNING, failure=None, failure_message="", truncations=0)
    return advanced(state)


BUDGET_STEPS: dict[type, Callable[..., RunState]] = {
    ev.BudgetRefused: _refused,
    ev.BudgetWarned: _warned,
    ev.BudgetRaised: _raised,
}
