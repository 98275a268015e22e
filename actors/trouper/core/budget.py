"""What runs spend: the sums that limits are held against, and what they cost.

Counts are exact. Tokens are the provider's where it told, and a documented estimate where it did not; an estimate is
never silent: `Spent.unknown` says how many requests it stands for. Money is in whole nano-units of a currency (one
unit is 1,000,000,000 of them), so that sums are exact on every machine.
"""

from __future__ import annotations

from typing import Final

import attrs
from attrs import field, frozen

from trouper.core.limits import OnLimit, Resource
from trouper_journal import Plain


def _none() -> dict[str, int]:
    return {}


@frozen(repr=False, eq=False)
class Spent(Plain):
    """What a run, or a run and everything below it, has spent.

    Attributes:
        model_calls: Model calls. A request that failed or was lost and is sent again is the same call.
        tool_calls: Calls of tools that were started. Another attempt at a call is the same call.
        by_tool: The same for each tool, by name.
        input_tokens: Tokens of requests, as far as providers told.
        output_tokens: Tokens of replies, as far as providers told.
        cached_tokens: Those of ``input_tokens`` that the provider had cached, as far as it told.
        assumed_tokens: Tokens reckoned with where nobody told: for replies without usage, and for requests that went
            out and whose replies nobody will ever know.
        unknown: How many replies and lost requests told no tokens: their share is an estimate, or (where no limit asks
            for tokens or cost) not in the sums at all.
        cost: Cost in nano-units, estimates included.
        unpriced: How many replies have no price: what they cost is unknown, not zero.
    """

    model_calls: int = 0
    tool_calls: int = 0
    by_tool: dict[str, int] = field(factory=_none)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    assumed_tokens: int = 0
    unknown: int = 0
    cost: int = 0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, estimates included: what a limit of tokens is held against."""
        return self.input_tokens + self.output_tokens + self.assumed_tokens

    def __add__(self, other: Spent) -> Spent:
        tools = dict(self.by_tool)
        for name, calls in other.by_tool.items():
            tools[name] = tools.get(name, 0) + calls
        return Spent(
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            tools,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.assumed_tokens + other.assumed_tokens,
            self.unknown + other.unknown,
            self.cost + other.cost,
            self.unpriced + other.unpriced,
        )


NOTHING_SPENT: Final = Spent()


@frozen(slots=False, repr=False, eq=False)
class Reserve(Plain):
    """What a request may come to, before it is sent: it counts as spent until the reply is there.

    Attributes:
        input_tokens: Estimate of its tokens.
        output_tokens: The most that its reply may have.
        cost: What that would cost, in nano-units.
        price: Id of the price entry that this was reckoned by.
    """

    input_tokens: int
    output_tokens: int
    cost: int = 0
    price: str | None = None

    @property
    def tokens(self) -> int:
        """Both together."""
        return self.input_tokens + self.output_tokens


@frozen(slots=False, repr=False, eq=False)
class Refusal(Plain):
    """What could not be spent.

    Attributes:
        resource: What there was not enough of.
        owner: The run whose limit it is: the run itself, or one above it.
        limit: The limit; seconds are in nanoseconds.
        spent: What had been spent of it by then, reserves included.
        tool: The tool, where the limit is that of one tool.
        on_limit: What the owner's limits say is to happen.
        unpriced: There is a limit of cost, and the model has no price.
    """

    resource: Resource
    owner: str
    limit: int
    spent: int
    tool: str | None = None
    on_limit: OnLimit = "raise"
    unpriced: bool = False


# Seconds: more than anybody means, and little enough to be reckoned with.
_FOR_EVER = 1e12


@frozen(slots=False, repr=False, eq=False)
class Raise(Plain):
    """By how much limits are raised; what is 0 stays as it is.

    Attributes:
        steps: More super-steps.
        model_calls: More model calls.
        tool_calls: More calls of tools, all together.
        by_tool: More calls of single tools, by name.
        tokens: More tokens.
        cost: More nano-units.
        seconds: More wall time; where the time is up already, from now on.
    """

    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    by_tool: dict[str, int] = field(factory=_none, hash=False)
    tokens: int = 0
    cost: int = 0
    seconds: float = 0.0

    @property
    def checked(self) -> Raise:
        """What of it raises anything: nothing may be taken away, nor be without end."""
        seconds = self.seconds if 0 < self.seconds < _FOR_EVER else 0.0
        return Raise(
            max(0, self.steps),
            max(0, self.model_calls),
            max(0, self.tool_calls),
            {tool: calls for tool, calls in self.by_tool.items() if calls > 0},
            max(0, self.tokens),
            max(0, self.cost),
            seconds,
        )

    def raises(self, resource: Resource) -> bool:
        """Whether there is more of a resource."""
        return bool(getattr(self, resource))

    def __add__(self, other: Raise) -> Raise:
        tools = {name: calls + other.by_tool.get(name, 0) for name, calls in self.by_tool.items()}
        return Raise(
            self.steps + other.steps,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            {**other.by_tool, **tools},
            self.tokens + other.tokens,
            self.cost + other.cost,
            self.seconds + other.seconds,
        )


NO_RAISE: Final = Raise()


@frozen(slots=False, repr=False, eq=False)
class Budget(Plain):
    """What the fold keeps of a run's spending beyond its steps, its model calls and the tokens that providers told.

    Attributes:
        tool_calls: Calls started.
        by_tool: The same for each tool.
        cached_tokens: Tokens of requests that the provider had cached.
        assumed_tokens: Estimates for replies without usage, and what lost requests had reserved.
        cost: Cost of replies, and what lost requests had reserved.
        priced: How many replies have a price.
        reserve: What the request under way has reserved.
        below: What finished sub-agents have spent.
        deadline: When the time is up (ns UTC).
        refused: What could not be spent, until there is more of it.
        warned: What the model was told is running out.
        warned_above: The same of limits of runs above: whose, of what, and which limit.
        promised: By how much limits were raised before the run was taken up and had any.
    """

    tool_calls: int = 0
    by_tool: dict[str, int] = field(factory=_none, hash=False)
    cached_tokens: int = 0
    assumed_tokens: int = 0
    cost: int = 0
    priced: int = 0
    reserve: Reserve | None = None
    below: Spent = NOTHING_SPENT
    deadline: int | None = None
    refused: Refusal | None = None
    warned: tuple[Resource, ...] = ()
    warned_above: tuple[tuple[str, Resource, int], ...] = ()
    promised: Raise = NO_RAISE

    def held(self) -> Budget:
        """The same, with the reserve of a lost request kept as spent: it may have been billed."""
        reserve = self.reserve
        if reserve is None:
            return self
        return attrs.evolve(
            self,
            assumed_tokens=self.assumed_tokens + reserve.tokens,
            cost=self.cost + reserve.cost,
            reserve=None,
        )


NO_BUDGET: Final = Budget()
