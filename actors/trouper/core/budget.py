"""What runs spend: the sums that limits are held against, and what they cost.

Counts are exact. Tokens are the provider's where it told, and a documented estimate where it did not; an estimate is
never silent: `Spent.unknown` says how many requests it stands for. Money is in whole nano-units of a currency (one
unit is 1,000,000,000 of them), so that sums are exact on every machine.
"""

from __future__ import annotations

from attrs import field, frozen


def _none() -> dict[str, int]:
    return {}


@frozen
class Spent:
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
        unpriced: How many replies have no price: their cost is unknown, not zero.
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

    @property
    def exact(self) -> bool:
        """Whether tokens and cost are what providers told, and no estimate is in them."""
        return self.unknown == 0 and self.unpriced == 0

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


NOTHING_SPENT = Spent()
