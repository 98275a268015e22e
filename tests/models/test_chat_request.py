"""Whatever a history holds, what goes to a provider is valid."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.core.chat_request import Dialect, request_body, wire_arguments, wire_messages, wire_name
from trouper.core.conversation import AI, Human, Message, System, ToolCall, ToolMessage, ToolSpec
from trouper.core.exchange import ModelConfig
from trouper.errors import InvalidValue
from trouper.testing import violations

# Text of every kind, lone surrogates included.
_text = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["\ud800", "", "null", "{}", '{"a":"\\ud800"}']
)
_arguments = _text | st.sampled_from(['{"n":1}', '{"path":"a","content":"hal', "[1]", "NaN", '{"n":NaN}', "[" * 5000])
_ids = st.sampled_from(["", "r/0.0", "r/0.1", "r/1.0", "x" * 100, "\ud800"])
_calls = st.lists(st.builds(ToolCall, _ids, _text, _arguments, st.none() | _text), max_size=3)
_message: st.SearchStrategy[Message] = st.one_of(
    st.builds(System, st.just("m"), _text),
    st.builds(Human, st.just("m"), _text),
    st.builds(AI, st.just("m"), st.none() | _text, _calls, st.none() | _text, st.none() | _text),
    st.builds(ToolMessage, st.just("m"), _ids, _text, _text),
)


@given(st.lists(_message, min_size=1, max_size=8))
def test_every_history_is_valid_on_the_wire(messages: list[Message]) -> None:
    body = request_body("m", [Human("first", "go"), *messages])
    raw = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
    assert violations(raw) == []


@given(st.lists(_message, max_size=8))
def test_the_same_history_gives_the_same_bytes(messages: list[Message]) -> None:
    assert json.dumps(wire_messages(messages)) == json.dumps(wire_messages(list(messages)))


def _ids_of(wire: list[dict[str, Any]]) -> list[str]:
    return [call["id"] for message in wire for call in message.get("tool_calls", [])]


def _turn(index: int, *, provider_id: str | None) -> list[Message]:
    call = ToolCall(f"01J/{index}.0", "add", '{"n":1}', provider_id)
    return [AI(f"a{index}", None, (call,)), ToolMessage(f"t{index}", call.id, "add", f"result {index}")]


@pytest.mark.parametrize("provider_id", ["functions.add:0", "", None])
def test_case_1_ids_used_again_by_the_provider_stay_apart(provider_id: str | None) -> None:
    history = [Human("h", "go"), *_turn(0, provider_id=provider_id), *_turn(1, provider_id=provider_id)]
    wire = wire_messages(history)
    first, second = _ids_of(wire)
    assert first != second
    assert [(m["tool_call_id"], m["content"]) for m in wire if m["role"] == "tool"] == [
        (first, "result 0"),
        (second, "result 1"),
    ]
    # A call keeps its id on the wire, whatever stands around it.
    assert _ids_of(wire_messages(_turn(1, provider_id="other"))) == [second]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", each) for each in (first, second))


def test_calls_without_ids_of_ours_stay_apart_too() -> None:
    calls = (ToolCall("", "add", '{"n":1}', "x"), ToolCall("", "add", '{"n":2}', "x"))
    wire = wire_messages([AI("a", None, calls), ToolMessage("1", "", "add", "one"), ToolMessage("2", "", "add", "two")])
    assert len(set(_ids_of(wire))) == 2
    assert [m["content"] for m in wire[1:]] == ["one", "two"]
    assert [m["tool_call_id"] for m in wire[1:]] == _ids_of(wire)


def test_answers_are_put_in_the_order_asked_directly_behind_their_reply() -> None:
    calls = (ToolCall("r/0.0", "a", "{}"), ToolCall("r/0.1", "b", "{}"), ToolCall("r/0.2", "c", "{}"))
    wire = wire_messages(
        [
            AI("1", None, calls),
            Human("2", "hurry"),
            ToolMessage("3", "r/0.2", "c", "third"),
            ToolMessage("4", "r/0.0", "a", "first"),
            ToolMessage("5", "r/0.0", "a", "again"),
            ToolMessage("6", "r/9.9", "z", "nobody asked"),
        ]
    )
    assert [(m["role"], m["content"]) for m in wire] == [
        ("assistant", None),
        ("tool", "first"),
        ("tool", "error: no result of this call is recorded"),
        ("tool", "third"),
        ("user", "hurry"),
    ]


def test_an_answer_before_its_call_is_no_answer() -> None:
    wire = wire_messages([ToolMessage("1", "r/0.0", "a", "early"), AI("2", None, (ToolCall("r/0.0", "a", "{}"),))])
    assert [m["content"] for m in wire] == [None, "error: no result of this call is recorded"]


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"n": 1}', '{"n": 1}'),
        ('{"t":"ü\u2028"}', '{"t":"ü\u2028"}'),
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ('{"path":"a","content":"hal', '{"_raw":"{\\"path\\":\\"a\\",\\"content\\":\\"hal"}'),
        ("[1]", '{"_raw":"[1]"}'),
        ('{"n":NaN}', '{"_raw":"{\\"n\\":NaN}"}'),
        ('{"t":"\\ud800"}', '{"t":"\ufffd"}'),
        ('{"t":"\\ud83d\\ude00"}', '{"t":"\\ud83d\\ude00"}'),
    ],
)
def test_case_7_arguments_are_mended_on_the_wire(raw: str, sent: str) -> None:
    assert wire_arguments(raw) == sent


def test_numbers_and_nesting_without_end_are_mended() -> None:
    deep = '{"a":' * 400 + "1" + "}" * 400
    assert json.loads(wire_arguments(deep)) == {"_raw": deep}
    endless = f'{{"n":{"9" * 5000}}}'
    assert json.loads(wire_arguments(endless)) == {"_raw": endless}


@given(st.text(max_size=80), st.text(max_size=80))
def test_illegal_tool_names_become_legal_and_stay_different(one: str, other: str) -> None:
    legal = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    assert legal.fullmatch(wire_name(one))
    assert wire_name(one) == one or not legal.fullmatch(one)
    assert (wire_name(one) == wire_name(other)) == (one == other)


def test_contents_follow_the_rules_of_their_roles() -> None:
    wire = wire_messages(
        [
            System("0", "Be brief."),
            AI("1", "", (ToolCall("r/0.0", "a", "{}"),)),
            AI("2", None),
            AI("3", None, refusal="I will not."),
            Human("4", "\ud800x"),
            Human("5", ({"type": "text", "text": "hi"},), {"name": "maria", "note": None}),
            Human("6", ()),
        ]
    )
    assert wire[0] == {"role": "system", "content": "Be brief."}
    assert wire[1]["content"] is None
    assert [m["content"] for m in wire[3:6]] == ["", "I will not.", "\ufffdx"]
    assert wire[6] == {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "maria"}
    assert wire[7] == {"role": "user", "content": ""}


def test_what_a_provider_sent_along_goes_back_as_it_came() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    message = AI(
        "1",
        "ok",
        (ToolCall("r/0.0", "a", "{}", "x", {"extra_content": signature, "index": 0}),),
        reasoning="hm",
        reasoning_field="reasoning_content",
        extra={
            "reasoning_details": [{"type": "x", "data": "y"}],
            "annotations": [],
            "audio": {"id": "a1", "data": "..."},
        },
    )
    wire = wire_messages([message])[0]
    assert wire["reasoning_content"] == "hm"
    assert wire["reasoning_details"] == [{"type": "x", "data": "y"}]
    assert wire["audio"] == {"id": "a1"}
    assert "annotations" not in wire
    (call,) = wire["tool_calls"] if isinstance(wire["tool_calls"], list) else []
    assert isinstance(call, dict)
    assert call["extra_content"] == signature
    assert "index" not in call
    assert "reasoning_content" not in wire_messages([message], echo_reasoning=False)[0]


@pytest.mark.parametrize("bad", [b"bytes", float("nan"), float("inf")])
def test_what_json_cannot_say_is_refused_with_its_place(bad: bytes | float) -> None:
    with pytest.raises(InvalidValue) as caught:
        wire_messages([Human("1", "a"), Human("2", ({"type": "x", "data": [bad]},))])
    assert caught.value.path == "messages[1].content[0].data[0]"


_ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"n": {"type": "integer"}}})


def test_settings_stand_in_the_request() -> None:
    config = ModelConfig(
        temperature=0.0, max_tokens=5, stop=("END",), tool_choice="add", parallel_tool_calls=False, extra={"top_k": 3}
    )
    body = request_body("m", [Human("1", "hi")], [_ADD], config=config, stream=True)
    assert body["temperature"] == 0.0
    assert body["max_tokens"] == 5
    assert body["stop"] == ["END"]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert body["parallel_tool_calls"] is False
    assert body["top_k"] == 3
    assert body["stream_options"] == {"include_usage": True}
    assert violations(json.dumps(body).encode()) == []


def test_settings_about_tools_are_left_out_without_tools() -> None:
    body = request_body("m", [Human("1", "hi")], config=ModelConfig(tool_choice="auto", parallel_tool_calls=True))
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_a_dialect_names_the_limit_and_leaves_usage_out() -> None:
    dialect = Dialect(max_tokens_field="max_completion_tokens", stream_usage=False)
    body = request_body("m", [Human("1", "hi")], config=ModelConfig(max_tokens=5), dialect=dialect, stream=True)
    assert body["max_completion_tokens"] == 5
    assert "stream_options" not in body


def test_settings_of_a_call_win_over_the_models_own() -> None:
    own = ModelConfig(temperature=0.5, max_tokens=9, extra={"a": 1, "b": 1})
    call = ModelConfig(temperature=0.0, extra={"b": 2})
    assert call.over(own) == ModelConfig(temperature=0.0, max_tokens=9, extra={"a": 1, "b": 2})
    assert call.over(own).to_value() == {"temperature": 0.0, "max_tokens": 9, "extra": {"a": 1, "b": 2}}
