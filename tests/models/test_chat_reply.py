"""Whole replies, right and odd."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.core.chat_reply import read_reply, read_usage
from trouper.core.conversation import AI, Usage, Value
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.errors import ModelError
from trouper_journal._values import pack


def _body(message: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def _tc(id: Any, arguments: Any, name: str = "add") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _read(message: dict[str, Any], finish: str | None = None, *, limit: int | None = None, **more: Any) -> ModelReply:
    return read_reply(_body(message, finish, **more), ModelConfig(max_tokens=limit))


def test_a_text_reply() -> None:
    reply = read_reply(
        _body(
            {"role": "assistant", "content": "hi", "refusal": None, "annotations": []},
            "stop",
            model="gpt-x",
            usage={
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        ),
        ModelConfig(),
        request_id="req-1",
    )
    assert reply == ModelReply(
        AI("", "hi", extra={"annotations": []}), "stop", Usage(9, 2, 4, 1), model="gpt-x", request_id="req-1"
    )


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "tool_use", None, "eos"])
def test_a_reply_with_calls_calls_whatever_its_finish_reason(finish: str | None) -> None:
    reply = _read({"content": None, "tool_calls": [_tc("x", "{}")]}, finish)
    assert reply.finish_reason == "tool_calls"
    assert not reply.truncated


@pytest.mark.parametrize(
    ("given", "kept"),
    [("x", "x"), ("", ""), (None, None), (7, "7"), ({}, None)],
)
def test_case_1_call_ids_are_kept_as_sent_and_ours_are_left_to_the_runtime(given: Any, kept: str | None) -> None:
    (one, two) = _read(
        {"content": None, "tool_calls": [_tc(given, '{"n":1}'), _tc(given, '{"n":2}')]}
    ).message.tool_calls
    assert (one.id, two.id) == ("", "")
    assert (one.provider_id, two.provider_id) == (kept, kept)
    assert (one.arguments, two.arguments) == ('{"n":1}', '{"n":2}')


def test_a_call_without_id_key_is_read() -> None:
    (call,) = _read({"tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]}).message.tool_calls
    assert (call.name, call.provider_id) == ("add", None)


@pytest.mark.parametrize(("given", "raw"), [("", ""), (None, ""), ({"n": 1}, '{"n":1}'), ([1], "[1]"), ("nul", "nul")])
def test_arguments_of_any_kind_are_kept_as_text(given: Any, raw: str) -> None:
    assert _read({"tool_calls": [_tc("x", given)]}).message.tool_calls[0].arguments == raw


def test_the_old_function_call_is_a_call() -> None:
    reply = _read({"content": None, "function_call": {"name": "add", "arguments": "{}"}}, "function_call")
    assert [call.name for call in reply.message.tool_calls] == ["add"]
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_under_either_name(field: str) -> None:
    message = _read({"content": "hi", field: "hm"}).message
    assert (message.reasoning, message.reasoning_field, message.extra) == ("hm", field, {})


@pytest.mark.parametrize(
    ("finish", "arguments", "used", "limit", "truncated"),
    [
        pytest.param("length", '{"path":"a","content":"hal', 9, 50, True, id="A"),
        pytest.param("length", '{"path":"a"}', 9, 50, True, id="B"),
        pytest.param("tool_calls", '{"path":"a","content":"hal', 50, 50, True, id="C"),
        pytest.param("tool_calls", '{"path":"a"}', 50, 50, True, id="C, arguments parse"),
        pytest.param("max_tokens", "{}", 9, None, True, id="length under another name"),
        pytest.param("tool_calls", '{"path":"a","content":"hal', 9, 50, False, id="merely malformed"),
        pytest.param("tool_calls", '{"path":"a"}', 50, None, False, id="no limit known"),
    ],
)
def test_case_7_a_reply_that_was_cut_off_says_so(
    finish: str, arguments: str, used: int, limit: int | None, *, truncated: bool
) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": used}
    reply = _read({"content": None, "tool_calls": [_tc("x", arguments)]}, finish, limit=limit, usage=usage)
    assert reply.truncated is truncated
    assert reply.message.tool_calls[0].arguments == arguments


def test_a_text_that_just_fits_is_not_cut_off() -> None:
    assert not _read({"content": "hi"}, "stop", limit=5, usage={"completion_tokens": 5}).truncated
    assert _read({"content": "hi"}, "length", limit=5).truncated


@pytest.mark.parametrize(
    ("message", "finish", "word"),
    [
        ({"content": None, "refusal": "I can't"}, "stop", "refusal"),
        ({"content": "", "refusal": ""}, "stop", "stop"),
        ({"content": ""}, "content_filter", "content_filter"),
        ({"content": "x"}, "weird", "weird"),
        ({}, None, "stop"),
    ],
)
def test_finish_reasons(message: dict[str, Any], finish: str | None, word: str) -> None:
    assert _read(message, finish).finish_reason == word


@pytest.mark.parametrize(
    "usage", [None, 7, {}, {"prompt_tokens": None}, {"prompt_tokens": "9"}, {"prompt_tokens": True}]
)
def test_unknown_usage_is_unknown(usage: Value) -> None:
    assert read_usage(usage) == Usage()


def test_odd_usage() -> None:
    assert read_usage({"prompt_tokens": 3.0, "completion_tokens": -1, "prompt_cache_hit_tokens": 2}) == Usage(
        3, None, 2
    )


@pytest.mark.parametrize(
    ("body", "told", "retryable", "status"),
    [
        ({"error": {"message": "slow down", "code": 429}}, "slow down", True, 429),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, "bad", False, None),
        ({"error": {"message": "no key", "code": 401}}, "no key", False, 401),
        ({"error": "overloaded"}, "overloaded", True, None),
        ({"choices": []}, "no choice", True, None),
        ({"choices": None}, "no choice", True, None),
        ({}, "no choice", True, None),
        ([], "not a JSON object", True, None),
        (_body({"content": "x"}, "error"), "failed while", True, None),
    ],
)
def test_errors_that_come_with_status_200(body: Value, told: str, retryable: bool, status: int | None) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        read_reply(body, ModelConfig())
    assert (caught.value.retryable, caught.value.status) == (retryable, status)


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_odd = st.dictionaries(
    st.sampled_from(["content", "tool_calls", "reasoning", "reasoning_content", "refusal", "function_call", "x"]), _json
)


@given(_odd | st.builds(lambda calls: {"tool_calls": calls}, st.lists(st.builds(_tc, _json, _json))), _json, _json)
def test_any_message_gives_a_reply_that_can_be_journaled(message: dict[str, Any], finish: Any, usage: Any) -> None:
    try:
        reply = _read(message, finish, usage=usage)
    except ModelError:
        assert isinstance(finish, str)
        assert finish.lower() == "error"
        return
    answer = reply.message
    pack([answer.content if isinstance(answer.content, str | None) else list(answer.content), answer.reasoning])
    pack([answer.refusal, answer.extra, [[c.name, c.arguments, c.provider_id, c.extra] for c in answer.tool_calls]])
