"""What requests cost: price entries in whole nano-units, and estimates where nobody has counted yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from trouper.core.conversation import AI, Message, ToolSpec
from trouper.errors import DefinitionError
from trouper_journal import Plain, Value

ASSUMED_OUTPUT = 4096
"""Tokens that a reply may have where ``ModelConfig.max_tokens`` does not say: this, or what is left."""

_BYTES_PER_TOKEN = 4
_MESSAGE = 4
_PART = 1000


@frozen(slots=False, repr=False, eq=False)
class Price(Plain):
    """What one model costs, in nano-units of a currency for each token (one unit is 1,000,000,000 of them).

    A price of 3 dollars for a million tokens is 3,000 nano-dollars for a token. The id goes into the journal with
    every cost that was reckoned by the entry, so give each version of a price an id of its own, with its date.

    Attributes:
        id: Name of the entry, such as ``gpt-5.5 2026-11-01``.
        input: For each token of a request.
        output: For each token of a reply, reasoning included.
        cached: For each token of a request that the provider had cached; None: as ``input``.

    Raises:
        DefinitionError: A price that is not a whole number of at least 0, or no id.
    """

    id: str
    input: int
    output: int
    cached: int | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        name: object = self.id
        if not isinstance(name, str) or not name:
            raise DefinitionError(f"price, id: {name!r} is no text; name model and date: 'gpt-5.5 2026-11-01'")
        for place in ("input", "output", "cached"):
            number: object = getattr(self, place)
            if place == "cached" and number is None:
                continue
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise DefinitionError(f"price, {place}: {number!r} is not a whole number of nano-units for a token")

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int:
        """What so many tokens cost, in nano-units; cached tokens are among those of the request."""
        cached = min(cached_tokens, input_tokens)
        each = self.input if self.cached is None else self.cached
        return (input_tokens - cached) * self.input + cached * each + output_tokens * self.output


def estimate(messages: Iterable[Message], tools: Iterable[ToolSpec] = ()) -> int:
    """About how many tokens messages and tools are, where nobody has counted them.

    A token for each 4 bytes of UTF-8, 4 for each message, and 1,000 for each content part that is not text: no
    tokenizer is asked, because each model has its own.
    """
    size = sum(_weight(message) for message in messages)
    described = sum(_size([tool.name, tool.description, dict(tool.parameters)]) for tool in tools)
    return size + -(-described // _BYTES_PER_TOKEN)


def _weight(message: Message) -> int:
    content = message.content
    parts = 0
    if isinstance(content, tuple):
        texts = [part for part in content if isinstance(part.get("text"), str)]
        parts, size = len(content) - len(texts), sum(_size(part["text"]) for part in texts)
    else:
        size = _size(content)
    if isinstance(message, AI):
        size += sum(_size([call.name, call.arguments]) for call in message.tool_calls)
        size += _size(message.reasoning if message.reasoning_field else None) + _size(message.refusal)
    return _MESSAGE + parts * _PART + -(-size // _BYTES_PER_TOKEN)


def _size(value: Value) -> int:
    """About how many bytes a value has as JSON."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(_size(key) + _size(item) + 4 for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(_size(item) + 1 for item in value)
    return 0 if value is None else len(str(value))
