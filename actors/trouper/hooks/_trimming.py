"""Leaving out what is old."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from trouper.core.conversation import Message, Value
from trouper.core.hook_ops import Drop
from trouper.errors import DefinitionError
from trouper.history import estimate_tokens

from ._checks import whole_or_none
from ._groups import droppable
from ._hook import Hook, View


@frozen(slots=False, eq=False)
class TrimContext(Hook):
    """Leaves the oldest messages out of what the model is shown, as many as needed; the record keeps them.

    A reply and the answers to its calls go together. System messages, the last human message and the last reply with
    its answers always stay, even where they alone are too much.

    Attributes:
        max_tokens: How many tokens may be shown, by ``count``; instructions and tools come on top. None for any.
        max_messages: How many messages may be shown. None for any number.
        count: Estimates the tokens of a message.

    Raises:
        DefinitionError: Neither limit is given, or one is not a whole number of at least 1.
    """

    max_tokens: int | None = field(default=None, validator=whole_or_none)
    max_messages: int | None = field(default=None, validator=whole_or_none, kw_only=True)
    count: Callable[[Message], int] = field(default=estimate_tokens, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.max_tokens is None and self.max_messages is None:
            raise DefinitionError("TrimContext: give max_tokens or max_messages")

    def identity(self) -> Mapping[str, Value]:
        """Name and settings."""
        return {"hook": self.name, "max_tokens": self.max_tokens, "max_messages": self.max_messages}

    async def before_model(self, view: View) -> Drop | None:
        """Drop from the oldest on, until the rest fits."""
        tokens = sum(self.count(message) for message in view.messages) if self.max_tokens is not None else 0
        number = len(view.messages)
        ids: list[str] = []
        for group in droppable(view.messages):
            if self._fits(tokens, number):
                break
            ids += [message.id for message in group]
            number -= len(group)
            tokens -= sum(self.count(message) for message in group) if self.max_tokens is not None else 0
        return Drop(ids) if ids else None

    def _fits(self, tokens: int, number: int) -> bool:
        within = self.max_tokens is None or tokens <= self.max_tokens
        return within and (self.max_messages is None or number <= self.max_messages)
