"""Deciding twice, at once, otherwise, from other processes, after restarts and after the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import pytest
import trio.testing
from tests.agents.child import Job, Said, child, do
from tests.agents.office import AnyTool, Office, World, asks, of, office, pending, told

from trouper import ApprovalConflict, Run, Runtime
from trouper.core.events import ActionStarted, ApprovalDecided

MAIL = asks(("send_email", {"to": "a"}))
Verdict: TypeAlias = Literal["approve", "deny"]
PAIRS: list[tuple[Verdict, Verdict]] = [
    ("approve", "approve"),
    ("approve", "deny"),
    ("deny", "approve"),
    ("deny", "deny"),
]


def mailers(world: World) -> Sequence[AnyTool]:
    return [world.mailer()]


async def stored(run: Run) -> ApprovalDecided:
    """The one decision that stands in the journal."""
    (decided,) = await of(run, ApprovalDecided)
    return decided


def decider(runtime: Runtime, verdict: Verdict) -> Callable[..., Awaitable[object]]:
    return runtime.approve if verdict == "approve" else runtime.deny


async def check_outcome(desk: Office, run: Run, decided: ApprovalDecided) -> None:
    """What ran is what was decided."""
    await run.wait()
    approved = decided.decision == "approve"
    assert desk.world.effects == (["mail a"] if approved else [])
    assert len(await of(run, ActionStarted)) == approved
    (answer,) = told(desk.stub.requests[1].messages)
    assert (answer == "sent to a") == approved


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
async def test_two_tasks_decide_at_once(tmp_path: Path, pair: tuple[Verdict, Verdict]) -> None:
    outcomes: dict[str, object] = {}
    async with office(tmp_path, [MAIL, "Well."], mailers) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write.")
        (asked,) = await pending(runtime)
        barrier = trio.Event()

        async def decide(name: str, verdict: Verdict) -> None:
            await barrier.wait()
            try:
                outcomes[name] = await decider(runtime, verdict)(asked.action, by=name)
            except ApprovalConflict as conflict:
                outcomes[name] = conflict

        async with trio.open_nursery() as nursery:
            for name, verdict in zip(("maria", "peter"), pair, strict=True):
                nursery.start_soon(decide, name, verdict)
            await trio.testing.wait_all_tasks_blocked()
            barrier.set()
        decided = await stored(run)
        conflicts = [outcome for outcome in outcomes.values() if isinstance(outcome, ApprovalConflict)]
        assert len(conflicts) == (pair[0] != pair[1])
        for conflict in conflicts:
            assert (conflict.action, conflict.stored) == (asked.action, decided.decision)
            assert decided.by is not None
            assert str(conflict) == (
                f"action {asked.action} was decided before: {decided.decision} by {decided.by.id}; nothing was changed"  # type: ignore[union-attr]  # not erased
            )
        await check_outcome(desk, run, decided)


@pytest.mark.parametrize("pair", PAIRS[:3], ids="+".join)
async def test_two_processes_decide_at_once_while_a_third_drives(tmp_path: Path, pair: tuple[Verdict, Verdict]) -> None:
    async with office(tmp_path, [MAIL, "Well."], mailers) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write.")
        (asked,) = await pending(runtime)
        jobs = [
            Job(verdict, str(desk.path), action=asked.action, by=name, barrier=True)
            for name, verdict in zip(("maria", "peter"), pair, strict=True)
        ]
        said: list[Said] = []
        async with child(jobs[0]) as first, child(jobs[1]) as second:
            await first.ready()
            await second.ready()
            await first.go()
            await second.go()
            said = [await first.said(), await second.said()]
        decided = await stored(run)
        for verdict, outcome in zip(pair, said, strict=True):
            if verdict == decided.decision:
                assert outcome == {"decision": decided.decision, "by": decided.by.id}  # type: ignore[union-attr]  # not erased
            else:
                assert outcome["error"] == "ApprovalConflict"
                assert f"decided before: {decided.decision}" in str(outcome["message"])
        await check_outcome(desk, run, decided)


async def test_a_decision_is_repeated_after_a_restart_and_after_the_end(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Write.")
            (asked,) = await pending(runtime)
        first = await do(Job("approve", str(desk.path), action=asked.action, by="maria"))
        assert first == {"decision": "approve", "by": "maria"}
        # Before anybody drives it, while it is driven, and when it has long ended.
        assert await do(Job("approve", str(desk.path), action=asked.action, by="peter")) == first
        async with desk.open() as runtime:
            run = runtime.run(run.id)
            again = await runtime.approve(asked.action, by="peter")
            await run.wait()
            after = await runtime.approve(asked.action, by="peter")
            assert again.decision == after.decision
            assert after.decision is not None
            assert attrs.asdict(after.decision)["by"]["id"] == "maria"
            with pytest.raises(ApprovalConflict):
                await runtime.deny(asked.action, by="peter")
            await check_outcome(desk, run, await stored(run))
        assert await do(Job("approve", str(desk.path), action=asked.action, by="peter")) == first
        late = await do(Job("deny", str(desk.path), action=asked.action, by="peter"))
        assert late["error"] == "ApprovalConflict"
        assert desk.world.effects == ["mail a"]


async def test_the_run_waits_outside_of_memory_and_goes_on_when_another_process_decides(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], mailers) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write.")
        (asked,) = await pending(runtime)
        while runtime.active:
            await trio.testing.wait_all_tasks_blocked()
        assert await do(Job("approve", str(desk.path), action=asked.action)) == {"decision": "approve", "by": "maria"}
        assert (await run.wait()).output == "Sent."
        assert desk.world.effects == ["mail a"]
