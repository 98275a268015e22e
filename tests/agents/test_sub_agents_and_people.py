"""Trees of agents and people: approvals and doubts below a sub-agent, cancelling, and definitions that change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio.testing
from tests.agents.office import Office, happened, of, office, pending, until
from tests.agents.test_sub_agents import agent, answers, scripted

from trouper import Agent, DriftPolicy, RunCancelled
from trouper.core.child_events import ChildCancelRequested, ChildFinished
from trouper.core.events import ActionReceipted, ActionStarted, CancelRequested
from trouper.runtime import RuntimeOptions
from trouper.testing import ModelRequest, call, calls


def mailing(desk: Office, branches: Sequence[str] = ("a",)) -> Agent:
    """A parent, a researcher and a helper; the helper adds, then sends an email that needs an approval."""

    def asked(request: ModelRequest) -> str:
        return str(request.messages[1].content)

    helper = agent(
        "helper",
        call("add", n=1),
        lambda request: call("send_email", to=asked(request)),
        lambda request: f"helper: {request.messages[-1].content}",
        tools=desk.tools,
    )
    researcher = agent(
        "researcher",
        lambda request: call("helper", input=asked(request)),
        lambda request: f"researcher: {request.messages[-1].content}",
        tools=[helper.as_tool()],
    )
    return agent(
        "top",
        calls(*(call("researcher", input=branch) for branch in branches)),
        "done",
        tools=[researcher.as_tool()],
    )


def models(top: Agent) -> dict[str, int]:
    """How often each agent's model was asked."""
    counted = {top.name: len(scripted(top).requests)}
    for each in top.tools:
        below = getattr(each, "agent", None)
        if isinstance(below, Agent):
            counted |= models(below)
    return counted


@pytest.mark.parametrize("restart", [False, True])
async def test_case_12_an_approval_below_two_agents_shows_its_path_and_resumes_the_innermost(
    tmp_path: Path, *, restart: bool
) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk)
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go", by="maria")
            (asked,) = await pending(runtime)
            assert asked.path == ("top", "researcher", "helper")
            assert (asked.run, asked.action) == (f"{run.id}~0.0~0.0", f"{run.id}~0.0~0.0/1.0")
            assert (asked.agent, asked.tool, asked.requested_by) == ("helper", "send_email", "maria")
            for waiting in (run.id, f"{run.id}~0.0"):
                assert (await until(runtime, waiting, "waiting_for_child")).steps == 2
            while runtime.active:
                await trio.testing.wait_all_tasks_blocked()
            if not restart:
                await runtime.approve(asked.action, by="eve")
                assert (await run.wait()).output == "done"
        if restart:
            assert models(top) == {"top": 1, "researcher": 1, "helper": 2}
            top = mailing(desk)
            # Decided by a process that has none of the agents.
            async with desk.commands() as commands:
                assert await commands.approvals() == [asked]
            async with desk.open(top) as runtime:
                assert runtime.active == 0
                await runtime.approve(asked.action, by="eve")
                assert answers(await runtime.run(run.id).wait()) == [("ok", "researcher: helper: sent to a")]
            # Nobody is asked again for what is in the journal.
            assert models(top) == {"top": 1, "researcher": 1, "helper": 1}
        assert desk.world.effects == ["add 1", "mail a"]


async def test_case_12_of_two_branches_one_is_approved_and_one_denied(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk, ("a", "b"))
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            first, second = await pending(runtime, 2)
            assert [first.run, second.run] == [f"{run.id}~0.0~0.0", f"{run.id}~0.1~0.0"]
            await runtime.deny(second.action, by="eve", reason="not b")
            await until(runtime, f"{run.id}~0.1", "succeeded")
            # The other branch is where it was, and so is the parent.
            assert await runtime.approvals() == [first]
            assert models(top) == {"top": 1, "researcher": 3, "helper": 5}
        async with desk.open(top) as runtime:
            await runtime.approve(first.action, by="eve")
            assert answers(await runtime.run(run.id).wait()) == [
                ("ok", "researcher: helper: sent to a"),
                ("ok", "researcher: helper: Not started: denied by eve: not b."),
            ]
        assert sorted(desk.world.effects) == ["add 1", "add 1", "mail a"]
        assert models(top) == {"top": 2, "researcher": 4, "helper": 6}


async def test_a_call_in_doubt_below_a_sub_agent_surfaces_and_is_settled_there(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.hanger()], done=False) as desk:
        helper = agent("helper", call("hang", n=1), "hung", tools=desk.tools)
        top = agent("top", call("helper", input="go"), "done", tools=[helper.as_tool()])
        async with desk.open(top, options=RuntimeOptions(drain=0.05, grace=0.05)) as runtime:
            run = await runtime.submit("top", "go")
            await happened(runtime, runtime.run(f"{run.id}~0.0"), ActionStarted)
            while not desk.world.effects:
                await trio.testing.wait_all_tasks_blocked()
        async with desk.open(top) as runtime:
            await until(runtime, f"{run.id}~0.0", "in_doubt")
            head = await runtime.journal.head(f"run/{run.id}")
            assert head is not None
            assert head.label == "waiting_for_child"
            await runtime.resolve(f"{run.id}~0.0/0.0", "applied", by="eve", evidence="saw it")
            assert (await runtime.run(run.id).wait()).output == "done"
        assert desk.world.effects == ["hang 1"]


# ---- cancelling


async def test_cancelling_the_root_cancels_all_below_it_from_the_leaves_up(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk, ("a", "b"))
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            await pending(runtime, 2)
            await until(runtime, run.id, "waiting_for_child")
            await runtime.cancel(run.id, by="maria", reason="enough")
            with pytest.raises(RunCancelled, match="cancelled by maria: enough"):
                await run.wait()
            children = await run.children()
            assert [child.status for child in children] == ["cancelled"] * 4
            assert await runtime.approvals() == []
            ended = {}
            for name in (run.id, *(child.run for child in children)):
                records = [record async for record in runtime.journal.read(f"run/{name}")]
                ended[name] = next(record.position for record in records if record.type == "run.cancelled")
                (requested,) = await of(runtime.run(name), CancelRequested)
                assert requested.reason == "enough"
            assert ended[f"{run.id}~0.0~0.0"] < ended[f"{run.id}~0.0"] < ended[run.id]
            assert ended[f"{run.id}~0.1~0.0"] < ended[f"{run.id}~0.1"] < ended[run.id]
            told = [str(receipt.text) for receipt in await of(run, ActionReceipted)]
            assert [text.partition(".")[0] for text in told] == [
                "Cancelled: the agent researcher was stopped by maria (enough) before it had finished"
            ] * 2
        assert desk.world.effects == ["add 1", "add 1"]


async def test_a_cancelled_child_alone_is_an_error_result(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk)
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            (asked,) = await pending(runtime)
            await runtime.cancel(asked.run, by="maria", reason="no")
            result = await run.wait()
            assert result.output == "done"
            ((_, text),) = answers(await runtime.run(f"{run.id}~0.0").result())
            assert text.startswith("Cancelled: the agent helper was stopped by maria (no) before it had finished.")
            assert "What its calls had done until then stays done." in text
            assert [child.status for child in await run.children()] == ["succeeded", "cancelled"]


async def test_a_child_whose_call_is_under_way_is_cancelled_with_its_receipt(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.hanger()], done=False) as desk:
        helper = agent("helper", call("hang", n=1), tools=desk.tools)
        top = agent("top", calls(call("helper", input="go"), call("helper", input="go")), tools=[helper.as_tool()])
        async with desk.open(top, options=RuntimeOptions(grace=0.05)) as runtime:
            run = await runtime.submit("top", "go")
            while len(desk.world.effects) < 2:
                await trio.testing.wait_all_tasks_blocked()
            await runtime.cancel(run.id, by="maria")
            with pytest.raises(RunCancelled):
                await run.wait()
            # What was cut off may have been done: the children say so, and so their caller is told.
            assert [child.status for child in await run.children()] == ["cancelled-in-doubt"] * 2
            texts = [str(receipt.text) for receipt in await of(run, ActionReceipted)]
            assert all("It is unknown whether these calls took effect: hang." in text for text in texts)
            assert len(await of(run, ChildCancelRequested)) == len(await of(run, ChildFinished)) == 2


# ---- definitions


async def test_a_changed_child_is_held_and_its_parent_waits_until_both_are_adopted(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        async with desk.open(mailing(desk)) as runtime:
            run = await runtime.submit("top", "go")
            (asked,) = await pending(runtime)
            await until(runtime, run.id, "waiting_for_child")
        changed = [desk.world.adder(), desk.world.mailer(timeout=99)]
        other = attrs.evolve(desk, tools=changed)
        async with desk.open(mailing(other)) as runtime:
            await runtime.approve(asked.action, by="eve")
            await until(runtime, asked.run, "drifted")
            head = await runtime.journal.head(f"run/{run.id}")
            assert head is not None
            assert head.label == "waiting_for_child"
            assert {child.agent: child.status for child in await runtime.run(run.id).children()} == {
                "researcher": "waiting_for_child",
                "helper": "drifted",
            }
            await runtime.adopt(run.id, by="maria")
            (anew,) = await pending(runtime)
            await runtime.approve(anew.action, by="eve")
            assert (await runtime.run(run.id).wait()).output == "done"
        assert desk.world.effects == ["add 1", "mail a"]


async def test_a_child_whose_wording_changed_goes_on_and_so_does_its_parent(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        async with desk.open(mailing(desk)) as runtime:
            run = await runtime.submit("top", "go")
            (asked,) = await pending(runtime)
        top = mailing(desk)
        helper = top.tools[0].agent.tools[0].agent  # type: ignore[attr-defined]  # they are sub-agents
        object.__setattr__(helper, "instructions", "You are a better helper.")
        async with desk.open(top, drift=DriftPolicy()) as runtime:
            await runtime.approve(asked.action, by="eve")
            assert (await runtime.run(run.id).wait()).output == "done"
        # Each took note of it, because each one's definition names those below it.
        async with desk.journal() as journal:
            adopted = [record.stream async for record in journal.read_all() if record.type == "definition.adopted"]
        assert len(adopted) == 3
