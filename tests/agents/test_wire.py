"""Providers as they are: whatever they send, plain or streamed, the loop goes on and the next request is valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.office import AnyTool, World, of, office, told

from trouper import AI, RunFailed
from trouper.core.conversation import Value
from trouper.core.events import ModelFailed, ModelRequested
from trouper.testing import Chunks, Drop, ManualClock, Raw, Reply, Status, tc
from trouper.testing._answers import Answer


def adders(world: World) -> list[AnyTool]:
    return [world.adder()]


def piece(index: int | None, **fields: Value) -> dict[str, Value]:
    """A delta with a piece of a call."""
    function: dict[str, Value] = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    call: dict[str, Value] = {**fields, "function": function}
    if index is not None:
        call["index"] = index
    return {"tool_calls": [call]}


ODD: dict[str, tuple[Answer, list[str]]] = {
    "no ids": (Reply(calls=[{"type": "function", "function": {"name": "add", "arguments": '{"n":1}'}}]), ["add 1"]),
    "null id": (Reply(calls=[tc(None, "add", '{"n":1}')]), ["add 1"]),
    "empty ids": (Reply(calls=[tc("", "add", '{"n":1}'), tc("", "add", '{"n":2}')]), ["add 1", "add 2"]),
    "one id twice": (Reply(calls=[tc("x", "add", '{"n":1}'), tc("x", "add", '{"n":2}')]), ["add 1", "add 2"]),
    "arguments are an object": (Reply(calls=[tc("x", "add", {"n": 1})]), ["add 1"]),
    "arguments are empty": (Reply(calls=[tc("x", "add", "")]), []),
    "arguments are null": (Reply(calls=[tc("x", "add", None)]), []),
    "finish says stop": (Reply(calls=[tc("x", "add", '{"n":1}')], finish="stop"), ["add 1"]),
    "no finish": (Reply(calls=[tc("x", "add", '{"n":1}')], finish=""), ["add 1"]),
    "no usage": (Reply(calls=[tc("x", "add", '{"n":1}')], usage=None), ["add 1"]),
    "null content": (Reply(None, [tc("x", "add", '{"n":1}')]), ["add 1"]),
    "content beside": (Reply("One moment.", [tc("x", "add", '{"n":1}')]), ["add 1"]),
    "reasoning": (Reply(calls=[tc("x", "add", '{"n":1}')], fields={"reasoning_content": "hm"}), ["add 1"]),
    "lone surrogate": (Reply("\ud800", [tc("x", "add", '{"n":1}')]), ["add 1"]),
    "a name that no provider takes": (Reply(calls=[tc("x", "add numbers!", '{"n":1}')]), []),
    "line separators": (Reply("a\u2028b\u0085c", [tc("x", "add", '{"n":1}')]), ["add 1"]),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", ODD)
async def test_odd_replies_do_what_they_mean_and_leave_a_valid_history(
    tmp_path: Path, name: str, *, stream: bool
) -> None:
    answer, effects = ODD[name]
    async with office(tmp_path, [answer, "Done."], adders, stream=stream) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Add.")
        result = await run.wait()
        assert result.output == "Done."
        assert sorted(desk.world.effects) == effects
        assert isinstance(answer, Reply)
        assert len(told(desk.stub.requests[1].messages)) == len(answer.calls)
        assert ("stream" in desk.stub.requests[0].body) == stream
        called = result.messages[1]
        assert isinstance(called, AI)
        assert [call.id for call in called.tool_calls] == [f"{run.id}/0.{n}" for n in range(len(answer.calls))]
        assert result.usage.unknown == (answer.usage is None)


STREAMS: dict[str, tuple[Chunks, list[str]]] = {
    "in pieces": (
        Chunks([piece(0, id="a", name="add", arguments='{"n'), piece(0, arguments='":'), piece(0, arguments="1}")]),
        ["add 1"],
    ),
    "interleaved": (
        Chunks(
            [
                piece(0, id="a", name="add", arguments='{"n'),
                piece(1, id="b", name="add", arguments='{"n":'),
                piece(0, arguments='":1}'),
                piece(1, arguments="2}"),
            ]
        ),
        ["add 1", "add 2"],
    ),
    "the second first": (
        Chunks([piece(1, id="b", name="add", arguments='{"n":2}'), piece(0, id="a", name="add", arguments='{"n":1}')]),
        ["add 1", "add 2"],
    ),
    "all numbered 0": (
        Chunks([piece(0, id="a", name="add", arguments='{"n":1}'), piece(0, id="b", name="add", arguments='{"n":2}')]),
        ["add 1", "add 2"],
    ),
    "no numbers": (
        Chunks(
            [piece(None, id="a", name="add", arguments='{"n":1}'), piece(None, id="b", name="add", arguments='{"n":2}')]
        ),
        ["add 1", "add 2"],
    ),
    "no done": (Chunks([piece(0, id="a", name="add", arguments='{"n":1}')], done=False), ["add 1"]),
    "no usage": (Chunks([piece(0, id="a", name="add", arguments='{"n":1}')], usage=None), ["add 1"]),
    "no finish": (Chunks([piece(0, id="a", name="add", arguments='{"n":1}')], finish=""), ["add 1"]),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_streams_in_any_shape_are_put_together(tmp_path: Path, name: str) -> None:
    answer, effects = STREAMS[name]
    async with office(tmp_path, [answer, "Done."], adders, stream=True) as desk, desk.open() as runtime:
        assert (await (await runtime.submit("desk", "Add.")).wait()).output == "Done."
        assert sorted(desk.world.effects) == effects


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Chunks([piece(0, id="a", name="add", arguments='{"n":1}')], cut=True), id="a stream cut off"),
        pytest.param(Chunks([{"content": "Hel"}], cut=True), id="a text cut off"),
        pytest.param(Raw(b"<html>502</html>", "text/html"), id="no JSON"),
        pytest.param(Raw(b'{"error": {"message": "overloaded"}}'), id="an error with status 200"),
        pytest.param(Status(500, b"\xff\xfe not JSON"), id="an error body that is no text"),
        pytest.param(Drop(), id="no answer"),
        pytest.param(Raw(b'{"choices": []}'), id="no choice"),
    ],
)
async def test_what_is_no_reply_is_asked_for_again_and_nothing_of_it_runs(tmp_path: Path, failure: Answer) -> None:
    clock = ManualClock()
    async with (
        office(tmp_path, [failure, "Done."], adders, by_turn=False, stream=True, clock=clock) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Add.")
        async with runtime.journal.news() as news:
            while not await of(run, ModelFailed):
                await news.wait()
        clock.advance(60)
        result = await run.wait()
        assert result.output == "Done."
        assert [message.role for message in result.messages] == ["human", "ai"]
        assert [event.attempt for event in await of(run, ModelRequested)] == [1, 2]
        assert desk.world.effects == []


async def test_an_error_that_no_attempt_mends_is_told_in_its_own_words(tmp_path: Path) -> None:
    refusal = Status(400, {"error": {"message": "this model is too small for that", "code": "context"}})
    async with office(tmp_path, [refusal]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Hello?")
        with pytest.raises(RunFailed, match="400: this model is too small for that"):
            await run.wait()
        assert (await run.result()).status == "failed"
