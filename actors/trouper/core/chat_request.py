"""Chat Completions requests that a strict provider accepts, whatever the history looks like.

What is mended on the wire, and only there (the journal keeps what really was):

- Each call of a reply is answered by exactly one tool message directly after it, in the order asked. An answer that
  stands elsewhere is moved there; a call without one gets an error saying that no result is recorded; of several
  answers the first counts; a tool message whose call is not in the history is left out.
- Call ids are our own, nine letters and digits made from `ToolCall.id`: unique in the request, the same each time,
  and fit for the narrowest known provider (Mistral wants exactly nine; OpenAI takes up to 40).
- Arguments that are not a JSON object are sent as ``{}`` where blank, else as ``{"_raw": "<the text>"}``.
- A tool name that no provider would take is mapped to one that it does; see `wire_name`.
- Lone surrogates become U+FFFD. A reply with calls and no text has null content; any other message without
  content has ``""``. A refusal is sent as the text of its reply.

Format: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import define, frozen

from trouper_journal import Plain, Printable

from . import strict_json
from .chat import content_value
from .conversation import AI, Message, System, ToolCall, ToolMessage, ToolSpec, Value
from .exchange import ModelConfig, OutputSchema

UNANSWERED = "error: no result of this call is recorded"
"""What a model is told about a call whose answer the history lacks."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 9

# Fields that only ever come from a provider; some refuse them in a request.
_OUTPUT_ONLY = frozenset({"annotations", "function_call"})
# "index" belongs to streamed pieces; servers that send it in whole replies do not take it back.
_CALL_OUTPUT_ONLY = frozenset({"index", "type", "function"})


@frozen(slots=False, repr=False, eq=False)
class Dialect(Plain):
    """What differs between endpoints that all speak Chat Completions.

    Attributes:
        max_tokens_field: Name of the field for `ModelConfig.max_tokens`; OpenAI wants ``max_completion_tokens``, most
            others know only ``max_tokens``.
        echo_reasoning: Whether reasoning text that a provider disclosed is sent back to it.
        stream_usage: Whether streamed requests ask for usage (``stream_options``).
        tool_media: What becomes of images, sounds and files in a tool's result: ``user`` shows them in a user message
            right after the reply's results, because most providers take only text there; ``tool`` leaves them where
            they are; ``text`` only names them, for models that read nothing but text.
    """

    max_tokens_field: str = "max_tokens"
    echo_reasoning: bool = True
    stream_usage: bool = True
    tool_media: Literal["user", "tool", "text"] = "user"


@define(repr=False)
class _Slot(Printable):
    """One call on its way to the wire, and the message that answers it."""

    call: ToolCall
    wire_id: str
    answer: ToolMessage | None = None


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    *,
    config: ModelConfig | None = None,
    dialect: Dialect | None = None,
    stream: bool = False,
) -> dict[str, Value]:
    """The body of a Chat Completions request.

    Args:
        model: The provider's name of the model.
        messages: The conversation.
        tools: The tools that may be called.
        config: Settings; its ``extra`` fields win over everything else.
        dialect: How this endpoint differs.
        stream: Whether to ask for a streamed reply.

    Raises:
        InvalidValue: If content parts or extra fields hold what JSON cannot (bytes, NaN).
    """
    config, dialect = config or ModelConfig(), dialect or Dialect()
    wire = wire_messages(messages, echo_reasoning=dialect.echo_reasoning, tool_media=dialect.tool_media)
    body: dict[str, Value] = {"model": model, "messages": list[Value](wire)}
    settings: dict[str, Value] = {
        "temperature": config.temperature,
        "top_p": config.top_p,
        dialect.max_tokens_field: config.max_tokens,
        "stop": list[Value](config.stop) or None,
        "seed": config.seed,
        "reasoning_effort": config.reasoning_effort,
        "response_format": None if config.output is None else wire_output(config.output),
    }
    if tools:
        # Without tools, providers refuse the settings that are about them.
        body["tools"] = [wire_tool(tool) for tool in tools]
        settings["tool_choice"] = wire_tool_choice(config.tool_choice)
        settings["parallel_tool_calls"] = config.parallel_tool_calls
    if stream:
        body["stream"] = True
        settings["stream_options"] = {"include_usage": True} if dialect.stream_usage else None
    body |= {key: value for key, value in settings.items() if value is not None}
    for key, value in config.extra.items():
        body[key] = strict_json.checked(value, f"config.extra.{key}")
    return body


def wire_output(output: OutputSchema) -> Value:
    """``response_format`` for `ModelConfig.output`."""
    schema = strict_json.checked(output.schema, "config.output.schema")
    return {"type": "json_schema", "json_schema": {"name": output.name, "schema": schema, "strict": output.strict}}


def wire_tool(tool: ToolSpec) -> Value:
    """One entry of ``tools``."""
    function: dict[str, Value] = {
        "name": tool.name,
        "description": strict_json.valid_text(tool.description),
        "parameters": strict_json.checked(tool.parameters, f"tools.{tool.name}.parameters"),
    }
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def wire_tool_choice(choice: str | None) -> Value:
    """``tool_choice`` for `ModelConfig.tool_choice`: one of the three words, or a tool's name."""
    if choice in (None, "auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def wire_messages(
    messages: Sequence[Message],
    *,
    echo_reasoning: bool = True,
    tool_media: Literal["user", "tool", "text"] = "user",
) -> list[dict[str, Value]]:
    """The ``messages`` of a request, always valid: see the head of this module for what is mended.

    Args:
        messages: The conversation.
        echo_reasoning: Whether disclosed reasoning is sent back under the name that it came with.
        tool_media: What becomes of images and the like in tools' results; see `Dialect`.

    Raises:
        InvalidValue: If content parts or extra fields hold what JSON cannot (bytes, NaN).
    """
    slots = _join(messages)
    wire: list[dict[str, Value]] = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if isinstance(message, ToolMessage):
            continue
        if isinstance(message, AI):
            wire.append(_assistant(message, slots[index], echo_reasoning, path))
            answers = [_answer(slot, path) for slot in slots[index]]
            wire += answers
            if tool_media != "tool" and any(isinstance(answer["content"], list) for answer in answers):
                wire += _apart(answers, [slot.call.name for slot in slots[index]], show=tool_media == "user")
            continue
        role = "system" if isinstance(message, System) else "user"
        wire.append({"role": role, "content": _content(message, path), **_extra(message.extra, path)})
    return wire


def _join(messages: Sequence[Message]) -> dict[int, list[_Slot]]:
    """Give each call of each reply its wire id and its answer."""
    slots: dict[int, list[_Slot]] = {}
    open_slots: dict[str, list[list[_Slot]]] = {}
    taken: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, AI):
            slots[index] = [_Slot(call, _claim(call.id, taken)) for call in message.tool_calls]
            by_id: dict[str, list[_Slot]] = {}
            for slot in slots[index]:
                by_id.setdefault(slot.call.id, []).append(slot)
            for call_id, same in by_id.items():
                open_slots.setdefault(call_id, []).append(same)
        elif isinstance(message, ToolMessage):
            # Where ids were used again, an answer belongs to the latest reply that has such a call open.
            waiting = next((same for same in reversed(open_slots.get(message.call_id, [])) if same), None)
            if waiting:
                waiting.pop(0).answer = message
    return slots


def _claim(id: str, taken: set[str]) -> str:
    wire_id = next(candidate for candidate in wire_call_ids(id) if candidate not in taken)
    taken.add(wire_id)
    return wire_id


def wire_call_ids(id: str) -> Iterator[str]:
    """Ids for the wire made from a call's own id: the first is used, the next ones only where it is taken."""
    attempt = 0
    while True:
        digest = hashlib.sha256(f"{attempt}:{id}".encode(errors="surrogatepass")).digest()
        number = int.from_bytes(digest, "big")
        letters: list[str] = []
        for _ in range(_ID_LENGTH):
            number, letter = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[letter])
        yield "".join(letters)
        attempt += 1


def wire_name(name: str) -> str:
    """A tool's name as providers take it (``^[a-zA-Z0-9_-]{1,64}$``).

    A legal name is kept. In any other, each illegal character becomes ``_``, the rest is cut, and a digest of the
    real name is put behind, so that different names stay different.
    """
    if _LEGAL_NAME.match(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_ILLEGAL.sub('_', name)[:55] or 'tool'}_{digest}"


def wire_arguments(raw: str) -> str:
    """A call's arguments as providers take them back: the text of a JSON object in valid UTF-8."""
    if raw.isascii() and "\\u" not in raw and strict_json.arguments_object(raw) is not None:
        return raw
    if (value := strict_json.arguments_object(raw)) is not None:
        clean = strict_json.checked(value, "arguments")
        return raw if clean == value else strict_json.dump(clean)
    return "{}" if not raw.strip() or raw.strip() == "null" else strict_json.dump({"_raw": raw})


def _assistant(message: AI, slots: Sequence[_Slot], echo_reasoning: bool, path: str) -> dict[str, Value]:
    content = _content(message, path) or None
    if content is None and not slots:
        content = strict_json.valid_text(message.refusal or "")
    out: dict[str, Value] = {"role": "assistant", "content": content}
    if echo_reasoning and message.reasoning_field and message.reasoning:
        out[message.reasoning_field] = strict_json.valid_text(message.reasoning)
    if slots:
        out["tool_calls"] = [_call(slot, path) for slot in slots]
    extra = {key: value for key, value in _extra(message.extra, path).items() if key not in _OUTPUT_ONLY}
    # The sound of a spoken reply goes back as a reference.
    if isinstance(audio := extra.get("audio"), dict) and "id" in audio:
        extra["audio"] = {"id": audio["id"]}
    return {**extra, **out}


def _call(slot: _Slot, path: str) -> Value:
    extra = {key: value for key, value in slot.call.extra.items() if key not in _CALL_OUTPUT_ONLY}
    function: dict[str, Value] = {
        "name": wire_name(slot.call.name),
        "arguments": wire_arguments(slot.call.arguments),
    }
    return {**_extra(extra, path), "id": slot.wire_id, "type": "function", "function": function}


def _answer(slot: _Slot, path: str) -> dict[str, Value]:
    out: dict[str, Value] = {"role": "tool", "tool_call_id": slot.wire_id, "content": UNANSWERED}
    if slot.answer is not None:
        out["content"] = _content(slot.answer, path)
    return out


def _apart(answers: Sequence[dict[str, Value]], names: Sequence[str], *, show: bool) -> list[dict[str, Value]]:
    """Leave only text in tool messages; what is no text goes into a message behind them, if it is to be shown."""
    shown: list[Value] = []
    number = 0
    for answer, name in zip(answers, names, strict=True):
        content = answer["content"]
        words: list[str] = []
        for part in content if isinstance(content, list) else []:
            if not isinstance(part, dict):
                continue
            if isinstance(said := part.get("text"), str):
                words.append(said)
                continue
            number += 1
            kind = {"image_url": "image", "input_audio": "audio"}.get(str(part.get("type")), str(part.get("type")))
            words.append(f"[{kind} {number}{': see the next message' if show else ', which cannot be shown'}]")
            shown += [{"type": "text", "text": f"[{kind} {number}] of the result of {name}:"}, part]
        if isinstance(content, list):
            answer["content"] = "\n".join(words)
    return [{"role": "user", "content": shown}] if shown and show else []


def _content(message: Message, path: str) -> Value:
    # A list without parts is none that a provider takes.
    return strict_json.checked(content_value(message.content), f"{path}.content") or ""


def _extra(extra: Mapping[str, Value], path: str) -> dict[str, Value]:
    # A null field says nothing, and some providers refuse it.
    return {key: strict_json.checked(value, f"{path}.{key}") for key, value in extra.items() if value is not None}
