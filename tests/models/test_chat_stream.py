"""Streamed pieces, in whatever way servers number and order them, make the same reply."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.core.chat_stream import DONE, StreamedReply
from trouper.core.conversation import Usage
from trouper.core.exchange import (
    Finished,
    ModelConfig,
    ModelReply,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from trouper.errors import ModelError

Delta = dict[str, Any]


def _chunk(delta: Delta, finish: str | None = None) -> Delta:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _reply(deltas: list[Delta], *, finish: str | None = "tool_calls", config: ModelConfig | None = None) -> ModelReply:
    streamed = StreamedReply()
    for delta in deltas:
        streamed.feed(_chunk(delta))
    streamed.feed(_chunk({}, finish))
    streamed.feed(DONE)
    return streamed.finish(config or ModelConfig())


def _piece(index: int | None = None, **given: Any) -> Delta:
    function = {key: given.pop(key) for key in ("name", "arguments") if key in given}
    return {"tool_calls": [{**({} if index is None else {"index": index}), **given, "function": function}]}


def _calls(deltas: list[Delta]) -> list[tuple[str, str, str | None]]:
    return [(call.name, call.arguments, call.provider_id) for call in _reply(deltas).message.tool_calls]


TWO = [("add", '{"n":1}', "x"), ("add", '{"n":2}', "y")]


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            [
                _piece(0, id="x", name="add", arguments=""),
                _piece(0, arguments='{"n"'),
                _piece(0, arguments=":1}"),
                _piece(1, id="y", name="add", arguments=""),
                _piece(1, arguments='{"n":2}'),
            ],
            TWO,
            id="as documented",
        ),
        pytest.param(
            [
                _piece(1, id="y", name="add", arguments='{"n":'),
                _piece(0, id="x", name="add", arguments='{"n":1}'),
                _piece(1, arguments="2}"),
            ],
            TWO,
            id="out of order",
        ),
        pytest.param(
            [_piece(0, id="x", name="add", arguments='{"n":1}'), _piece(0, id="y", name="add", arguments='{"n":2}')],
            TWO,
            id="every call numbered 0",
        ),
        pytest.param(
            [_piece(0, name="add", arguments='{"n":1}'), _piece(0, name="add", arguments='{"n":2}')],
            [("add", '{"n":1}', None), ("add", '{"n":2}', None)],
            id="every call numbered 0, without ids",
        ),
        pytest.param(
            [_piece(id="x", name="add", arguments='{"n":1}'), _piece(id="y", name="add", arguments='{"n":2}')],
            TWO,
            id="without numbers",
        ),
        pytest.param(
            [
                _piece(name="now", arguments=""),
                _piece(name="add", arguments='{"n":2}'),
                _piece(name="now", arguments=""),
            ],
            [("now", "", None), ("add", '{"n":2}', None), ("now", "", None)],
            id="without numbers and ids",
        ),
        pytest.param(
            [_piece(0, id="x", name="add", arguments='{"n"'), _piece(0, id="z", arguments=":1}")],
            [("add", '{"n":1}', "x")],
            id="a fresh id with each piece",
        ),
        pytest.param(
            [
                _piece(0, id="x", name="add", arguments='{"n"'),
                _piece(0, id="x", name="add", arguments=":1}"),
                _piece(0, id="x", name="add", arguments=""),
            ],
            [("add", '{"n":1}', "x")],
            id="id and name with each piece",
        ),
        pytest.param(
            [_piece(0, name="add", arguments='{"n":1}'), _piece(0, name="add", arguments="")],
            [("add", '{"n":1}', None)],
            id="the name again at the end",
        ),
        pytest.param(
            [_piece(0, id="x", arguments='{"n"'), _piece(0, name="add", arguments=":1}")],
            [("add", '{"n":1}', "x")],
            id="the name comes late",
        ),
        pytest.param(
            [_piece(0, id="x", name="ad"), _piece(0, name="d"), _piece(0, arguments='{"n":1}')],
            [("add", '{"n":1}', "x")],
            id="the name in pieces",
        ),
        pytest.param(
            [_piece(0, id="", name="add", arguments='{"n":1}'), _piece(1, id="", name="add", arguments='{"n":2}')],
            [("add", '{"n":1}', ""), ("add", '{"n":2}', "")],
            id="empty ids",
        ),
        pytest.param(
            [_piece(0, id="x", name="add", arguments='{"n":1}'), _piece(1, id="x", name="add", arguments='{"n":2}')],
            [("add", '{"n":1}', "x"), ("add", '{"n":2}', "x")],
            id="one id for two",
        ),
        pytest.param(
            [_piece(0, id=None, name="add", arguments={"n": 1})],
            [("add", '{"n":1}', None)],
            id="arguments as an object, null id",
        ),
        pytest.param([_piece(0, id="x", name="add")], [("add", "", "x")], id="no arguments at all"),
        pytest.param(
            [{"function_call": {"name": "add", "arguments": ""}}, {"function_call": {"arguments": '{"n":1}'}}],
            [("add", '{"n":1}', None)],
            id="the old function_call",
        ),
        pytest.param(
            [{"tool_calls": None, "content": None, "role": "assistant"}, {"tool_calls": []}], [], id="nothing"
        ),
    ],
)
def test_calls_are_put_together(deltas: list[Delta], calls: list[tuple[str, str, str | None]]) -> None:
    assert _calls(deltas) == calls


@given(st.data())
def test_any_cut_and_any_interleaving_of_calls_gives_the_same_reply(data: st.DataObject) -> None:
    """Pieces of several calls may be mixed in any way as long as each call's own pieces stay in order."""
    wanted: list[tuple[str, str, str | None]] = []
    queues: list[list[Delta]] = []
    for index in range(data.draw(st.integers(1, 4))):
        text = data.draw(st.sampled_from(['{"n":1}', "{}", '{"t":"ü"}', "", '{"cut":"of']))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
        edges = [0, *cuts, len(text)]
        parts = [text[start:end] for start, end in pairwise(edges)]
        call_id = f"id{index}"
        head = _piece(index, id=call_id, name="add", arguments=parts[0])
        queues.append([head, *(_piece(index, arguments=part) for part in parts[1:])])
        wanted.append(("add", text, call_id))
    deltas: list[Delta] = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        deltas.append(queue.pop(0))
    assert _calls(deltas) == wanted


def test_each_piece_is_passed_on() -> None:
    streamed = StreamedReply()
    passed = [
        chunk
        for body in [
            _chunk({"role": "assistant", "content": ""}),
            _chunk({"reasoning_content": "h", "reasoning": "h"}),
            _chunk({"reasoning_content": "m"}),
            _chunk({"content": "ü"}),
            _chunk({"refusal": "no"}),
            _chunk(_piece(0, id="x", name="add", arguments="{")),
            _chunk(_piece(0, arguments="}"), "tool_calls"),
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
        ]
        for chunk in streamed.feed(body)
    ]
    assert passed == [
        ReasoningDelta("h"),
        ReasoningDelta("m"),
        TextDelta("ü"),
        RefusalDelta("no"),
        ToolCallDelta(0, "x", "add", "{"),
        ToolCallDelta(0, None, None, "}"),
        UsageDelta(Usage(3, 4)),
    ]
    reply = streamed.finish(ModelConfig())
    assert reply.message.reasoning == "hm"
    assert reply.message.reasoning_field == "reasoning_content"
    assert reply.message.content == "ü"
    assert reply.message.refusal == "no"
    assert reply.usage == Usage(3, 4)
    assert not any(isinstance(chunk, Finished) for chunk in passed)


def test_a_refusal_alone_ends_the_reply_as_one() -> None:
    reply = _reply([{"refusal": "I "}, {"refusal": "can't"}], finish="stop")
    assert (reply.finish_reason, reply.message.refusal, reply.message.content) == ("refusal", "I can't", None)


def test_fields_that_nobody_interprets_are_put_together() -> None:
    reply = _reply(
        [
            {"reasoning_details": [{"a": 1}], "signature": "ab", "meta": {"x": "1"}},
            {"reasoning_details": [{"b": 2}], "signature": "c", "meta": {"x": "2", "y": 1}, "bad": float("nan")},
            _piece(0, id="x", name="add", extra_content={"google": {"sig": "s"}}),
        ]
    )
    assert reply.message.extra == {
        "reasoning_details": [{"a": 1}, {"b": 2}],
        "signature": "abc",
        "meta": {"x": "12", "y": 1},
    }
    assert reply.message.tool_calls[0].extra == {"extra_content": {"google": {"sig": "s"}}}


def test_the_whole_message_at_the_end_is_read_where_no_pieces_came() -> None:
    whole: Delta = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
    }
    streamed = StreamedReply()
    streamed.feed(whole)
    assert streamed.finish(ModelConfig()).message.content == "hi"
    streamed = StreamedReply()
    streamed.feed(_chunk({"content": "hi"}))
    streamed.feed(whole)
    assert streamed.finish(ModelConfig()).message.content == "hi"


def test_other_choices_and_noise_are_left_aside() -> None:
    streamed = StreamedReply()
    noise: list[Any] = [7, None, [], {}, {"choices": None}, {"choices": [{"index": 1, "delta": {"content": "no"}}]}]
    for body in noise:
        assert streamed.feed(body) == []
    streamed.feed(_chunk({"content": "yes"}, "stop"))
    assert streamed.finish(ModelConfig()).message.content == "yes"


@pytest.mark.parametrize("cut", [[], [_chunk({"content": "hal"})], [_chunk(_piece(0, id="x", name="add"))]])
def test_a_stream_that_breaks_off_is_no_reply(cut: list[Delta]) -> None:
    streamed = StreamedReply()
    for body in cut:
        streamed.feed(body)
    with pytest.raises(ModelError, match="broke off") as caught:
        streamed.finish(ModelConfig())
    assert caught.value.retryable


def test_a_stream_without_finish_reason_counts_once_it_says_that_it_is_done() -> None:
    streamed = StreamedReply()
    streamed.feed(_chunk(_piece(0, id="x", name="add", arguments="{}")))
    streamed.feed(DONE)
    assert streamed.finish(ModelConfig()).finish_reason == "tool_calls"


def test_a_stream_that_is_done_at_once_held_no_reply() -> None:
    streamed = StreamedReply()
    streamed.feed(DONE)
    with pytest.raises(ModelError, match="no reply"):
        streamed.finish(ModelConfig())


def test_an_error_inside_a_stream_is_raised() -> None:
    with pytest.raises(ModelError, match="overloaded") as caught:
        StreamedReply().feed({"error": {"message": "overloaded", "code": 503}})
    assert (caught.value.retryable, caught.value.status) == (True, 503)
