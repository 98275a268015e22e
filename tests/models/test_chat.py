"""Chat Completions JSON in and out without loss."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.core.chat import from_chat, to_chat
from trouper.core.conversation import AI, Human, Message, System, ToolCall, ToolMessage, Value
from trouper.errors import InvalidValue

_json: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_part = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text()),
    st.builds(lambda url: {"type": "image_url", "image_url": {"url": url, "detail": "low"}}, st.text()),
    st.builds(lambda data: {"type": "input_audio", "input_audio": data}, _json),
)
_content = st.text() | st.lists(_part, max_size=3)
_ids = st.sampled_from(["", "x", "y", "call_1", "0.0"])
_call = st.builds(
    lambda call_id, name, arguments, more: {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **more,
    },
    _ids,
    st.text(),
    st.text(),
    st.dictionaries(st.sampled_from(["extra_content", "index"]), _json),
)
_extra = st.dictionaries(st.sampled_from(["name", "annotations", "audio", "reasoning_details"]), _json, max_size=2)


def _message(role: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda given, extra: {"role": role, **extra, **given}, st.fixed_dictionaries(fields), _extra)


_assistant = st.builds(
    lambda base, more: {**base, **more},
    _message("assistant", content=st.none() | _content),
    st.fixed_dictionaries(
        {},
        optional={
            "tool_calls": st.none() | st.lists(_call, max_size=3),
            "reasoning_content": st.none() | st.text(),
            "reasoning": st.none() | st.text(),
            "refusal": st.none() | st.text(),
        },
    ),
)
_conversation = st.lists(
    st.one_of(
        _message("system", content=_content),
        _message("developer", content=_content),
        _message("user", content=_content),
        _message("tool", content=_content, tool_call_id=_ids),
        _assistant,
    ),
    max_size=8,
)


@given(_conversation)
def test_reading_and_writing_gives_the_same_json(chat: list[dict[str, Any]]) -> None:
    assert to_chat(from_chat(chat)) == chat


@given(_conversation)
def test_reading_written_messages_gives_the_same_messages(chat: list[dict[str, Any]]) -> None:
    messages = from_chat(chat, prefix="run-")
    assert from_chat(to_chat(messages)) == from_chat(chat)
    assert from_chat(to_chat(messages, notes=True)) == messages


def test_our_own_fields_survive_with_notes() -> None:
    messages: tuple[Message, ...] = (
        System("s", "Be brief."),
        Human("h", "Add."),
        AI(
            "a",
            None,
            (ToolCall("run/0.0", "add", "{}"), ToolCall("run/0.1", "add", "{}", "x")),
            "hm",
            None,
            "reasoning",
        ),
        ToolMessage("t1", "run/0.0", "add", "failed", "error"),
        ToolMessage("t2", "run/0.1", "add", "2", "ok", "x"),
    )
    assert from_chat(to_chat(messages, notes=True)) == messages
    assert "x_trouper" not in str(to_chat(messages))


def test_an_answer_finds_the_latest_open_call_where_ids_are_used_again() -> None:
    def turn(n: int) -> list[dict[str, Any]]:
        call = {"id": "functions.add:0", "type": "function", "function": {"name": "add", "arguments": f'{{"n":{n}}}'}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "tool_call_id": "functions.add:0", "content": f"{n}a"},
            {"role": "tool", "tool_call_id": "functions.add:0", "content": f"{n}b"},
        ]

    messages = from_chat([*turn(1), *turn(2)])
    answers = {message.call_id: message.content for message in messages if isinstance(message, ToolMessage)}
    assert answers == {"0.0": "1a", "0.1": "1b", "3.0": "2a", "3.1": "2b"}


@pytest.mark.parametrize(
    ("chat", "path"),
    [
        ([{"role": "user", "content": "a"}, {"role": "robot"}], "messages[1].role"),
        (["hello"], "messages[0]"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        ([{"role": "user", "content": [7]}], "messages[0].content[0]"),
        ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
        ([{"role": "assistant", "tool_calls": "x"}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0]"),
    ],
)
def test_a_malformed_message_is_refused_with_its_place(chat: list[Any], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        from_chat(chat)
    assert caught.value.path == path


def test_arguments_that_are_an_object_become_their_text() -> None:
    (message,) = from_chat(
        [{"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "add", "arguments": {"n": 1}}}]}]
    )
    assert isinstance(message, AI)
    assert message.tool_calls == (ToolCall("0.0", "add", '{"n":1}', "7"),)
