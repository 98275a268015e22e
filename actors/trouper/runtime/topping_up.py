"""What a raised limit means to the runs below it: those that it held back are told, in the same commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trouper.core.events import BudgetRaised
from trouper.core.state import RunState
from trouper.core.status import AWAITING, IN_DOUBT, OVER_BUDGET, PAUSED, WAITING_FOR_CHILD
from trouper.runtime.ledger import BELOW
from trouper.runtime.steering import write_of
from trouper_journal import Journal, Write

# Some wait for people, or for runs of their own, beside what they were refused.
_MAY_BE_HELD = frozenset({OVER_BUDGET, AWAITING, IN_DOUBT, PAUSED, WAITING_FOR_CHILD})


async def released(
    journal: Journal, load: Callable[[str], Awaitable[RunState]], owner: str, raised: BudgetRaised
) -> list[Write]:
    """Word to the runs below that wait because something was refused to them by a limit that is raised."""
    writes: list[Write] = []
    async for head in journal.streams(prefix=f"run/{owner}{BELOW}"):
        if head.label not in _MAY_BE_HELD:
            continue
        state = await load(head.stream.removeprefix("run/"))
        refusal = state.budget.refused
        if refusal is not None and refusal.owner == owner and raised.more.raises(refusal.resource):
            writes.append(write_of(state, BudgetRaised(by=raised.by, reason=raised.reason, owner=owner)))
    return writes
