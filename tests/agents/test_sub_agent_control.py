"""What people ask of a tree of agents while it is under way: pauses, deadlines, words, timers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.office import gone, happened, of, office, pending, until
from tests.agents.test_sub_agents import agent
from tests.agents.test_sub_agents_and_people import mailing, models

from trouper import Agent, DeadlineExceeded, Principal, RunResult, SubmitOptions, ToolMessage
from trouper.core.events import ActionStarted, ChildPauseRequested, PauseRequested, ResumeRequested, RunHeard, TimerSet
from trouper.testing import ManualClock, call
from trouper.timers import wait


@pytest.mark.parametrize("restart", [False, True])
async def test_pausing_the_root_pauses_what_its_descendants_begin(tmp_path: Path, *, restart: bool) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk)
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            (asked,) = await pending(runtime)
            await run.pause(by="maria", reason="lunch")
            below = [runtime.run(name) for name in (f"{run.id}~0.0", asked.run)]
            for each in (run, *below):
                await until(runtime, each.id, "paused")
            for each in below:
                (pause,) = await happened(runtime, each, PauseRequested)
                assert isinstance(pause.by, Principal)
                assert (pause.by.id, pause.reason) == ("maria", "lunch")
            # Decided in the pause, the call is not made in the pause.
            assert [each.action for each in await runtime.approvals()] == [asked.action]
            await runtime.approve(asked.action, by="maria")
            await until(runtime, asked.run, "paused")
            await gone(runtime)
            assert desk.world.effects == ["add 1"]
            if not restart:
                await run.resume(by="maria")
                assert (await run.wait()).output == "done"
        if restart:
            async with desk.open(top) as runtime:
                run = runtime.run(run.id)
                await gone(runtime)
                assert desk.world.effects == ["add 1"]
                await run.resume(by="maria")
                assert (await run.wait()).output == "done"
        async with desk.open(top) as runtime:
            assert desk.world.effects == ["add 1", "mail a"]
            assert models(top) == {"top": 2, "researcher": 2, "helper": 3}
            # All of it stands in one commit: there was nothing left to pass on.
            assert await of(runtime.run(run.id), ChildPauseRequested) == []
            for name in (f"{run.id}~0.0", asked.run):
                assert len(await of(runtime.run(name), PauseRequested)) == 1
                assert len(await of(runtime.run(name), ResumeRequested)) == 1
            assert len(await of(runtime.run(asked.run), ActionStarted)) == 2


async def test_a_pause_that_reaches_the_root_alone_is_passed_on(tmp_path: Path) -> None:
    """As where a run below began in the very moment in which the others were paused."""
    async with (
        office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk,
        desk.open(mailing(desk)) as runtime,
    ):
        run = await runtime.submit("top", "go")
        (asked,) = await pending(runtime)
        for event, label in ((PauseRequested(Principal("maria")), "paused"), (ResumeRequested(), "awaiting_approval")):
            await runtime.journal.append(f"run/{run.id}", [event])
            await until(runtime, asked.run, label)
        said = await happened(runtime, run, ChildPauseRequested, 2)
        assert [event.paused for event in said] == [True, False]
        await runtime.approve(asked.action, by="maria")
        assert (await run.wait()).output == "done"


async def test_at_the_roots_deadline_its_descendants_come_to_a_known_end(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False, clock=clock) as desk,
        desk.open(mailing(desk)) as runtime,
    ):
        options = SubmitOptions(deadline=clock.now() + 3600 * 10**9)
        run = await runtime.submit("top", "go", options=options)
        await pending(runtime)
        clock.advance(3600)
        with pytest.raises(DeadlineExceeded) as raised:
            await run.wait()
        assert isinstance(raised.value.result, RunResult)
        (told,) = [message for message in raised.value.result.messages if isinstance(message, ToolMessage)]
        assert f"the deadline of run {run.id} has passed" in str(told.content)
        assert [child.status for child in await run.children()] == ["cancelled", "cancelled"]
        assert await runtime.approvals() == []
        assert desk.world.effects == ["add 1"]
        await run.extend(None, by="maria")
        assert (await run.wait()).output == "done"


async def test_a_child_sleeps_is_spoken_to_and_wakes_while_its_tree_is_in_no_memory(tmp_path: Path) -> None:
    clock = ManualClock()
    async with office(tmp_path, done=False, clock=clock) as desk:

        def made() -> Agent:
            helper = agent("helper", call("wait", seconds=86_400), "rested", tools=[wait])
            return agent("top", call("helper", input="rest"), "done", tools=[helper.as_tool()])

        async with desk.open(made()) as runtime:
            run = await runtime.submit("top", "go")
            child = runtime.run(f"{run.id}~0.0")
            await happened(runtime, child, TimerSet)
            await until(runtime, child.id, "sleeping")
            await until(runtime, run.id, "waiting_for_child")
            await gone(runtime)
            await child.steer("Sleep well.", by="maria")
        clock.advance(86_400)
        async with desk.open(made()) as runtime:
            assert (await runtime.run(run.id).wait()).output == "done"
            assert len(await of(runtime.run(child.id), RunHeard)) == 1
            roles = [message.role for message in (await runtime.run(child.id).result()).messages]
            assert roles == ["human", "ai", "tool", "human", "ai"]
