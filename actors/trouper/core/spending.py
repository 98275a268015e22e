"""What a run has spent and reserved, from its state alone."""

from __future__ import annotations

import attrs

from trouper.core.budget import Spent
from trouper.core.state import RunState


def bound(state: RunState) -> Spent:
    """What the run itself has spent or reserved."""
    spent, reserve = state.own_spent, state.budget.reserve
    if reserve is None:
        return spent
    return attrs.evolve(spent, assumed_tokens=spent.assumed_tokens + reserve.tokens, cost=spent.cost + reserve.cost)


def bound_in_all(state: RunState) -> Spent:
    """The same, with what finished sub-agents have spent."""
    return bound(state) + state.budget.below
