"""Chat Completions replies, whole or streamed, read with tolerance for what servers get wrong.

Formats: https://platform.openai.com/docs/api-reference/chat/object and ``.../chat/streaming``.
"""

from __future__ import annotations

from collections.abc import Mapping

from trouper.errors import ModelError

from . import strict_json
from .chat import REASONING_FIELDS, read_call
from .conversation import AI, Content, ToolCall, Usage, Value
from .exchange import ModelConfig, ModelReply

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same request may succeed later; so it may after every status from 500 on."""

_FINISH = {
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "safety": "content_filter",
}


def retryable_status(status: int) -> bool:
    """Whether a request that was answered with this HTTP status may succeed later."""
    return status in RETRYABLE_STATUSES or status >= 500


def read_reply(body: Value, config: ModelConfig, *, request_id: str | None = None) -> ModelReply:
    """Read a whole (not streamed) reply.

    Args:
        body: The JSON body of the response.
        config: The settings of the request; their ``max_tokens`` tells a cut-off reply.
        request_id: The provider's id of the request.

    Raises:
        ModelError: If the body is an error or holds no reply.
    """
    if not isinstance(body, dict):
        raise ModelError("the provider's answer is not a JSON object", retryable=True)
    refuse_error(body)
    choice = first_choice(body)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise ModelError("the provider's answer holds no choice", retryable=True)
    fields = without_null(message)
    fields.pop("role", None)
    calls = _calls(fields)
    reasoning_field = next((key for key in REASONING_FIELDS if isinstance(fields.get(key), str)), None)
    reasoning = str(fields.pop(reasoning_field)) if reasoning_field else None
    refusal = fields.pop("refusal", None)
    answer = AI(
        "",
        _content(fields.pop("content", None)),
        calls,
        reasoning or None,
        refusal if isinstance(refusal, str) and refusal else None,
        reasoning_field if reasoning else None,
        fields,
    )
    return finished(answer, choice.get("finish_reason"), body, config=config, request_id=request_id)


def without_null(fields: Mapping[str, Value]) -> dict[str, Value]:
    """The fields that say something and can be kept."""
    return {key: value for key, value in fields.items() if value is not None and strict_json.keepable(value)}


def refuse_error(body: Mapping[str, Value]) -> None:
    """Raise what an ``error`` in a body (of any status, or in a stream) says.

    Raises:
        ModelError: If there is one.
    """
    error = body.get("error")
    if not error:
        return
    told: Mapping[str, Value] = error if isinstance(error, dict) else {"message": error}
    code, kind = told.get("code"), str(told.get("type") or "")
    status = next((status for status in (code, told.get("status")) if _is_status(status)), None)
    retryable = retryable_status(status) if isinstance(status, int) else not kind.startswith("invalid_request")
    raise ModelError(
        f"the provider answered with an error: {strict_json.dump(told.get('message') or dict(told))}",
        retryable=retryable,
        status=status if isinstance(status, int) else None,
    )


def _is_status(value: Value) -> bool:
    return isinstance(value, int) and 400 <= value < 600


def first_choice(body: Mapping[str, Value]) -> dict[str, Value] | None:
    """Choice 0 of a reply or of a streamed piece."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return None
    return next((choice for choice in choices if isinstance(choice, dict) and choice.get("index") in (0, None)), None)


def finished(
    answer: AI, reason: Value, body: Mapping[str, Value], *, config: ModelConfig, request_id: str | None
) -> ModelReply:
    """Put a reply together, and judge how it ended.

    Raises:
        ModelError: If the provider says that it failed while answering.
    """
    usage, model = read_usage(body.get("usage")), body.get("model")
    word = reason.lower() if isinstance(reason, str) else ""
    if word == "error":
        raise ModelError("the provider failed while it answered", retryable=True)
    word = _FINISH.get(word, word) or "stop"
    # Some gateways report a reply that the limit cut off as complete; arguments of such a reply cannot be trusted.
    at_limit = config.max_tokens is not None and (usage.output_tokens or 0) >= config.max_tokens
    truncated = word == "length" or (at_limit and bool(answer.tool_calls))
    if word in ("stop", "tool_calls"):
        word = "tool_calls" if answer.tool_calls else "refusal" if answer.refusal else "stop"
    return ModelReply(answer, word, usage, truncated, model if isinstance(model, str) else None, request_id)


def read_usage(usage: Value) -> Usage:
    """Read ``usage``; what is missing or odd is unknown."""
    if not isinstance(usage, dict):
        return Usage()
    given, taken = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = given.get("cached_tokens") if isinstance(given, dict) else usage.get("prompt_cache_hit_tokens")
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(cached),
        _count(taken.get("reasoning_tokens")) if isinstance(taken, dict) else None,
    )


def _count(value: Value) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _content(content: Value) -> Content | None:
    if isinstance(content, list):
        return (
            tuple(part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content) or None
        )
    if content is None or isinstance(content, str):
        return content
    return strict_json.dump(content)


def _calls(fields: dict[str, Value]) -> tuple[ToolCall, ...]:
    """Take the calls out of a message; old servers send a single ``function_call`` instead."""
    given, old = fields.pop("tool_calls", None), fields.get("function_call")
    if isinstance(given, list) and given:
        return tuple(read_call(without_null(entry)) for entry in given if isinstance(entry, dict))
    if isinstance(old, dict) and old.get("name"):
        del fields["function_call"]
        return (read_call({"function": old}),)
    return ()
