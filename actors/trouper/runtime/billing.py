"""What a reply took: tokens as the provider told, estimates where it did not, and the cost of both."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from trouper.agent import Agent
from trouper.core.budget import Reserve
from trouper.core.exchange import ModelReply
from trouper.core.limits import Limits
from trouper.core.prices import Price, estimate
from trouper.errors import DefinitionError
from trouper_journal import Plain


@frozen(repr=False, eq=False)
class Bill(Plain):
    """What a reply took beyond the tokens that the provider told.

    Attributes:
        assumed_tokens: Estimate of what it did not tell; 0 where no limit asks for it.
        price: Id of the price entry.
        cost: In nano-units; None where there is no price, or not all tokens are known.
    """

    assumed_tokens: int = 0
    price: str | None = None
    cost: int | None = None


def settle(reply: ModelReply, reserve: Reserve | None, price: Price | None) -> Bill:
    """The bill of a reply.

    Where the provider told no tokens, and a limit asks for them, the input is as it was estimated before, and the
    output is estimated from the reply, in the same way.
    """
    taken, given = reply.usage.input_tokens, reply.usage.output_tokens
    assumed = 0
    if reserve is not None and taken is None:
        taken = reserve.input_tokens
        assumed += taken
    if reserve is not None and given is None:
        given = min(estimate((reply.message,)), reserve.output_tokens)
        assumed += given
    if price is None or taken is None or given is None:
        return Bill(assumed)
    return Bill(assumed, price.id, price.cost(taken, given, reply.usage.cached_tokens or 0))


def check_price(agent: Agent, limits: Limits, prices: Mapping[str, Price]) -> None:
    """Refuse a limit that nobody could keep.

    Raises:
        DefinitionError: There is a limit of cost, and no price for the agent's model.
    """
    if limits.max_cost is not None and agent.model.name not in prices:
        raise DefinitionError(
            f"agent {agent.name} has a limit of cost, but there is no price for its model {agent.model.name}: "
            "give it one in RuntimeOptions.prices"
        )


def check_prices(agents: Mapping[str, Agent], prices: Mapping[str, Price]) -> None:
    """The same for all agents of a runtime, by their own limits."""
    for agent in agents.values():
        check_price(agent, agent.limits, prices)
