"""What must always hold, each by its number in the list of promises; the details are in the tests of each area."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio.testing
from tests.agents.child import Job, do
from tests.agents.office import AnyTool, Office, World, asks, happened, of, office, pending, told, until
from tests.core.shell import folded_by, unanswered

from trouper import ApprovalError, DriftPolicy, Limits, Principal, Run, Runtime, RuntimeOptions, StepLimitExceeded, tool
from trouper.core.commands import Judgement
from trouper.core.digests import call_digest
from trouper.core.events import (
    ActionReceipted,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequested,
    DefinitionAdopted,
    ModelRequested,
    RunSubmitted,
    RunSucceeded,
)
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.testing import Reply, tc
from trouper.testing._answers import Answer
from trouper_journal import Write

SECRET = "hunter2-hunter2"


def everything(world: World) -> list[AnyTool]:
    """A tool of every kind."""

    @tool
    async def breaks() -> str:
        """Break."""
        raise OSError("connection reset")

    @tool(effect="read_only", secrets={"token": "crm"})
    async def asks_crm(token: str) -> str:
        """Ask, and be careless."""
        raise ValueError(f"401 for {token}")

    return [world.adder(), world.mailer(), breaks, asks_crm]


EVERYTHING: list[Answer] = [
    asks(("add", {"n": 1}), ("send_email", {"to": "a"}), ("send_email", {"to": "b"}), ("breaks", {}), ("asks_crm", {})),
    Reply(calls=[tc("x", "add", '{"n": "one"}'), tc("x", "nothing", "")]),
    Reply(calls=[tc("x", "add", '{"n":')], finish="length"),
    "Done.",
]


async def lived_through(desk: Office) -> tuple[str, list[object]]:
    """A run with everything in it, over two lives: its id and its events."""
    async with desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", by="maria")
        first, second = await pending(runtime, 2)
        await runtime.approve(first.action, by="maria", arguments={"to": "c"}, reason="c is right")
        await runtime.deny(second.action, by="peter", reason="b is wrong")
        await until(runtime, run.id, "in_doubt")
    async with desk.open(desk.agent(instructions="Be brief.")) as runtime:
        run = runtime.run(run.id)
        await runtime.resolve(f"{run.id}/0.3", "not_applied", by="maria", evidence="looked")
        await run.wait()
        return run.id, [event for _, event in await run.events()]


async def test_invariant_02_state_is_a_fold(tmp_path: Path) -> None:
    """The same events give the same state: here, in another process without the agent's code, whole or in two parts."""
    async with office(tmp_path, EVERYTHING, everything, secrets={"crm": SECRET}) as desk:
        run_id, events = await lived_through(desk)
        here = folded_by(RunState(run_id), events)
        assert here.output == "Done."
        for split in range(len(events)):
            assert folded_by(folded_by(RunState(run_id), events[:split]), events[split:]) == here
        elsewhere = await do(Job("fold", str(desk.path)))
        assert elsewhere == {run_id: hashlib.sha256(repr(here).encode()).hexdigest()}


async def test_invariant_03_replay_repeats_decisions(tmp_path: Path) -> None:
    async with office(tmp_path, EVERYTHING, everything, secrets={"crm": SECRET}) as desk:
        run_id, events = await lived_through(desk)
    assert check(run_id, events)[1] is None
    # Whatever was decided rests on what stands before it: without that, the difference is found, at its place.
    for kind, consequence in (
        (ApprovalDecided, ActionStarted),
        (ActionReceipted, ModelRequested),
        (ApprovalRequested, ActionStarted),
    ):
        place = next(place for place, event in enumerate(events) if isinstance(event, kind))
        _, difference = check(run_id, [*events[:place], *events[place + 1 :]])
        assert difference is not None
        assert difference.recorded == consequence.__name__
        assert difference.version > place
    early = next(place for place, event in enumerate(events) if isinstance(event, ModelRequested))
    _, difference = check(run_id, [*events[: early + 1], RunSucceeded()])
    assert difference is not None
    assert (difference.version, difference.recorded, difference.expected) == (early + 2, "RunSucceeded", ())


async def test_invariant_05_approval_binds_to_digest(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), ("send_email", {"to": "b"})), "Done."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            first, second = await pending(runtime, 2)
            (submitted,) = await of(run, RunSubmitted)
            assert isinstance(submitted.salt, bytes)
            identity = desk.agent().identities["send_email"]
            other = desk.agent(tools=[desk.world.mailer(version="2")]).identities["send_email"]
            bound = {
                call_digest(submitted.salt, name, tool_identity, {"to": to}).hex()
                for name in ("send_email", "wipe")
                for tool_identity in (identity, other)
                for to in ("a", "b")
            }
            # Tool, identity and arguments all count.
            assert len(bound) == 8
            assert first.digest == call_digest(submitted.salt, "send_email", identity, {"to": "a"}).hex()
            with pytest.raises(ApprovalError, match="is not the call that was shown"):
                await runtime.commands.decide(
                    first.action, Judgement("approve", Principal("maria"), digest=second.digest)
                )
            # Appended past the rules, a decision on something else reaches nothing.
            state = await run.state()
            forged = ApprovalDecided("0.0", 1, "approve", bytes.fromhex(second.digest), Principal("eve"))
            await runtime.journal.commit([Write(f"run/{run.id}", [forged], expected=state.version)])
            await happened(runtime, run, ApprovalDecided)
            await runtime.deny(first.action, by="maria")
            await runtime.commands.decide(second.action, Judgement("approve", Principal("maria"), digest=second.digest))
            await run.wait()
        assert desk.world.effects == ["mail b"]


async def test_invariant_07_secrets_stay_at_the_call_boundary(tmp_path: Path) -> None:
    async with office(tmp_path, EVERYTHING, everything, secrets={"crm": SECRET}) as desk:
        _, events = await lived_through(desk)
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 -- a few small files
        sent = b"".join(request.raw for request in desk.stub.requests)
    assert SECRET not in repr(events)
    assert SECRET.encode() not in files + sent
    assert b"401 for [secret]" in sent


async def test_invariant_09_every_call_gets_exactly_one_tool_message(tmp_path: Path) -> None:
    async with office(tmp_path, EVERYTHING, everything, secrets={"crm": SECRET}) as desk:
        run_id, events = await lived_through(desk)
        state = folded_by(RunState(run_id), events)
        assert unanswered(state.messages) == []
        answers = told(desk.stub.requests[-1].messages)
        assert len(answers) == 5 + 2 + 1
        assert answers[:3] == [
            "added 1",
            '[maria changed the arguments; what ran: {"to":"c"}]\nsent to c',
            "Not started: denied by peter: b is wrong.",
        ]
        # Each later request begins with the messages of the one before: nothing is told otherwise afterwards.
        for before, after in zip(desk.stub.requests, desk.stub.requests[1:], strict=False):
            assert after.messages[1 : len(before.messages)] == before.messages[1:]


async def test_invariant_10_budgets_hold_and_are_the_same_after_restart_and_replay(tmp_path: Path) -> None:
    adding = asks(("add", {"n": 1}), ("add", {"n": 2}))
    async with office(tmp_path, lambda _: adding, lambda world: [world.adder()]) as desk:
        ids: list[str] = []
        async with desk.open() as runtime:
            for most in (1, 2, 3, 6):
                run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=most))
                ids.append(run.id)
                with pytest.raises(StepLimitExceeded):
                    await run.wait()
                assert (await run.state()).steps == most
        requests, effects = len(desk.stub.requests), len(desk.world.effects)
        # Requests are the odd steps, batches the even ones.
        assert (requests, effects) == (1 + 1 + 2 + 3, 2 * (0 + 1 + 1 + 3))
        async with desk.open() as runtime:
            for most, run_id in zip((1, 2, 3, 6), ids, strict=True):
                run = runtime.run(run_id)
                assert (await run.state()).steps == most
                with pytest.raises(StepLimitExceeded):
                    await run.wait()
                replayed, _ = check(run_id, [event for _, event in await run.events()])
                assert replayed.steps == most
        assert (len(desk.stub.requests), len(desk.world.effects)) == (requests, effects)


async def test_invariant_14_runs_that_wait_cost_no_memory(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"})), "Done."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open(options=RuntimeOptions(max_active=3)) as runtime:
            runs = [await runtime.submit("desk", "Go.") for _ in range(20)]
            asked = await pending(runtime, 20)
            while runtime.active:
                await trio.testing.wait_all_tasks_blocked()
            assert not [child for child in runtime.tree().children if "run" in child.name]
            for each in asked:
                await runtime.approve(each.action, by="maria")
                assert runtime.active <= 3
            for run in runs:
                assert (await run.wait()).output == "Done."
        assert desk.world.effects == ["mail a"] * 20


async def test_invariant_15_drift_is_caught(tmp_path: Path) -> None:
    """Prose is adopted with an event; a contract waits; what had been approved under another tool is asked again."""
    script: list[Answer] = [asks(("send_email", {"to": "a"})), "Done."]

    async def begun(desk: Office) -> str:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ApprovalRequested)
            return run.id

    async def approve(runtime: Runtime, run: Run) -> None:
        await runtime.approve(f"{run.id}/0.0", by="maria")

    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        first, second = await begun(desk), await begun(desk)
        async with desk.open(desk.agent(instructions="Be terse.")) as runtime:
            run = runtime.run(first)
            await approve(runtime, run)
            await run.wait()
            assert len(await of(run, DefinitionAdopted)) == 1
        changed: Sequence[AnyTool] = [desk.world.mailer(version="2")]
        async with desk.open(desk.agent(tools=changed)) as runtime:
            run = runtime.run(second)
            await approve(runtime, run)
            assert (await until(runtime, second, "drifted")).drift == ("contract",)
        assert desk.world.effects == ["mail a"]
        async with desk.open(desk.agent(tools=changed), drift=DriftPolicy(contract="adopt")) as runtime:
            run = runtime.run(second)
            await happened(runtime, run, ApprovalRequested, 2)
            assert desk.world.effects == ["mail a"]
            await approve(runtime, run)
            await run.wait()
        assert desk.world.effects == ["mail a", "mail a"]
