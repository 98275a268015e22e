"""Puts a streamed Chat Completions reply together, piece by piece.

Servers differ in how they stream calls: some number every call 0, some leave the number out, some repeat the name or
send a fresh id with each piece, some send the second call first. `_Calls.slot` holds the rules that sort this out.

Format: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from trouper.errors import ModelError
from trouper_journal import Printable

from . import strict_json
from .chat import REASONING_FIELDS, argument_text, provider_id
from .chat_reply import finished, first_choice, read_usage, refuse_error, without_null
from .conversation import AI, ToolCall, Usage, Value
from .exchange import Chunk, ModelConfig, ModelReply, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta, UsageDelta

DONE = "[DONE]"
"""What stands instead of JSON in the event after the last one."""


@define(repr=False)
class _Slot(Printable):
    """A call that is being put together."""

    index: int
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(factory=list)
    extra: dict[str, Value] = field(factory=dict)

    def complete(self) -> bool:
        return strict_json.arguments_object("".join(self.arguments)) is not None

    def ends_before(self, index: int | None, id: str | None, name: str, arguments: str) -> bool:
        """Whether a piece that could go on with this call begins another one instead: only one with a name does."""
        if not name or not self.name:
            return False
        if id and self.id:
            return True
        if index is None:
            return name != self.name or self.complete()
        # Before any arguments it is the rest of the name, or the name again.
        return bool(self.arguments) and (name != self.name or (bool(arguments) and self.complete()))


class _Calls:
    """The calls of one streamed reply, in order of arrival."""

    def __init__(self) -> None:
        self.slots: list[_Slot] = []

    def slot(self, index: int | None, id: str | None, name: str, arguments: str) -> _Slot:
        """The call that a piece belongs to.

        It is the one with its id, else the latest one with its number (the latest of all, where it has none),
        unless it begins a new one.
        """
        same = [slot for slot in self.slots if index is None or slot.index == index]
        if id and (known := next((slot for slot in same if slot.id == id), None)):
            return known
        if same and not same[-1].ends_before(index, id, name, arguments):
            return same[-1]
        opened = _Slot(index if index is not None else max((slot.index for slot in self.slots), default=-1) + 1)
        self.slots.append(opened)
        return opened

    def feed(self, entry: Mapping[str, Value]) -> ToolCallDelta:
        """Take in one entry of a delta's ``tool_calls``."""
        fields = without_null(entry)
        number, call_id = fields.pop("index", None), provider_id(fields.pop("id", None))
        fields.pop("type", None)
        given = fields.pop("function", None)
        function = dict(given) if isinstance(given, dict) else {}
        told = function.pop("name", None)
        name = told if isinstance(told, str) else ""
        arguments = argument_text(function.pop("arguments", None))
        index = number if isinstance(number, int) and not isinstance(number, bool) else None
        slot = self.slot(index, call_id, name, arguments)
        if not slot.id and call_id is not None:
            slot.id = call_id
        if name and name != slot.name and not slot.arguments:
            slot.name += name
        slot.name = slot.name or name
        if arguments:
            slot.arguments.append(arguments)
        merge(slot.extra, {**fields, **({"function": function} if function else {})})
        return ToolCallDelta(self.slots.index(slot), call_id, name or None, arguments)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order of their numbers."""
        in_order = sorted(self.slots, key=lambda slot: slot.index)
        return tuple(ToolCall("", slot.name, "".join(slot.arguments), slot.id, slot.extra) for slot in in_order)


def merge(into: dict[str, Value], new: Mapping[str, Value]) -> None:
    """Add the uninterpreted fields of a piece: texts and lists grow, objects merge, anything else is replaced."""
    for key, value in new.items():
        old = into.get(key)
        if isinstance(old, str) and isinstance(value, str):
            into[key] = old + value
        elif isinstance(old, list) and isinstance(value, list):
            into[key] = [*old, *value]
        elif isinstance(old, dict) and isinstance(value, dict):
            merge(old, value)
        else:
            into[key] = value


class StreamedReply:
    """A reply in the making: `feed` it each event of the stream, then `finish`.

    Attributes:
        ended: Whether the server has said why the reply ended, or that the stream did; one that stops before was cut
            off.
    """

    def __init__(self) -> None:
        self.ended = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._refusal: list[str] = []
        self._calls = _Calls()
        self._extra: dict[str, Value] = {}
        self._reason: Value = None
        self._body: dict[str, Value] = {}

    def feed(self, body: Value) -> list[Chunk]:
        """Take in one event: its JSON body, or `DONE`.

        Returns:
            What is new in it.

        Raises:
            ModelError: If the event is an error.
        """
        if body == DONE:
            self.ended = True
        if not isinstance(body, dict):
            return []
        refuse_error(body)
        chunks: list[Chunk] = []
        if isinstance(body.get("usage"), dict):
            self._body["usage"] = body["usage"]
            chunks.append(UsageDelta(read_usage(body["usage"])))
        if body.get("model"):
            self._body["model"] = body["model"]
        choice = first_choice(body)
        if choice is None:
            return chunks
        if choice.get("finish_reason"):
            self._reason, self.ended = choice["finish_reason"], True
        delta = choice.get("delta")
        if not isinstance(delta, dict) and not self._began():
            # Some servers answer the last event, or the only one, with the whole message.
            delta = choice.get("message")
        return [*(self._delta(without_null(delta)) if isinstance(delta, dict) else []), *chunks]

    def _began(self) -> bool:
        return bool(self._text or self._calls.slots or self._refusal)

    def _delta(self, fields: dict[str, Value]) -> list[Chunk]:
        chunks: list[Chunk] = []
        fields.pop("role", None)
        for name in REASONING_FIELDS:
            # Where a server sends the same text under two names, the first one counts.
            if isinstance(fields.get(name), str) and self._reasoning_field in (None, name):
                piece = str(fields.pop(name))
                if piece:
                    self._reasoning_field = name
                    self._reasoning.append(piece)
                    chunks.append(ReasoningDelta(piece))
        if content := _piece(fields, "content"):
            self._text.append(content)
            chunks.append(TextDelta(content))
        if refusal := _piece(fields, "refusal"):
            self._refusal.append(refusal)
            chunks.append(RefusalDelta(refusal))
        calls, old = fields.pop("tool_calls", None), fields.pop("function_call", None)
        if isinstance(old, dict) and not calls:
            calls = [{"index": 0, "function": old}]
        entries = calls if isinstance(calls, list) else []
        chunks += [self._calls.feed(entry) for entry in entries if isinstance(entry, dict)]
        merge(self._extra, fields)
        return chunks

    def finish(self, config: ModelConfig, *, request_id: str | None = None) -> ModelReply:
        """The complete reply, once the stream has ended.

        Raises:
            ModelError: If the stream broke off, was empty, or the provider says that it failed while answering.
        """
        if not self.ended:
            raise ModelError("the provider's stream broke off before the reply was complete", retryable=True)
        if self._reason is None and not (self._began() or self._reasoning):
            raise ModelError("the provider's stream held no reply", retryable=True)
        reasoning = "".join(self._reasoning) or None
        answer = AI(
            "",
            "".join(self._text) or None,
            self._calls.calls(),
            reasoning,
            "".join(self._refusal) or None,
            self._reasoning_field if reasoning else None,
            self._extra,
        )
        return finished(answer, self._reason, self._body, config=config, request_id=request_id)

    @property
    def usage(self) -> Usage:
        """Tokens taken as far as known by now."""
        return read_usage(self._body.get("usage"))


def _piece(fields: dict[str, Value], name: str) -> str:
    value = fields.pop(name, None)
    if isinstance(value, list):
        # Content parts in a stream: their text.
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""
