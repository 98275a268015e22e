"""What the stub server can answer, and how that looks on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import trio
from attrs import field, frozen

from trouper.core.conversation import Value
from trouper_journal import Plain

Json: TypeAlias = Mapping[str, Value]

USAGE: Json = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def tc(id: str | None, name: str, arguments: Value) -> dict[str, Value]:
    """A tool call as a provider sends it; ``arguments`` is the raw text, or whatever a careless server sends."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@frozen(slots=False, repr=False, eq=False)
class Reply(Plain):
    """A reply: sent whole, or in pieces where the request asks for a stream.

    Attributes:
        text: Its content; None for null.
        calls: Its tool calls (see `tc`).
        finish: Its finish reason; None takes ``tool_calls`` or ``stop``, and ``""`` leaves it out.
        usage: The tokens that it claims; None leaves them out.
        fields: Further fields of its message.
    """

    text: str | None = None
    calls: Sequence[Json] = ()
    finish: str | None = None
    usage: Json | None = USAGE
    fields: Json = field(factory=dict)


@frozen(slots=False, repr=False, eq=False)
class Chunks(Plain):
    """A streamed reply, piece by piece, whatever the request asks for.

    Attributes:
        deltas: The deltas of choice 0; before an event among them the server waits for it to be set.
        finish: The finish reason, as in `Reply`.
        usage: The tokens that it claims; None leaves them out.
        done: Whether the stream ends with ``[DONE]``.
        cut: Whether the connection breaks off after the deltas, before the stream's end.
    """

    deltas: Sequence[Json | trio.Event]
    finish: str | None = None
    usage: Json | None = USAGE
    done: bool = True
    cut: bool = False


@frozen(slots=False, repr=False, eq=False)
class Status(Plain):
    """An answer with this HTTP status.

    Attributes:
        status: The status.
        body: Its body: JSON, or bytes sent as they are.
        headers: Further headers, such as ``{"retry-after": "2"}``.
    """

    status: int
    body: Json | bytes = field(factory=lambda: {"error": {"message": "injected", "type": "stub"}})
    headers: Mapping[str, str] = field(factory=dict)


@frozen(slots=False, repr=False, eq=False)
class Raw(Plain):
    """A body of any bytes with status 200."""

    body: bytes
    content_type: str = "application/json"


@frozen(slots=False, repr=False, eq=False)
class Drop(Plain):
    """No answer: the connection is closed."""


@frozen(slots=False, repr=False, eq=False)
class Wait(Plain):
    """Another answer, after an event is set.

    Attributes:
        event: What the server waits for; a client that goes away meanwhile is noticed.
        then: The answer.
    """

    event: trio.Event
    then: str | Reply | Chunks | Status | Raw | Drop


Answer: TypeAlias = str | Reply | Chunks | Status | Raw | Drop | Wait


def whole(reply: Reply, model: Value, number: int) -> dict[str, Value]:
    """The body of a reply that is not streamed."""
    message: dict[str, Value] = {"role": "assistant", "content": reply.text, **reply.fields}
    if reply.calls:
        message["tool_calls"] = [dict(call) for call in reply.calls]
    choice: dict[str, Value] = {"index": 0, "message": message}
    finish = reply.finish if reply.finish is not None else "tool_calls" if reply.calls else "stop"
    if finish:
        choice["finish_reason"] = finish
    return _body("chat.completion", [choice], model, number, usage=reply.usage)


def in_pieces(reply: Reply) -> Chunks:
    """A whole reply as the deltas of a stream, with texts cut in two."""
    deltas: list[Json | trio.Event] = [{"role": "assistant", "content": ""}]
    for name, value in {**reply.fields, "content": reply.text}.items():
        deltas += [{name: piece} for piece in _halves(value)]
    for index, call in enumerate(reply.calls):
        function = call.get("function")
        given: Value = function.get("arguments") if isinstance(function, Mapping) else None
        first, *rest = _halves(given) or [""]
        called: Value = function.get("name") if isinstance(function, Mapping) else None
        head: dict[str, Value] = {**call, "index": index, "function": {"name": called, "arguments": first}}
        deltas.append({"tool_calls": [head]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in rest]
    finish = reply.finish if reply.finish is not None else "tool_calls" if reply.calls else "stop"
    return Chunks(deltas, finish, reply.usage)


def _halves(value: Value) -> list[Value]:
    if not isinstance(value, str):
        return [] if value is None else [value]
    middle = len(value) // 2
    return [half for half in (value[:middle], value[middle:]) if half]


def chunk_events(chunks: Chunks, model: Value, number: int, *, usage: bool) -> Iterable[bytes | trio.Event]:
    """The events of a stream, ready to send; ``usage`` says whether the request asked for it."""
    called = False
    for delta in chunks.deltas:
        if isinstance(delta, trio.Event):
            yield delta
            continue
        called = called or bool(delta.get("tool_calls"))
        yield _event([{"index": 0, "delta": delta, "finish_reason": None}], model, number)
    if chunks.cut:
        return
    finish = chunks.finish if chunks.finish is not None else "tool_calls" if called else "stop"
    if finish:
        yield _event([{"index": 0, "delta": {}, "finish_reason": finish}], model, number)
    if usage and chunks.usage is not None:
        yield _event([], model, number, usage=chunks.usage)
    if chunks.done:
        yield b"data: [DONE]\n\n"


def _event(choices: Sequence[Json], model: Value, number: int, *, usage: Json | None = None) -> bytes:
    body = _body("chat.completion.chunk", choices, model, number, usage=usage)
    return b"data: " + dump(body) + b"\n\n"


def _body(kind: str, choices: Sequence[Json], model: Value, number: int, *, usage: Json | None) -> dict[str, Value]:
    body: dict[str, Value] = {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 0,
        "model": model,
        "choices": list(choices),
    }
    return body if usage is None else {**body, "usage": usage}


def dump(body: Value) -> bytes:
    """JSON as the server sends it: lone surrogates as escapes, as careless servers do."""
    return json.dumps(body, separators=(",", ":")).encode()
