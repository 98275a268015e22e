"""A final output together with calls: the calls are carried out first, and what became of them decides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.agents.office import AnyTool, World, asks, of, office, pending, told
from tests.agents.recipes import BAD, SOUP, TYPED, Recipe, cook, native

from trouper import Output, ToolError, ToolMessage, tool
from trouper.core.conversation import Value
from trouper.core.events import ActionReceipted, ModelResponded, OutputAccepted, OutputRejected
from trouper.runtime.results import RunResult
from trouper.testing import Reply

FINAL = ("final_result", SOUP)
STEW: Mapping[str, Value] = {"title": "Stew", "minutes": 90}


@tool(effect="idempotent_write")
def boom(n: int) -> str:
    """Fail."""
    raise ToolError(f"no {n}")


def tools(world: World) -> Sequence[AnyTool]:
    return [world.adder(), world.mailer(), boom]


def answers(result: RunResult) -> list[tuple[str, str, str]]:
    return [
        (message.name, message.status, str(message.content))
        for message in result.messages
        if isinstance(message, ToolMessage)
    ]


async def test_case_22_beside_a_call_that_succeeds_it_ends_the_run(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(FINAL, ("add", {"n": 1}))], tools) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        result = await run.wait()
        assert result.output == TYPED
        assert desk.world.effects == ["add 1"]
        assert answers(result) == [("final_result", "ok", "Accepted."), ("add", "ok", "added 1")]
        # The output is looked at when the call is over.
        assert [event.action for event in await of(run, ActionReceipted)] == ["0.1", "0.0"]
        assert len(await of(run, OutputAccepted)) == 1
        assert result.steps == 2


@pytest.mark.parametrize("calls", [[FINAL, ("boom", {"n": 1})], [("boom", {"n": 1}), FINAL]], ids=["before", "behind"])
async def test_case_22_beside_a_call_that_fails_the_model_sees_the_failure_first(
    calls: Sequence[tuple[str, Mapping[str, Value]]], tmp_path: Path
) -> None:
    script = [asks(*calls), asks(FINAL)]
    async with office(tmp_path, script, tools) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        result = await run.wait()
        assert result.output == TYPED
        shown = told(desk.stub.requests[1].messages)
        assert "no 1" in str(shown[[name for name, _ in calls].index("boom")])
        assert "another call of the same reply did not succeed" in str(
            shown[[name for name, _ in calls].index("final_result")]
        )
        assert [event.action for event in await of(run, OutputAccepted)] == ["1.0"]
        assert await of(run, OutputRejected) == []


@pytest.mark.parametrize("wrong", [("add", {"n": "x"}), ("no_such_tool", {})], ids=["arguments", "unknown"])
async def test_case_22_a_call_that_never_ran_is_a_failure_too(
    wrong: tuple[str, dict[str, Value]], tmp_path: Path
) -> None:
    script = [asks(FINAL, wrong), asks(FINAL)]
    async with office(tmp_path, script, tools) as desk, desk.open(cook(desk)) as runtime:
        result = await (await runtime.submit("desk", "Soup!")).wait()
        assert result.output == TYPED
        assert [status for _, status, _ in answers(result)] == ["error", "error", "ok"]


async def test_case_22_an_approval_holds_back_the_end_also_over_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("send_email", {"to": "a"}), FINAL)], tools) as desk:
        async with desk.open(cook(desk)) as runtime:
            run = await runtime.submit("desk", "Soup!")
            (waiting,) = await pending(runtime)
            assert waiting.tool == "send_email"
            assert await of(run, OutputAccepted) == []
        async with desk.open(cook(desk)) as runtime:
            await runtime.approve(waiting.action, by="maria")
            result = await runtime.run(run.id).wait()
            assert result.output == TYPED
            assert desk.world.effects == ["mail a"]
            assert answers(result) == [("send_email", "ok", "sent to a"), ("final_result", "ok", "Accepted.")]


async def test_case_22_a_denial_is_shown_to_the_model_before_it_ends(tmp_path: Path) -> None:
    script = [asks(("send_email", {"to": "a"}), FINAL), asks(FINAL)]
    async with office(tmp_path, script, tools) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        (waiting,) = await pending(runtime)
        await runtime.deny(waiting.action, by="maria", reason="not today")
        assert (await run.wait()).output == TYPED
        assert "not today" in str(told(desk.stub.requests[1].messages)[0])
        assert desk.world.effects == []


async def test_case_22_of_two_final_outputs_the_first_that_fits_counts(tmp_path: Path) -> None:
    for number, calls in enumerate([[FINAL, ("final_result", STEW)], [("final_result", BAD), FINAL, FINAL]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with office(folder, [asks(*calls)], tools) as desk, desk.open(cook(desk)) as runtime:
            run = await runtime.submit("desk", "Soup!")
            result = await run.wait()
            assert result.output == TYPED
            assert [event.action for event in await of(run, OutputAccepted)] == [f"0.{number}"]
            statuses = [status for _, status, _ in answers(result)]
            assert [place for place, status in enumerate(statuses) if status == "ok"] == [number]
            assert len(await of(run, ActionReceipted)) == len(calls)
            assert result.steps == 1


async def test_case_22_one_that_does_not_fit_goes_back_and_the_call_beside_it_was_carried_out_once(
    tmp_path: Path,
) -> None:
    script = [asks(("final_result", BAD), ("add", {"n": 1})), asks(FINAL)]
    async with office(tmp_path, script, tools) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        result = await run.wait()
        assert result.output == TYPED
        assert desk.world.effects == ["add 1"]
        assert [(name, status) for name, status, _ in answers(result)] == [
            ("final_result", "error"),
            ("add", "ok"),
            ("final_result", "ok"),
        ]
        assert [event.index for event in await of(run, OutputRejected)] == [0]


@pytest.mark.parametrize("mode", ["tool", "native", "instruction"])
async def test_case_22_text_beside_calls_is_never_the_output(mode: str, tmp_path: Path) -> None:
    beside = Reply(json.dumps(STEW), asks(("add", {"n": 1})).calls)
    async with office(tmp_path, [beside, json.dumps(SOUP)], tools) as desk:
        agent = cook(desk, Output(Recipe, mode=mode), model=native(desk))  # type: ignore[arg-type]  # one of them
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Soup!")
            assert (await run.wait()).output == TYPED
            assert desk.world.effects == ["add 1"]
            assert [(event.index, event.action) for event in await of(run, OutputAccepted)] == [(1, None)]


async def test_a_final_output_that_was_cut_off_is_not_looked_at(tmp_path: Path) -> None:
    cut = Reply(calls=asks(FINAL).calls, finish="length")
    async with office(tmp_path, [cut, asks(FINAL)], tools) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        assert (await run.wait()).output == TYPED
        assert "cut off" in str(told(desk.stub.requests[1].messages)[0])
        assert [event.index for event in await of(run, OutputAccepted)] == [1]


async def test_an_answer_that_a_stream_brings_in_pieces_is_the_same(tmp_path: Path) -> None:
    script = [asks(FINAL, ("boom", {"n": 1})), asks(FINAL)]
    async with office(tmp_path, script, tools, stream=True) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        assert (await run.wait()).output == TYPED
        assert len(await of(run, ModelResponded)) == 2
