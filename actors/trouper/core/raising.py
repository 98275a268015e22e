"""Raising limits, as a pure rule: what may be raised, and what goes on by that."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import fields

from trouper.core.budget import Raise
from trouper.core.events import BudgetRaised, Principal
from trouper.core.evolve_budget import LIMIT_FAILURES
from trouper.core.limits import SECOND, Limits, Resource
from trouper.core.state import RunState
from trouper.errors import TrouperError

_COUNTS: Mapping[Resource, tuple[str, str]] = {
    "model_calls": ("max_model_calls", "model calls"),
    "tool_calls": ("max_tool_calls", "tool calls"),
    "tokens": ("max_tokens", "tokens"),
    "cost": ("max_cost", "cost"),
}


def limit_of(state: RunState) -> str:
    """The limit at which a run stands, in words."""
    refusal = state.budget.refused
    if refusal is None:
        return "step limit"
    whose = "" if refusal.owner == state.run else f" (that of run {refusal.owner}, above it)"
    return f"limit of {refusal.resource.replace('_', ' ')}{whose}"


def raise_limit(state: RunState, more: Raise | int, *, by: Principal, reason: str | None, now: int = 0) -> BudgetRaised:
    """Allow a run more; one that waits, or failed, at such a limit goes on.

    Args:
        state: The run.
        more: By how much; a number alone is one of steps.
        by: Who allows it.
        reason: Why.
        now: Now (ns UTC): time that is up already begins anew from here.

    Raises:
        TrouperError: The run is over for another reason, there is no such limit to raise, or nothing would be raised.
    """
    wish = more if isinstance(more, Raise) else Raise(steps=more)
    _check_amounts(state, wish)
    check_not_handed_on(state)
    if state.ended and state.failure not in LIMIT_FAILURES:
        raise TrouperError(f"run {state.run} is over ({state.phase.value}): raising its limit would change nothing")
    if state.limits is not None and state.started:
        _check_limits(state, state.limits, wish)
    if state.ended:
        _check_mends(state, wish)
    deadline = state.budget.deadline
    if deadline is not None and wish.seconds:
        refusal = state.budget.refused
        up = refusal is not None and refusal.resource == "seconds"
        deadline = (max(now, deadline) if up else deadline) + int(wish.seconds * SECOND)
    else:
        deadline = None
    return BudgetRaised(
        wish.steps,
        by,
        reason,
        wish.model_calls,
        wish.tool_calls,
        dict(wish.by_tool),
        wish.tokens,
        wish.cost,
        float(wish.seconds),
        deadline,
    )


def check_not_handed_on(state: RunState) -> None:
    """A sub-agent's run that is over cannot go on: its caller has been told how it ended.

    Raises:
        TrouperError: It is such a run.
    """
    if state.handed_on and state.family.parent is not None:
        parent = state.family.parent.run
        raise TrouperError(f"run {state.run} is over, and run {parent}, which called it, was told so: it cannot go on")


def _check_amounts(state: RunState, wish: Raise) -> None:
    numbers: dict[str, object] = {attribute.name: getattr(wish, attribute.name) for attribute in fields(Raise)}
    tools = numbers.pop("by_tool")
    if not isinstance(tools, Mapping):
        raise _refusal(state, "calls of tools", tools)
    numbers.update({f"calls of {tool}": calls for tool, calls in tools.items()})
    for name, number in numbers.items():
        kinds = int | float if name == "seconds" else int
        if not isinstance(number, kinds) or isinstance(number, bool) or not 0 <= number < math.inf:
            raise _refusal(state, name, number)
    if all(not number for number in numbers.values()):
        raise _refusal(state, "steps", wish.steps)


def _refusal(state: RunState, name: str, number: object) -> TrouperError:
    least = "1 step" if name == "steps" else "a number above 0"
    what = "" if name == "steps" else f" of {name.replace('_', ' ')}"
    return TrouperError(f"the limit{what} of run {state.run} can only be raised, by at least {least}, not by {number}")


def _check_limits(state: RunState, limits: Limits, wish: Raise) -> None:
    """What has no limit cannot be raised: whoever tries has something else in mind."""
    for resource, (name, word) in _COUNTS.items():
        if wish.raises(resource) and getattr(limits, name) is None:
            raise TrouperError(f"run {state.run} has no limit of {word} that could be raised{_elsewhere(state)}")
    if wish.seconds and limits.max_seconds is None:
        raise TrouperError(f"run {state.run} has no limit of time that could be raised")
    for tool in wish.by_tool:
        if tool not in limits.tool_calls:
            raise TrouperError(f"run {state.run} has no limit of calls of {tool} that could be raised")


def _elsewhere(state: RunState) -> str:
    """Where the limit is that holds a run, if it is that of a run above it."""
    refusal = state.budget.refused
    return "" if refusal is None or refusal.owner == state.run else f"; it is at the {limit_of(state)}: raise that one"


def _check_mends(state: RunState, wish: Raise) -> None:
    """A run that failed at one limit does not go on by raising another."""
    refusal = state.budget.refused
    resource: Resource = "steps" if state.failure == "step_limit" or refusal is None else refusal.resource
    if refusal is not None and state.failure == "budget" and refusal.owner != state.run:
        raise TrouperError(f"run {state.run} is at its {limit_of(state)}: raise it there")
    if not wish.raises(resource):
        raise TrouperError(f"run {state.run} is at its {limit_of(state)}: raise that to let it go on")
