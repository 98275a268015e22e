"""The cases of single runs, below a sub-agent: approvals mixed up, counters over a restart, calls left unanswered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.office import happened, office, pending, until
from tests.agents.test_sub_agents import agent, answers, scripted

from trouper import Agent, Limits, RunCancelled, UnknownAction, UnknownRun
from trouper.core.events import ActionReceipted
from trouper.testing import call, calls


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
