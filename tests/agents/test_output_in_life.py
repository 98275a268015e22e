"""Outputs of runs that are steered, stopped, changed and delegated to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import pytest
import trio
from tests.agents.office import asks, happened, of, office, pending, told, until
from tests.agents.recipes import BAD, SOUP, TYPED, Recipe, cook

from trouper import Agent, DriftPolicy, Limits, Output, OutputInvalid, RunIncomplete, ToolMessage, requires_receipt
from trouper.core.conversation import Value
from trouper.core.events import ModelLost, OutputAccepted, OutputRejected
from trouper.testing import Reply, ScriptedModel, Wait, call, calls
from trouper.testing._answers import Answer

FINAL = ("final_result", SOUP)
STEW: tuple[str, Mapping[str, Value]] = ("final_result", {"title": "Stew", "minutes": 90})


# ---- stopped in the middle of a round


@pytest.mark.parametrize("mode", ["tool", "instruction"])
async def test_a_restart_in_a_round_of_repairs_goes_on_in_it(mode: str, tmp_path: Path) -> None:
    never = trio.Event()
    bad, good = (
        (asks(("final_result", BAD)), asks(FINAL))
        if mode == "tool"
        else (Reply(json.dumps(BAD)), Reply(json.dumps(SOUP)))
    )
    script: list[Answer] = [bad, Wait(never, bad), bad, good]

    def answer(request: dict[str, object]) -> Answer:
        turn = sum(message["role"] == "assistant" for message in request["messages"])  # type: ignore[attr-defined]  # JSON
        if turn == 1 and len(desk.stub.requests) > 2:
            return bad
        return script[turn if turn < 2 else turn + 1]

    async with office(tmp_path, answer) as desk:  # type: ignore[arg-type]  # JSON
        agent = cook(desk, Output(Recipe, mode=mode))  # type: ignore[arg-type]  # one of them
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Soup!")
            await happened(runtime, run, OutputRejected)
            await desk.stub.wait_requests(2)
        async with desk.open(agent) as runtime:
            run = runtime.run(run.id)
            assert (await run.wait()).output == TYPED
            assert len(await of(run, ModelLost)) == 1
            # What was sent back before the stop counts after it.
            assert [event.index for event in await of(run, OutputRejected)] == [0, 1]
            assert len(desk.stub.requests) == 4
            assert desk.stub.requests[1].messages == desk.stub.requests[2].messages


# ---- somebody says something


async def test_whoever_speaks_while_a_call_beside_the_output_is_open_is_heard_first(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), FINAL), asks(STEW)]
    async with (
        office(tmp_path, script, lambda world: [world.mailer()]) as desk,
        desk.open(cook(desk)) as runtime,
    ):
        run = await runtime.submit("desk", "Soup!")
        (waiting,) = await pending(runtime)
        await runtime.steer(run.id, "Rather stew.", by="maria")
        await runtime.approve(waiting.action, by="maria")
        result = await run.wait()
        assert result.output == Recipe("Stew", 90)
        assert [event.action for event in await of(run, OutputAccepted)] == ["1.0"]
        assert await of(run, OutputRejected) == []
        assert "somebody has said something meanwhile" in str(told(desk.stub.requests[1].messages)[1])
        assert desk.stub.requests[1].messages[-1]["content"] == "Rather stew."


async def test_whoever_speaks_before_a_refusal_came_has_the_last_word(tmp_path: Path) -> None:
    go = trio.Event()
    script: list[Answer] = [Wait(go, Reply(None, fields={"refusal": "I can't"})), json.dumps(SOUP)]
    async with office(tmp_path, script) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        await desk.stub.wait_requests(1)
        await runtime.steer(run.id, "It is only soup.", by="maria")
        go.set()
        assert (await run.wait()).output == TYPED


async def test_a_run_that_is_cancelled_leaves_no_call_unanswered(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), FINAL)]
    async with (
        office(tmp_path, script, lambda world: [world.mailer()]) as desk,
        desk.open(cook(desk)) as runtime,
    ):
        run = await runtime.submit("desk", "Soup!")
        await pending(runtime)
        await run.cancel(by="maria")
        await until(runtime, run.id, "cancelled")
        state = await run.state()
        answers = [message for message in state.messages if isinstance(message, ToolMessage)]
        assert [answer.status for answer in answers] == ["error", "error"]
        assert state.output is None


# ---- another definition


async def test_an_output_that_is_no_longer_asked_for_is_handed_back(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), FINAL), "Just text."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open(cook(desk)) as runtime:
            run = await runtime.submit("desk", "Soup!")
            (waiting,) = await pending(runtime)
        async with desk.open(desk.agent(), drift=DriftPolicy(contract="adopt")) as runtime:
            await runtime.approve(waiting.action, by="maria")
            result = await runtime.run(run.id).wait()
            assert result.output == "Just text."
            answers = [str(message.content) for message in result.messages if isinstance(message, ToolMessage)]
            assert answers == ["sent to a", "Not used: no such output is asked for any more."]


async def test_a_changed_output_is_a_changed_contract(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), FINAL)]
    async with office(tmp_path, script, lambda world: [world.mailer()], done=False) as desk:
        async with desk.open(cook(desk)) as runtime:
            run = await runtime.submit("desk", "Soup!")
            (waiting,) = await pending(runtime)
        async with desk.open(cook(desk, list[int])) as runtime:
            await runtime.approve(waiting.action, by="maria")
            assert (await until(runtime, run.id, "drifted")).drift == ("contract",)


async def test_an_ended_run_whose_type_has_changed_keeps_its_json(tmp_path: Path) -> None:
    async with office(tmp_path, [json.dumps(SOUP)]) as desk:
        async with desk.open(cook(desk)) as runtime:
            run = await runtime.submit("desk", "Soup!")
            await run.wait()
        async with desk.open(cook(desk, list[int])) as runtime:
            assert (await runtime.run(run.id).wait()).output == SOUP


# ---- in sub-agents


def child(*steps: object, **more: object) -> Agent:
    model = ScriptedModel(steps, by_turn=True, name="of the cook")  # type: ignore[arg-type]  # steps
    agent = Agent("cook", "You cook.", model=model, description="Cooks.", output=Output(Recipe, mode="tool", rounds=1))
    return attrs.evolve(agent, **more)  # type: ignore[arg-type]  # fields


def parent(cook: Agent, *steps: object) -> Agent:
    model = ScriptedModel(steps, by_turn=True, name="of the chef")  # type: ignore[arg-type]  # steps
    return Agent("chef", "You lead.", model=model, tools=[cook.as_tool()], completion=[requires_receipt("cook")])


async def test_a_sub_agents_output_comes_back_as_json_and_its_rounds_are_its_own(tmp_path: Path) -> None:
    bad = call("final_result", **BAD)
    cook = child(bad, call("final_result", **SOUP))
    top = parent(cook, "I cooked.", call("cook", input="Soup"), "It is soup.")
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("chef", "Soup!")
        result = await run.wait()
        assert result.output == "It is soup."
        (answer,) = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert json.loads(str(answer.content)) == SOUP
        # The call of the sub-agent is evidence, and what it was sent back for is nobody else's.
        assert [event.kind for event in await of(run, OutputRejected)] == ["incomplete"]
        (below,) = await run.children()
        inner = runtime.run(below.run)
        assert (await inner.wait()).output == TYPED
        assert [event.kind for event in await of(inner, OutputRejected)] == ["invalid"]


async def test_a_sub_agent_that_fails_over_its_output_is_an_error_for_its_caller_and_no_evidence(
    tmp_path: Path,
) -> None:
    cook = child(*[call("final_result", **BAD)] * 2)
    top = parent(cook, call("cook", input="Soup"), *["It is soup."] * 3)
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("chef", "Soup!")
        with pytest.raises(RunIncomplete):
            await run.wait()
        (answer,) = [message for message in (await run.result()).messages if isinstance(message, ToolMessage)]
        assert "did not fit the output that it was asked for" in str(answer.content)
        assert "minutes" in str(answer.content)
        (below,) = await run.children()
        with pytest.raises(OutputInvalid):
            await runtime.run(below.run).wait()


async def test_an_approval_in_a_sub_agent_holds_back_both_ends_also_over_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, done=False) as desk:
        cook = child(calls(call("send_email", to="a"), call("final_result", **SOUP)), tools=[desk.world.mailer()])
        top = attrs.evolve(
            parent(cook, calls(call("cook", input="Soup"), call("final_result", **SOUP))), output=Output(Recipe)
        )
        async with desk.open(top) as runtime:
            run = await runtime.submit("chef", "Soup!")
            (waiting,) = await pending(runtime)
        async with desk.open(top) as runtime:
            run = runtime.run(run.id)
            assert await of(run, OutputAccepted) == []
            await runtime.approve(waiting.action, by="maria")
            assert (await run.wait()).output == TYPED
            assert desk.world.effects == ["mail a"]


@pytest.mark.parametrize("on_limit", ["raise", "finish"])
async def test_case_20_a_limit_in_a_sub_agent_is_an_error_for_its_caller_or_its_last_output(
    on_limit: Literal["raise", "finish"], tmp_path: Path
) -> None:
    async with office(tmp_path, done=False) as desk:
        adding = calls(call("add", n=1), call("add", n=2))
        cook = child(adding, adding, call("final_result", **SOUP), tools=[desk.world.adder()])
        cook = attrs.evolve(cook, limits=Limits(max_steps=3, on_limit=on_limit))
        top = attrs.evolve(parent(cook, call("cook", input="Soup"), "So be it."), completion=[])
        async with desk.open(top) as runtime:
            run = await runtime.submit("chef", "Soup!")
            result = await run.wait()
            assert result.output == "So be it."
            assert sorted(desk.world.effects) == ["add 1", "add 2"]
            (answer,) = [message for message in result.messages if isinstance(message, ToolMessage)]
            if on_limit == "finish":
                assert json.loads(str(answer.content)) == SOUP
            else:
                assert answer.status == "error"
                assert "it reached its limit of steps" in str(answer.content)
            (below,) = await run.children()
            state = await runtime.run(below.run).state()
            assert [message.role for message in state.messages[:7]] == ["human", *["ai", "tool", "tool"] * 2]


async def test_a_refusal_in_a_sub_agent_is_an_error_for_its_caller(tmp_path: Path) -> None:
    from trouper import AI

    cook = child(AI("", None, refusal="I will not."))
    top = attrs.evolve(parent(cook, call("cook", input="Soup"), "It would not."), completion=[])
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        result = await (await runtime.submit("chef", "Soup!")).wait()
        (answer,) = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert answer.status == "error"
        assert "it refused" in str(answer.content)
        assert "I will not." in str(answer.content)
