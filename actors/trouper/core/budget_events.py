"""What happens to a run's budget: refused, warned of, raised."""

from __future__ import annotations

from attrs import field, frozen

from trouper.core.budget import Raise
from trouper.core.limits import OnLimit, Resource
from trouper.core.terms import Principal
from trouper_journal import Content, Plain, event


def _none() -> dict[str, int]:
    return {}


@event("budget.refused", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class BudgetRefused(Plain):
    """Something was not done, because a limit of the run, or of a run above it, would have been exceeded.

    Attributes:
        resource: What there was not enough of.
        owner: The run whose limit it is.
        limit: The limit; seconds are in nanoseconds.
        spent: What had been spent of it, by the owner and everything below it, reserves included.
        action: The call that was not started, where it is about one.
        tool: Its tool, where the limit is that of one tool: then only this call is refused.
        on_limit: What the owner's limits say is to happen.
        unpriced: There is a limit of cost, and the model has no price.
    """

    resource: Resource
    owner: str
    limit: int
    spent: int
    action: str | None = None
    tool: str | None = None
    on_limit: OnLimit = "raise"
    unpriced: bool = False


@event("budget.warned", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class BudgetWarned(Plain):
    """The model is told that something is running out.

    Attributes:
        limit: The limit; seconds are in nanoseconds.
        spent: What has been spent of it.
        text: What the model is told.
        owner: Empty where it is the run's own limit; else the run above it whose limit it is.
    """

    resource: Resource
    limit: int
    spent: int
    text: Content[str] = ""
    owner: str = ""


@event("budget.raised", schema=1)
@frozen(slots=False, repr=False, eq=False)
class BudgetRaised(Plain):
    """The run may go further; one that waits or failed at such a limit goes on.

    Attributes:
        steps: How many more super-steps.
        model_calls: How many more model calls.
        tool_calls: How many more calls of tools, all together.
        by_tool: How many more calls of single tools.
        tokens: How many more tokens.
        cost: How many more nano-units.
        seconds: How much more wall time.
        deadline: When the time is up from now on (ns UTC), where ``seconds`` is set and the run has been taken up.
        owner: Empty where it is about the run's own limits; else the run above it whose limits were raised, so that
            what had been refused to this run can be asked for again.
    """

    steps: int = 0
    by: Content[Principal | None] = None
    reason: Content[str | None] = None
    model_calls: int = 0
    tool_calls: int = 0
    by_tool: dict[str, int] = field(factory=_none)
    tokens: int = 0
    cost: int = 0
    seconds: float = 0.0
    deadline: int | None = None
    owner: str = ""

    @property
    def more(self) -> Raise:
        """By how much; anyone may append the event, so that what is no raise counts for nothing."""
        return Raise(
            self.steps, self.model_calls, self.tool_calls, self.by_tool, self.tokens, self.cost, self.seconds
        ).checked
