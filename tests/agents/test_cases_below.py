"""The cases of single runs, below a sub-agent: approvals mixed up, counters, words, refusals, calls left unanswered."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio.testing
from tests.agents.office import happened, of, office, pending, until
from tests.agents.test_sub_agents import agent, answers, scripted
from tests.agents.test_sub_agents_and_people import mailing, models

from trouper import (
    AI,
    Agent,
    BudgetExceeded,
    Limits,
    Output,
    Raise,
    RunCancelled,
    RuntimeOptions,
    ToolError,
    UnknownAction,
    UnknownRun,
    tool,
)
from trouper.core.conversation import Value
from trouper.core.conversation import text as text_of
from trouper.core.events import ActionReceipted, ActionStarted, BudgetRefused, ModelRequested, OutputAccepted
from trouper.testing import call, calls
from trouper.testing._scripted import Step


async def test_case_16_decisions_of_several_children_reach_each_its_own_call(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        worker = agent(
            "worker",
            calls(call("send_email", to="a"), call("send_email", to="b"), call("add", n=1)),
            lambda request: " / ".join(str(message.content) for message in request.messages[-3:]),
            tools=desk.tools,
        )
        top = agent(
            "top", calls(call("worker", input="1"), call("worker", input="2")), "done", tools=[worker.as_tool()]
        )
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            asked = {each.action.partition("~")[2]: each for each in await pending(runtime, 4)}
            assert sorted(asked) == ["0.0/0.0", "0.0/0.1", "0.1/0.0", "0.1/0.1"]
            await runtime.approve(asked["0.0/0.1"].action, by="maria")
            await runtime.deny(asked["0.1/0.0"].action, by="maria")
            with pytest.raises(UnknownAction):
                await runtime.approve(f"{run.id}~0.0/7.0", by="maria")
            with pytest.raises(UnknownRun):
                await runtime.approve(f"{run.id}~7.0/0.0", by="maria")
        async with desk.open(top) as runtime:
            await runtime.deny(asked["0.0/0.0"].action, by="maria")
            await until(runtime, f"{run.id}~0.0", "succeeded")
            assert [each.action for each in await runtime.approvals()] == [asked["0.1/0.1"].action]
            await runtime.approve(asked["0.1/0.1"].action, by="maria")
            denied = "Not started: denied by maria."
            assert answers(await runtime.run(run.id).wait()) == [
                ("ok", f"{denied} / sent to b / added 1"),
                ("ok", f"{denied} / sent to b / added 1"),
            ]
        assert sorted(desk.world.effects) == ["add 1", "add 1", "mail b", "mail b"]


async def test_case_19_a_childs_limit_counts_over_restarts_and_each_child_has_its_own(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:

        def team() -> Agent:
            worker = agent("worker", *[call("send_email", to="a")] * 9, tools=desk.tools, limits=Limits(max_steps=4))
            both = calls(call("worker", input="1"), call("worker", input="2"))
            return agent("top", both, "done", tools=[worker.as_tool()])

        async with desk.open(team()) as runtime:
            run = await runtime.submit("top", "go")
            await pending(runtime, 2)
        for turn in range(2):
            # Each turn of both in a life of its own.
            async with desk.open(team()) as runtime:
                for each in await pending(runtime, 2):
                    await runtime.approve(each.action, by="maria")
                for below in await runtime.run(run.id).children():
                    await happened(runtime, runtime.run(below.run), ActionReceipted, turn + 1)
                if turn == 0:
                    await pending(runtime, 2)
        async with desk.open(team()) as runtime:
            result = await runtime.run(run.id).wait()
            assert result.output == "done"
            assert [child.status for child in result.children] == ["failed", "failed"]
            assert [child.spent.model_calls for child in result.children] == [2, 2]
            for child in result.children:
                assert (await runtime.run(child.run).result()).steps == 4
        assert desk.world.effects == ["mail a"] * 4


async def test_case_05_a_cancelled_run_with_a_child_can_be_gone_on_from(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        helper = agent("helper", call("send_email", to="a"), tools=desk.tools)
        both = calls(call("add", n=1), call("helper", input="go"))
        top = agent("top", both, "hello again", tools=[*desk.tools, helper.as_tool()])
        async with desk.open(top) as runtime:
            session = runtime.session("top")
            run = await session.send("go")
            await pending(runtime)
            await runtime.cancel(run.id, by="maria", reason="enough")
            with pytest.raises(RunCancelled):
                await run.wait()
            # The scripted model refuses a history that is not valid for the wire.
            again = await session.send("hello")
            assert (await again.wait()).output == "hello again"
            said = [str(message.content) for message in scripted(top).requests[-1].messages]
            assert "added 1" in said
            assert any(text.startswith("Cancelled: the agent helper was stopped by maria (enough)") for text in said)


async def test_case_05_a_call_cut_off_below_a_sub_agent_is_told_of_in_later_turns_as_it_was(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.hanger()], done=False) as desk:

        def team() -> Agent:
            helper = agent("helper", calls(call("add", n=1), call("hang", n=2)), tools=desk.tools)
            return agent("top", call("helper", input="go"), "hello again", "and again", tools=[helper.as_tool()])

        async with desk.open(team(), options=RuntimeOptions(drain=0.05, grace=0.05)) as runtime:
            run = await runtime.session("top", "s").send("go")
            await happened(runtime, runtime.run(f"{run.id}~0.0"), ActionReceipted)
            while len(desk.world.effects) < 2:
                await trio.testing.wait_all_tasks_blocked()
        top = team()
        async with desk.open(top) as runtime:
            await until(runtime, f"{run.id}~0.0", "in_doubt")
            await runtime.cancel(run.id, by="maria", reason="enough")
            with pytest.raises(RunCancelled):
                await runtime.run(run.id).wait()
            below = answers(await runtime.run(f"{run.id}~0.0").result())
            assert [status for status, _ in below] == ["ok", "error"]
            assert below[0][1] == "added 1"
            assert below[1][1].startswith("In doubt: the runtime stopped while it ran")
            again = await runtime.session("top", "s").send("hello")
            assert (await again.wait()).output == "hello again"
            (told,) = [text_of(m.content) for m in scripted(top).requests[-1].messages if m.role == "tool"]
            assert "It is unknown whether these calls took effect: hang." in told
        top = team()
        async with desk.open(top) as runtime:
            await (await runtime.session("top", "s").send("hello?")).wait()
            shown = [text_of(m.content) for m in scripted(top).requests[-1].messages if m.role == "tool"]
            assert shown == [told]
        assert sorted(desk.world.effects) == ["add 1", "hang 2"]


async def test_case_05_behind_a_turn_whose_budget_its_sub_agent_used_up_the_session_goes_on(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        helper = agent("helper", *[calls(call("add", n=1), call("add", n=2))] * 5, tools=desk.tools)
        top = agent("top", call("helper", input="go"), "hello again", tools=[helper.as_tool()])
        async with desk.open(top) as runtime:
            first = await runtime.session("top", "s").send("go", limits=Limits(max_model_calls=3, max_tool_calls=4))
            with pytest.raises(BudgetExceeded):
                await first.wait()
            below = answers(await runtime.run(f"{first.id}~0.0").result())
            # The call of the sub-agent is one, and three of its own are left.
            assert [status for status, _ in below] == ["ok", "ok", "ok", "error"]
            assert below[-1][1].startswith("Not started: the limit of 4 tool calls")
        async with desk.open(top) as runtime:
            second = await runtime.session("top", "s").send("hello", limits=Limits(max_model_calls=1))
            # What a turn spent is its own: the next one starts at zero.
            assert (await second.wait()).spent.model_calls == 1
            said = [text_of(message.content) for message in scripted(top).requests[-1].messages]
            assert "did not finish" in said[3]
        assert sorted(desk.world.effects) == ["add 1", "add 1", "add 2"]


async def test_case_06_a_message_waits_while_a_call_of_a_sub_agent_waits_for_a_person(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:

        def team() -> Agent:
            made = mailing(desk)
            return attrs.evolve(made, model=agent("top", call("researcher", input="a"), *["said"] * 3).model)

        async with desk.open(team()) as runtime:
            session = runtime.session("top", "s")
            first = await session.send("mail a")
            (asked,) = await pending(runtime)
            second = await session.send("approve")
        top = team()
        async with desk.open(top) as runtime:
            session = runtime.session("top", "s")
            third = await session.send("do something else")
            # Free text approves nothing below either, and the list and the runs agree.
            assert await pending(runtime) == [asked]
            assert (await runtime.run(asked.run).result()).status == "awaiting_approval"
            assert (await runtime.run(first.id).result()).status == "waiting_for_child"
            assert [turn.status for turn in (await session.state()).turns] == ["active", "queued", "queued"]
            assert models(top) == {"top": 0, "researcher": 0, "helper": 0}
            await runtime.approve(asked.action, by="maria")
            assert (await third.wait()).output == "said"
            assert [text_of(message.content) for message in await session.history()] == [
                "mail a",
                "",
                "researcher: helper: sent to a",
                "said",
                "approve",
                "said",
                "do something else",
                "said",
            ]
            assert (await runtime.run(second.id).result()).status == "succeeded"
        assert desk.world.effects == ["add 1", "mail a"]


async def test_case_06_what_is_said_to_a_run_waits_until_its_sub_agent_is_done(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        async with desk.open(mailing(desk)) as runtime:
            run = await runtime.submit("top", "go")
            (asked,) = await pending(runtime)
            await until(runtime, run.id, "waiting_for_child")
            for _ in range(2):
                await run.steer("approve", by="maria", command_id="said")
        top = mailing(desk)
        async with desk.open(top) as runtime:
            run = runtime.run(run.id)
            await run.steer("approve", by="maria", command_id="said")
            await run.steer("and be quick", by="maria")
            assert await pending(runtime) == [asked]
            assert models(top) == {"top": 0, "researcher": 0, "helper": 0}
            await runtime.approve(asked.action, by="maria")
            await run.wait()
            # Once each, behind the result of the call that was open.
            said = [(m.role, text_of(m.content)) for m in scripted(top).requests[-1].messages[-3:]]
            assert said == [
                ("tool", "researcher: helper: sent to a"),
                ("human", "approve"),
                ("human", "and be quick"),
            ]
        assert desk.world.effects == ["add 1", "mail a"]


async def test_case_19_three_more_for_a_sub_agent_are_three_over_restarts(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:

        def team() -> Agent:
            limits = Limits(max_model_calls=4, on_limit="wait")
            worker = agent("worker", *[call("add", n=n) for n in range(20)], tools=desk.tools, limits=limits)
            return agent("top", call("worker", input="1"), "done", tools=[worker.as_tool()])

        async with desk.open(team()) as runtime:
            run = await runtime.submit("top", "go")
            await until(runtime, f"{run.id}~0.0", "over_budget")
            assert len(desk.world.effects) == 4
        async with desk.open(team()) as runtime:
            below = runtime.run(f"{run.id}~0.0")
            await runtime.raise_limit(below.id, Raise(model_calls=3), by="maria", reason="worth it")
            await happened(runtime, below, BudgetRefused, 2)
            await until(runtime, below.id, "over_budget")
        async with desk.open(team()) as runtime:
            below = runtime.run(below.id)
            assert (await below.result()).spent.model_calls == 7
            assert desk.world.effects == [f"add {n}" for n in range(7)]
            # Turns are numbered on, and no number comes twice.
            assert [event.index for event in await of(below, ModelRequested)] == list(range(7))
            assert (await runtime.run(run.id).result()).status == "waiting_for_child"


RECIPE: dict[str, Value] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("refusal", "called"),
    [
        (AI("", None, refusal="I can't"), 0),
        (AI("", "Sorry, no.", refusal="I can't"), 0),
        (attrs.evolve(calls(call("add", n=1), call("final_result", n=1)), refusal="I can't"), 2),
    ],
    ids=["content null", "beside text", "beside calls"],
)
async def test_case_21_a_refusal_below_ends_the_sub_agent_after_one_request(
    tmp_path: Path, refusal: AI, called: int
) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        cook = attrs.evolve(agent("cook", *[refusal] * 9, tools=desk.tools), output=Output(RECIPE, mode="tool"))
        top = agent("top", call("cook", input="Soup"), "So be it.", tools=[cook.as_tool()])
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            result = await run.wait()
            assert result.output == "So be it."
            ((status, text),) = answers(result)
            assert (status, "it refused" in text) == ("error", True)
            # In its own words.
            assert (text_of(refusal.content) or "I can't") in text
            assert len(scripted(cook).requests) == 1
            below = runtime.run(f"{run.id}~0.0")
            assert await of(below, ActionStarted) == []
            assert len(await of(below, ActionReceipted)) == called
            (child,) = result.children
            # What it cost counts.
            assert (child.status, child.spent.input_tokens, child.spent.output_tokens) == ("failed", 10, 5)
        assert desk.world.effects == []


@tool(effect="idempotent_write")
async def boom(n: int) -> str:
    """Fail."""
    raise ToolError(f"no {n}")


@pytest.mark.parametrize(
    ("reply", "accepted", "told"),
    [
        (calls(call("final_result", n=1), call("add", n=1)), "0.0", ["Accepted.", "added 1"]),
        (calls(call("final_result", n=1), call("boom", n=1)), "1.0", None),
        (calls(call("final_result", n=1), call("final_result", n=2)), "0.0", None),
        (calls(call("final_result", n="x"), call("add", n=1)), "1.0", None),
        (attrs.evolve(call("add", n=1), content='{"n": 1}'), "1.0", ["added 1", "Accepted."]),
    ],
    ids=["ok", "fails", "twice", "misfit", "text"],
)
async def test_case_22_a_final_output_beside_calls_below(
    tmp_path: Path, reply: Step, accepted: str, told: list[str] | None
) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), boom], done=False) as desk:
        script = [reply, call("final_result", n=1)]
        cook = attrs.evolve(agent("cook", *script, tools=desk.tools), output=Output(RECIPE, mode="tool"))
        top = agent("top", call("cook", input="Soup"), "Served.", tools=[cook.as_tool()])
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            result = await run.wait()
            assert answers(result) == [("ok", '{"n":1}')]
            below = runtime.run(f"{run.id}~0.0")
            assert [event.action for event in await of(below, OutputAccepted)] == [accepted]
            said = answers(await below.result())
            assert len(said) == len(await of(below, ActionReceipted))
            if told is not None:
                assert [text for _, text in said] == told
            if "boom" in str(reply):
                assert "no 1" in said[1][1]
        assert len(desk.world.effects) == ("add" in str(reply))
