"""What happens between a run and its model: requested, answered, failed, or lost."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.core.budget import Reserve
from trouper.core.terms import AskedCall
from trouper_journal import Content, Plain, Value, event


@event("model.requested", schema=1, driver=True)
@frozen(repr=False, eq=False)
class ModelRequested(Plain):
    """A request is about to be sent: one event for each attempt on the wire.

    Attributes:
        index: Number of the model call in the run, from 0.
        attempt: Number of the attempt, from 1.
        digest: Keyed digest over the digests of the messages, in order.
        closing: The last request of a run at its limit: no tools are offered.
        model: Name of the model that is asked, where a hook chose another than the agent's own.
        reserve: What it may come to, where a limit of tokens or cost asks for that.
    """

    index: int
    attempt: int
    digest: bytes
    closing: bool = False
    model: str = ""
    reserve: Reserve | None = None


@event("model.responded", schema=1, driver=True)
@frozen(repr=False, eq=False)
class ModelResponded(Plain):
    """The model's reply, as it came.

    Attributes:
        cached_tokens: Tokens of the request that the provider had cached, where it told.
        assumed_tokens: Estimate of the tokens that it did not tell, where a limit asks for one.
        price: Id of the price entry that the cost was reckoned by.
        cost: What it cost in nano-units; None where there is no price, or too little is known.
    """

    index: int
    attempt: int
    finish: str
    truncated: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    request_id: str | None = None
    cached_tokens: int | None = None
    assumed_tokens: int = 0
    price: str | None = None
    cost: int | None = None
    text: Content[Value] = None
    calls: Content[tuple[AskedCall, ...]] = ()
    reasoning: Content[str | None] = None
    reasoning_field: Content[str | None] = None
    refusal: Content[str | None] = None
    extra: Content[dict[str, Value] | None] = None


@event("model.failed", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ModelFailed(Plain):
    """An attempt brought no reply, and it is known why.

    Attributes:
        retry_at: When it may be tried again (ns UTC); None where trying again is useless.
    """

    index: int
    attempt: int
    retry_at: int | None = None
    status: int | None = None
    message: Content[str] = ""


@event("model.lost", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ModelLost(Plain):
    """A request went out and nobody will ever know its reply: it may have been billed."""

    index: int
    attempt: int
    reason: Literal["restart", "shutdown", "cancelled", "deadline"]
