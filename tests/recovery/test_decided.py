"""A decision that is stored is carried out, once, by whatever process comes next; or says visibly why it is not."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.agents.child import Job, child, do, driving
from tests.agents.office import Office, asks, of, office, pending, until

from trouper import DriftPolicy, RunFailed, ToolMessage
from trouper.core.events import ActionReceipted, ActionStarted, ApprovalDecided, ApprovalRequested, ModelRequested
from trouper.core.state import RunPhase
from trouper.testing import Status
from trouper.testing._answers import Answer

MAIL = asks(("send_email", {"to": "a"}))


async def killed_while_it_waits(desk: Office) -> tuple[str, str]:
    """A process drives a run to its approval and is killed; the run and the action."""
    async with child(driving(desk, "send_email")) as first, desk.commands() as commands:
        await first.ready()
        async with commands.journal.news() as news:
            while not (asked := await commands.approvals()):
                await news.wait()
        await first.kill()
    return asked[0].run, asked[0].action


async def test_case_11_decided_in_a_second_process_the_call_runs_once_in_a_third(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "done"], lambda world: [world.mailer()]) as desk:
        run, action = await killed_while_it_waits(desk)
        said = await do(Job("approve", str(desk.path), action=action, by="maria"))
        assert said == {"decision": "approve", "by": "maria"}
        assert desk.world.effects == []
        assert (await do(driving(desk, "send_email")))["output"] == "done"
        # And nothing more in a fourth.
        assert (await do(driving(desk, "send_email")))["output"] == "done"
        assert desk.world.effects == ["mail a"]
        assert len(desk.stub.requests) == 2
        async with desk.open() as runtime:
            handle = runtime.run(run)
            for kind in (ApprovalRequested, ApprovalDecided, ActionStarted, ActionReceipted):
                assert len(await of(handle, kind)) == 1


async def test_case_11_without_the_tool_the_run_waits_and_says_why(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "done"], lambda world: [world.mailer()], done=False) as desk:
        run, action = await killed_while_it_waits(desk)
        await do(Job("approve", str(desk.path), action=action, by="maria"))
        async with desk.open(desk.agent(tools=[])) as runtime:
            state = await until(runtime, run, "drifted")
            assert state.drift == ("contract", "prose")
            assert (await runtime.run(run).result()).status == "drifted"
            assert desk.world.effects == []
        # With the tool it goes on under the decision that is stored.
        async with desk.open() as runtime:
            assert (await runtime.run(run).wait()).output == "done"
            assert len(await of(runtime.run(run), ApprovalRequested)) == 1
        assert desk.world.effects == ["mail a"]


async def test_case_11_without_the_tool_and_adopted_the_model_is_told(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "done"], lambda world: [world.mailer()]) as desk:
        run, action = await killed_while_it_waits(desk)
        await do(Job("approve", str(desk.path), action=action, by="maria"))
        async with desk.open(desk.agent(tools=[]), drift=DriftPolicy(contract="adopt")) as runtime:
            result = await runtime.run(run).wait()
            (answer,) = [message for message in result.messages if isinstance(message, ToolMessage)]
            assert answer.status == "error"
            assert "send_email" in str(answer.content)
            assert await of(runtime.run(run), ActionStarted) == []
        assert desk.world.effects == []


async def test_case_11_without_the_agent_the_run_waits_and_says_why(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "done"], lambda world: [world.mailer()]) as desk:
        run, action = await killed_while_it_waits(desk)
        await do(Job("approve", str(desk.path), action=action, by="maria"))
        async with desk.open(desk.agent("other")) as runtime:
            state = await until(runtime, run, "drifted")
            assert state.drift == ("no agent called desk is registered here",)
        async with desk.open() as runtime:
            assert (await runtime.run(run).wait()).output == "done"
        assert desk.world.effects == ["mail a"]


async def test_case_11_a_model_that_fails_then_leaves_the_call_done_and_the_run_resumable(tmp_path: Path) -> None:
    script: list[Answer] = [MAIL, Status(401), "done"]
    async with office(tmp_path, script, lambda world: [world.mailer()], by_turn=False) as desk:
        run, action = await killed_while_it_waits(desk)
        await do(Job("approve", str(desk.path), action=action, by="maria"))
        async with desk.open() as runtime:
            with pytest.raises(RunFailed, match="401"):
                await runtime.run(run).wait()
            state = await runtime.run(run).state()
            assert (state.phase, state.failure) == (RunPhase.FAILED, "model")
            # The history holds the call and its output.
            assert [message.role for message in state.messages] == ["human", "ai", "tool"]
            await runtime.resume(run, by="maria")
            assert (await runtime.run(run).wait()).output == "done"
            assert [(event.index, event.attempt) for event in await of(runtime.run(run), ModelRequested)] == [
                (0, 1),
                (1, 1),
                (1, 2),
            ]
        assert desk.world.effects == ["mail a"]


async def test_case_11_decided_and_killed_again_and_again_it_is_asked_for_once(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "done"], lambda world: [world.mailer()]) as desk:
        run, action = await killed_while_it_waits(desk)
        for _ in range(2):
            async with child(attrs.evolve(driving(desk, "send_email"), barrier=True)) as process:
                await process.ready()
                await process.kill()
        async with desk.open() as runtime:
            assert [each.action for each in await pending(runtime)] == [action]
            await runtime.approve(action, by="maria")
            assert (await runtime.run(run).wait()).output == "done"
            assert len(await of(runtime.run(run), ApprovalRequested)) == 1
        assert desk.world.effects == ["mail a"]
