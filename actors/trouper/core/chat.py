"""Conversations as Chat Completions JSON and back, without loss: for importing, exporting and looking at histories.

``from_chat`` reads what any system wrote; ``to_chat`` writes it again with the ids that it came with. What is sent to
a provider is made by ``chat_request.py``, which mends what a provider would refuse.

Format: https://platform.openai.com/docs/api-reference/chat/create (``messages``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from trouper_journal._errors import InvalidValue

from . import strict_json
from .conversation import AI, Content, Human, Message, Part, System, ToolCall, ToolMessage, Value

NOTE = "x_trouper"
"""Key under which ``to_chat(..., notes=True)`` keeps what Chat Completions has no word for."""

Json = Mapping[str, Value]


def from_chat(messages: Sequence[Json], *, prefix: str = "") -> tuple[Message, ...]:
    """Read a conversation in Chat Completions JSON.

    Message ``i`` gets the id ``<prefix><i>`` and its call ``j`` ``<prefix><i>.<j>``, unless the message carries our
    notes. A tool message answers the latest call with its id that has no answer yet, so that ids which are used again
    do no harm. Fields that are not interpreted, and null ones, are kept in ``extra``.

    Args:
        messages: The conversation.
        prefix: What the new ids begin with.

    Raises:
        InvalidValue: If a message is malformed; its path names the place, such as ``messages[3].role``.
    """
    reader = _Reader(prefix)
    return tuple(reader.message(index, message) for index, message in enumerate(messages))


def to_chat(messages: Iterable[Message], *, notes: bool = False) -> list[dict[str, Value]]:
    """Write a conversation as Chat Completions JSON, with the ids that its calls came with.

    ``to_chat(from_chat(x)) == x`` (a missing ``content``, call id or call ``type`` is filled in), and with notes also
    ``from_chat(to_chat(y, notes=True)) == y``. Nothing is mended: a provider may refuse the result.

    Args:
        messages: The conversation.
        notes: Whether to add our own ids and statuses, under the key ``x_trouper``.
    """
    wire_ids: dict[str, str] = {}
    written: list[dict[str, Value]] = []
    for message in messages:
        if isinstance(message, AI):
            wire_ids.update((call.id, _wire_id(call)) for call in message.tool_calls)
        out = _write(message, wire_ids)
        if notes:
            out[NOTE] = _note(message)
        written.append(out)
    return written


def _write(message: Message, wire_ids: Mapping[str, str]) -> dict[str, Value]:
    content = content_value(message.content)
    match message:
        case System() | Human():
            role = "system" if isinstance(message, System) else "user"
            return {"role": role, "content": content, **message.extra}
        case ToolMessage():
            wire_id = message.provider_id
            if wire_id is None:
                wire_id = wire_ids.get(message.call_id, message.call_id)
            return {"role": "tool", "tool_call_id": wire_id, "content": content, **message.extra}
        case AI():
            out: dict[str, Value] = {"role": "assistant", "content": content}
            if message.reasoning is not None:
                out[message.reasoning_field or "reasoning_content"] = message.reasoning
            if message.refusal is not None:
                out["refusal"] = message.refusal
            if message.tool_calls:
                out["tool_calls"] = [_write_call(call) for call in message.tool_calls]
            return {**out, **message.extra}


def content_value(content: Content | None) -> Value:
    """A message's content as plain JSON data."""
    return content if content is None or isinstance(content, str) else [dict(part) for part in content]


def _wire_id(call: ToolCall) -> str:
    return call.id if call.provider_id is None else call.provider_id


def _write_call(call: ToolCall) -> dict[str, Value]:
    extra = dict(call.extra)
    kind, key = ("custom", "input") if extra.get("type") == "custom" else ("function", "arguments")
    function: dict[str, Value] = {"name": call.name, key: call.arguments}
    more = extra.pop("function", None)
    if isinstance(more, dict):
        function |= more
    return {"id": _wire_id(call), "type": kind, kind: function, **extra}


def _note(message: Message) -> dict[str, Value]:
    note: dict[str, Value] = {"id": message.id}
    if isinstance(message, AI):
        note["calls"] = [[call.id, call.provider_id] for call in message.tool_calls]
        note["reasoning_field"] = message.reasoning_field
    elif isinstance(message, ToolMessage):
        note |= {
            "call_id": message.call_id,
            "name": message.name,
            "status": message.status,
            "provider_id": message.provider_id,
        }
    return note


class _Reader:
    """Reads messages in order, and remembers the calls that wait for their answer."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.open: list[tuple[str, str, ToolCall]] = []

    def message(self, index: int, given: Json) -> Message:
        path = f"messages[{index}]"
        if not isinstance(given, Mapping):
            raise InvalidValue(path, "is not an object")
        fields = dict(given)
        note = fields.pop(NOTE, None)
        noted = note if isinstance(note, dict) else {}
        role = fields.pop("role", None)
        own = _text(noted.get("id"), f"{self.prefix}{index}")
        match role:
            case "system" | "developer":
                extra: dict[str, Value] = {} if role == "system" else {"role": role}
                return System(own, _content(fields, path), {**extra, **fields})
            case "user":
                return Human(own, _content(fields, path), fields)
            case "assistant":
                return self.assistant(own, fields, noted, path)
            case "tool":
                return self.tool(own, fields, noted, path)
            case _:
                raise InvalidValue(f"{path}.role", f"{role!r} is none of system, developer, user, assistant, tool")

    def assistant(self, id: str, fields: dict[str, Value], noted: dict[str, Value], path: str) -> AI:
        content = _content(fields, path) if fields.get("content") is not None else None
        fields.pop("content", None)
        reasoning_field = next((key for key in REASONING_FIELDS if isinstance(fields.get(key), str)), None)
        reasoning = fields.pop(reasoning_field) if reasoning_field else None
        refusal = fields.pop("refusal") if isinstance(fields.get("refusal"), str) else None
        calls: list[ToolCall] = []
        if fields.get("tool_calls"):
            calls = self.calls(id, fields.pop("tool_calls"), noted, f"{path}.tool_calls")
            self.open += [(_wire_id(call), id, call) for call in calls]
        if noted and reasoning is not None:
            field = noted.get("reasoning_field")
            reasoning_field = field if isinstance(field, str) else None
        return AI(id, content, tuple(calls), _optional(reasoning), _optional(refusal), reasoning_field, fields)

    def calls(self, id: str, given: Value, noted: dict[str, Value], path: str) -> list[ToolCall]:
        if not isinstance(given, list):
            raise InvalidValue(path, "is not a list")
        calls: list[ToolCall] = []
        for index, call in enumerate(given):
            if not isinstance(call, dict) or not isinstance(call.get("function", call.get("custom")), dict):
                raise InvalidValue(f"{path}[{index}]", "is not a call of a function")
            calls.append(read_call(call, f"{id}.{index}"))
        ids = noted.get("calls")
        if not isinstance(ids, list) or len(ids) != len(calls):
            return calls
        return [
            ToolCall(_text(own[0], call.id), call.name, call.arguments, _optional(own[1]), call.extra)
            if isinstance(own, list) and len(own) == 2
            else call
            for own, call in zip(ids, calls, strict=True)
        ]

    def tool(self, id: str, fields: dict[str, Value], noted: dict[str, Value], path: str) -> ToolMessage:
        content = _content(fields, path)
        wire_id = fields.pop("tool_call_id", None)
        if not isinstance(wire_id, str):
            raise InvalidValue(f"{path}.tool_call_id", "is not text")
        call = self.answered(wire_id)
        named = fields.get("name")
        name = call.name if call else named if isinstance(named, str) else ""
        return ToolMessage(
            id,
            _text(noted.get("call_id"), call.id if call else wire_id),
            _text(noted.get("name"), name),
            content,
            _status(noted),
            _optional(noted["provider_id"]) if "provider_id" in noted else wire_id,
            fields,
        )

    def answered(self, wire_id: str) -> ToolCall | None:
        """The call that a tool message answers: in the latest reply that has such a call open, the first of them."""
        matches = [place for place, (open_id, _, _) in enumerate(self.open) if open_id == wire_id]
        if not matches:
            return None
        latest = self.open[matches[-1]][1]
        place = next(place for place in matches if self.open[place][1] == latest)
        return self.open.pop(place)[2]


REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Names under which providers disclose reasoning text (DeepSeek, vLLM and OpenRouter, Ollama)."""


def read_call(entry: Json, id: str = "") -> ToolCall:
    """Read one entry of ``tool_calls`` with tolerance; without a function it is a call of the tool ``""``."""
    extra = dict(entry)
    custom = extra.get("type") == "custom"
    function = extra.pop("custom" if custom else "function", None)
    if extra.get("type", "") in ("function", None, ""):
        extra.pop("type", None)
    rest = dict(function) if isinstance(function, dict) else {}
    name = rest.pop("name", None)
    arguments = argument_text(rest.pop("input" if custom else "arguments", None))
    if rest:
        extra["function"] = rest
    return ToolCall(id, name if isinstance(name, str) else "", arguments, provider_id(extra.pop("id", None)), extra)


def argument_text(arguments: Value) -> str:
    """Arguments as text: a server that sends an object instead gets its compact JSON, a missing value is empty."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else strict_json.dump(arguments)


def provider_id(given: Value) -> str | None:
    """A call's id as the provider sent it; numbers as their text, anything else as none."""
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return given if isinstance(given, str) else None


def _content(fields: dict[str, Value], path: str) -> str | tuple[Part, ...]:
    content = fields.pop("content", "")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidValue(f"{path}.content", "is neither text nor a list of parts")
    parts: list[Part] = []
    for index, part in enumerate(content):
        if not isinstance(part, dict):
            raise InvalidValue(f"{path}.content[{index}]", "is not an object")
        parts.append(part)
    return tuple(parts)


def _text(value: Value, otherwise: str) -> str:
    return value if isinstance(value, str) else otherwise


def _optional(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _status(noted: Mapping[str, Value]) -> Literal["ok", "error"]:
    return "error" if noted.get("status") == "error" else "ok"
