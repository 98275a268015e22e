"""An agent that is not defined as it was when its run began: noticed, and treated as the policy says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from tests.agents.office import AnyTool, Office, World, asks, happened, of, office, pending, told, types, until

from trouper import Agent, DriftPolicy, Limits, Run, Runtime, UnknownAgent, tool
from trouper.core.events import (
    ActionReplanned,
    ActionStarted,
    ApprovalExpired,
    ApprovalRequested,
    DefinitionAdopted,
    RunStarted,
    RunWaiting,
)
from trouper.core.state import RunState
from trouper.testing import Wait
from trouper.testing._answers import Answer

MAIL = asks(("send_email", {"to": "a"}))
ADOPT_ALL = DriftPolicy(contract="adopt", prose="adopt")
WAIT_ALL = DriftPolicy(contract="wait", prose="wait")


def mailers(world: World) -> list[AnyTool]:
    return [world.mailer()]


async def waiting_run(desk: Office) -> str:
    """A run that waits for an approval, and the runtime that began it is gone."""
    async with desk.open() as runtime:
        run = await runtime.submit("desk", "Write to a.")
        await pending(runtime)
        await until(runtime, run.id, "awaiting_approval")
    return run.id


async def answered(runtime: Runtime, run: Run) -> None:
    """Approve what is asked, and see the run to its end."""
    (asked,) = await pending(runtime)
    await runtime.approve(asked.action, by="maria")
    await run.wait()


def terser(desk: Office) -> Agent:
    """The same agent with other prose."""
    return desk.agent(instructions="Be terse.")


def stricter(desk: Office) -> Agent:
    """The same agent with another contract."""
    return desk.agent(limits=Limits(max_steps=49))


async def test_changed_prose_is_adopted_with_an_event_and_used_from_there(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        agent = terser(desk)
        async with desk.open(agent) as runtime:
            run = runtime.run(run_id)
            await answered(runtime, run)
            (adopted,) = await of(run, DefinitionAdopted)
            assert (adopted.definition, adopted.prose) == (agent.definition.digest, agent.definition.prose_digest)
            assert adopted.by is not None
            assert repr(adopted.by).startswith("Principal(id='drift', kind='policy'")
            (started,) = await of(run, RunStarted)
            assert started.contract == adopted.contract
            for digest in (started.definition, adopted.definition):
                assert await runtime.journal.head(f"definition/{digest}") is not None
        assert [request.messages[0]["content"] for request in desk.stub.requests] == ["Do what is asked.", "Be terse."]
        assert desk.world.effects == ["mail a"]


async def drifted(desk: Office, runtime: Runtime, run_id: str) -> RunState:
    """Wake a run that waits for an approval; it goes no further than to find that its definition changed."""
    (asked,) = await pending(runtime)
    await runtime.approve(asked.action, by="maria")
    state = await until(runtime, run_id, "drifted")
    assert desk.world.effects == []
    assert len(desk.stub.requests) == 1
    return state


async def test_a_changed_contract_waits_and_says_what_changed(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(stricter(desk)) as runtime:
            state = await drifted(desk, runtime, run_id)
            assert state.drift == ("contract",)
            assert (await runtime.run(run_id).result()).status == "drifted"
        # Over restarts it stays as it is, without a word more.
        async with desk.open(stricter(desk)) as runtime:
            await until(runtime, run_id, "drifted")
            before = await types(runtime.run(run_id))
        async with desk.open(stricter(desk)) as runtime:
            assert await types(runtime.run(run_id)) == before
            await runtime.adopt(run_id, by="maria")
            await runtime.run(run_id).wait()
            (adopted,) = await of(runtime.run(run_id), DefinitionAdopted)
            assert repr(adopted.by).startswith("Principal(id='maria'")
        # The tool itself is as it was when it was approved.
        assert desk.world.effects == ["mail a"]


async def test_with_the_old_definition_back_the_run_goes_on_by_itself(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(stricter(desk)) as runtime:
            await drifted(desk, runtime, run_id)
        async with desk.open() as runtime:
            assert (await runtime.run(run_id).wait()).output == "Sent."
            assert await of(runtime.run(run_id), DefinitionAdopted) == []
        assert desk.world.effects == ["mail a"]


async def test_both_policies_can_be_the_other_way_round(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(terser(desk), drift=WAIT_ALL) as runtime:
            assert (await drifted(desk, runtime, run_id)).drift == ("prose",)
        both = desk.agent(instructions="Be terse.", limits=Limits(max_steps=49))
        async with desk.open(both, drift=WAIT_ALL) as runtime:
            await happened(runtime, runtime.run(run_id), RunWaiting, 2)
            assert (await until(runtime, run_id, "drifted")).drift == ("contract", "prose")
        async with desk.open(both, drift=ADOPT_ALL) as runtime:
            assert (await runtime.run(run_id).wait()).output == "Sent."


async def test_a_run_without_its_agent_waits_and_others_go_on(tmp_path: Path) -> None:
    script: list[Answer] = [MAIL, "Sent."]
    async with office(tmp_path, script, mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(desk.agent("other")) as runtime:
            state = await drifted(desk, runtime, run_id)
            assert state.drift == ("no agent called desk is registered here",)
            with pytest.raises(UnknownAgent, match="belongs to agent 'desk', which is not registered here"):
                await runtime.adopt(run_id, by="maria")
            run = await runtime.submit("other", "Write to a.")
            await answered(runtime, run)
            assert desk.world.effects == ["mail a"]
        async with desk.open() as runtime:
            assert (await runtime.run(run_id).wait()).output == "Sent."
        assert desk.world.effects == ["mail a", "mail a"]


async def test_a_definition_that_other_runs_use_already_can_be_adopted(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(stricter(desk)) as runtime:
            await drifted(desk, runtime, run_id)
            other = await runtime.submit("desk", "Write to a.")
            await answered(runtime, other)
            await runtime.adopt(run_id, by="maria")
            assert (await runtime.run(run_id).wait()).output == "Sent."
            await runtime.adopt(run_id, by="maria")
            assert len(await of(runtime.run(run_id), DefinitionAdopted)) == 1


# ---- calls that had not started


def mailer_of(world: World, version: str) -> AnyTool:
    """The mailer with another version: the same schema means something else now."""
    return world.mailer(version=version)


async def test_an_approval_of_a_tool_that_changed_lapses_and_is_asked_for_again(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(desk.agent(tools=[mailer_of(desk.world, "2")])) as runtime:
            run = runtime.run(run_id)
            (old,) = await runtime.approvals()
            await runtime.adopt(run_id, by="peter")
            await happened(runtime, run, ApprovalRequested, 2)
            (new,) = await pending(runtime)
            assert (new.action, new.arguments) == (old.action, old.arguments)
            assert new.digest != old.digest
            assert [event.reason for event in await of(run, ApprovalExpired)] == ["changed"]
            assert [event.request for event in await of(run, ApprovalRequested)] == [1, 2]
            await answered(runtime, run)
        assert desk.world.effects == ["mail a"]


async def test_an_approval_given_before_the_change_was_seen_lets_nothing_run(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(desk.agent(tools=[mailer_of(desk.world, "2")]), drift=ADOPT_ALL) as runtime:
            run = runtime.run(run_id)
            (old,) = await pending(runtime)
            await runtime.approve(old.action, by="maria", arguments={"to": "b"})
            await happened(runtime, run, ApprovalRequested, 2)
            (new,) = await pending(runtime)
            assert desk.world.effects == []
            assert await of(run, ActionStarted) == []
            assert len(await of(run, ActionReplanned)) == 1
            # What is asked for is what the model wanted: the edit was part of the decision that lapsed.
            assert new.arguments == {"to": "a"}
            await answered(runtime, run)
        assert desk.world.effects == ["mail a"]


async def test_a_tool_that_needs_no_approval_any_more_runs_once_adopted(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(desk.agent(tools=[desk.world.mailer(requires_approval=False)])) as runtime:
            await runtime.adopt(run_id, by="maria")
            assert (await runtime.run(run_id).wait()).output == "Sent."
        assert desk.world.effects == ["mail a"]


async def test_a_tool_that_is_gone_makes_its_calls_errors(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Gone."], mailers) as desk:
        run_id = await waiting_run(desk)
        async with desk.open(desk.agent(tools=[desk.world.adder()])) as runtime:
            await runtime.adopt(run_id, by="maria")
            assert (await runtime.run(run_id).wait()).output == "Gone."
        assert desk.world.effects == []
        assert told(desk.stub.requests[1].messages) == [
            "Not started: the tool changed meanwhile. There is no tool called 'send_email'. Tools: add."
        ]


async def test_a_started_call_whose_tool_is_gone_is_in_doubt_and_replays(tmp_path: Path) -> None:
    """Its next attempt cannot be made; what it did before nobody knows."""
    began = trio.Event()

    @tool(effect="idempotent_write")
    async def send(to: str) -> str:
        """Send."""
        began.set()
        await trio.sleep_forever()
        raise AssertionError

    async with office(tmp_path, [asks(("send", {"to": "a"})), "Well."], [send]) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Send.")).id
            await began.wait()
        async with desk.open(desk.agent(tools=[]), drift=ADOPT_ALL) as runtime:
            (doubt,) = (await until(runtime, run_id, "in_doubt")).in_doubt
            assert "There is no tool called 'send'" in doubt.text
            await runtime.resolve(f"{run_id}/0.0", "applied", by="maria", evidence="in the outbox")
            assert (await runtime.run(run_id).wait()).output == "Well."


async def test_a_request_under_way_is_made_again_under_the_adopted_definition(tmp_path: Path) -> None:
    gate = trio.Event()
    answers: Iterator[Answer] = iter([Wait(gate, "never"), "Terse."])
    async with office(tmp_path, lambda _: next(answers)) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Hello?")).id
            await desk.stub.wait_requests(1)
        async with desk.open(terser(desk)) as runtime:
            assert (await runtime.run(run_id).wait()).output == "Terse."
        assert [request.messages[0]["content"] for request in desk.stub.requests] == ["Do what is asked.", "Be terse."]


async def test_an_ended_run_is_left_alone(tmp_path: Path) -> None:
    async with office(tmp_path, ["Done."]) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Hello?")).id
            await runtime.run(run_id).wait()
            before = await types(runtime.run(run_id))
        async with desk.open(terser(desk), drift=ADOPT_ALL) as runtime:
            await runtime.adopt(run_id, by="maria")
            assert (await runtime.run(run_id).wait()).output == "Done."
            assert await types(runtime.run(run_id)) == before
