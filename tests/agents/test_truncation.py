"""Replies that were cut off inside a tool call: none of their calls runs, whatever can be parsed of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from tests.agents.office import asks, of, office, told

from trouper import ModelConfig, OutputTruncated, ToolMessage
from trouper.core.events import ModelResponded
from trouper.core.wording import TRUNCATED
from trouper.runtime.results import RunResult
from trouper.testing import Reply, tc
from trouper.testing._answers import Answer

CUT = '{"path":"a","content":"hal'
WHOLE = '{"path":"a"}'
FULL = {"prompt_tokens": 10, "completion_tokens": 64, "total_tokens": 74}


def texts(calls: object) -> list[str]:
    """The argument texts of calls."""
    return [call["function"]["arguments"] for call in cast("list[dict[str, dict[str, str]]]", calls)]


ENDLESS = Reply(calls=[tc("c", "write_file", CUT)], finish="length")
CASES = [
    pytest.param(ENDLESS, id="A"),
    pytest.param(Reply(calls=[tc("c", "write_file", WHOLE)], finish="length"), id="B: parses"),
    pytest.param(Reply(calls=[tc("c", "write_file", CUT)], finish="tool_calls", usage=FULL), id="C: not told"),
    pytest.param(
        Reply("Now:", [tc("c", "write_file", WHOLE), tc("d", "write_file", CUT)], finish="length"), id="one of two"
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cut", CASES)
async def test_no_call_of_a_cut_off_reply_runs(tmp_path: Path, cut: Reply, *, stream: bool) -> None:
    script: list[Answer] = [cut, asks(("write_file", {"path": "a", "content": "half"})), "Written."]
    async with (
        office(
            tmp_path, script, lambda world: [world.writer()], stream=stream, settings=ModelConfig(max_tokens=64)
        ) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Write.")
        result = await run.wait()
        assert desk.world.effects == ["write a half"]
        answers = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [message.content for message in answers] == [TRUNCATED] * len(cut.calls) + ["wrote a"]
        assert "Issue the call again" in TRUNCATED
        assert [message.status for message in answers] == ["error"] * len(cut.calls) + ["ok"]
        assert told(desk.stub.requests[1].messages) == [TRUNCATED] * len(cut.calls)
        # The wire gets arguments that parse, the journal keeps what came.
        (sent,) = [message for message in desk.stub.requests[1].messages if message["role"] == "assistant"]
        assert all(isinstance(json.loads(arguments), dict) for arguments in texts(sent["tool_calls"]))
        responded = (await of(run, ModelResponded))[0]
        assert responded.truncated
        assert isinstance(responded.calls, tuple)
        assert [call.arguments for call in responded.calls] == texts(cut.calls)


async def test_a_reply_cut_off_without_end_ends_the_run_after_three(tmp_path: Path) -> None:
    async with (
        office(tmp_path, lambda _: ENDLESS, lambda world: [world.writer()]) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Write.")
        with pytest.raises(OutputTruncated, match="3 replies in a row were cut off by the length limit") as caught:
            await run.wait()
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert len(desk.stub.requests) == 3
        assert desk.world.effects == []
        assert (result.usage.input_tokens, result.usage.output_tokens) == (30, 15)
        assert [message.role for message in result.messages] == ["human", *["ai", "tool"] * 3]


async def test_cut_off_replies_count_in_a_row_only(tmp_path: Path) -> None:
    whole = asks(("write_file", {"path": "a", "content": "x"}))
    script: list[Answer] = [ENDLESS, ENDLESS, whole, ENDLESS, ENDLESS, "Done."]
    async with office(tmp_path, script, lambda world: [world.writer()]) as desk, desk.open() as runtime:
        assert (await (await runtime.submit("desk", "Write.")).wait()).output == "Done."
        assert desk.world.effects == ["write a x"]


async def test_a_run_that_was_cut_off_again_and_again_can_be_resumed(tmp_path: Path) -> None:
    script: list[Answer] = [ENDLESS, ENDLESS, ENDLESS, ENDLESS, "Done."]
    async with office(tmp_path, script, lambda world: [world.writer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write.")
        with pytest.raises(OutputTruncated):
            await run.wait()
        await runtime.resume(run.id, by="maria")
        assert (await run.wait()).output == "Done."


async def test_a_cut_off_text_is_the_answer_and_says_so(tmp_path: Path) -> None:
    async with office(tmp_path, [Reply("Once upon a", finish="length")]) as desk, desk.open() as runtime:
        result = await (await runtime.submit("desk", "Tell.")).wait()
        assert (result.output, result.finish_reason) == ("Once upon a", "length")
