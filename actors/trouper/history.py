"""How much of a session's conversation is handed to its next turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import Attribute, field, frozen

from trouper.core.conversation import Message, Value
from trouper.core.prices import estimate
from trouper.errors import DefinitionError
from trouper.models import Model, identity
from trouper_journal import Plain

Counter: TypeAlias = Callable[[Message], int]


def estimate_tokens(message: Message) -> int:
    """About how many tokens a message takes: the estimate that budgets reckon with.

    A token for each 4 bytes of UTF-8, 4 for the message, and 1,000 for each content part that is not text. No
    provider's tokenizer is asked: the estimate is the same on every machine, for every model.
    """
    return estimate((message,))


def _whole(_: object, attribute: Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < (1 if attribute.name == "max_tokens" else 0):
        raise DefinitionError(f"history, {attribute.name}: {value!r} is not a whole number of messages or tokens")


def _model(_: object, attribute: Attribute[Model | None], value: object) -> None:
    if value is not None and (isinstance(value, type) or not isinstance(value, Model)):
        raise DefinitionError(f"history, {attribute.name}: {value!r} is no model")


@frozen(slots=False, repr=False, eq=False)
class History(Plain):
    """How much of a session's conversation is handed to its next turn.

    When the conversation so far is longer than ``max_tokens``, it is compacted once, before the turn begins: the newest
    messages are kept, up to half of that; whole runs where that is enough, and never a call without its result. What
    is not handed on any more stays in the journal.

    Attributes:
        max_tokens: How many tokens the conversation so far may take, by estimate. Instructions, tools and the new
            message come on top.
        keep_last: How many messages are kept at least, as long as they are within ``max_tokens``.
        summarise: A model that is asked for a summary, which then stands in the place of what is dropped. None to drop
            it without one. A summary that cannot be had in two attempts is done without.
        count: Estimates the tokens of a message. Where it raises, or gives no whole number, `estimate_tokens`
            is asked.

    Raises:
        DefinitionError: Something that is not what it must be.
    """

    max_tokens: int = field(validator=_whole)
    keep_last: int = field(default=4, validator=_whole, kw_only=True)
    summarise: Model | None = field(default=None, validator=_model, kw_only=True)
    count: Counter = field(default=estimate_tokens, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not callable(self.count):
            raise DefinitionError(f"history, count: {self.count!r} cannot be called")

    def tokens(self, message: Message) -> int:
        """About how many tokens a message takes."""
        try:
            told: object = self.count(message)
        except Exception:  # noqa: BLE001 -- no estimate of the user's own may hold up a conversation
            told = None
        if isinstance(told, int) and not isinstance(told, bool) and told >= 0:
            return told
        return estimate_tokens(message)

    def to_value(self) -> dict[str, Value]:
        """What enters an agent's definition document."""
        told: dict[str, Value] = {"max_tokens": self.max_tokens, "keep_last": self.keep_last}
        if self.summarise is not None:
            model: Mapping[str, Value] = identity(self.summarise)
            told["summarise"] = dict(model)
        return told
