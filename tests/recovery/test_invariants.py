"""What must always hold, by number; the rest of them is tested beside what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from tests.agents.child import Child, child
from tests.agents.child import Job as ChildJob
from tests.agents.office import AnyTool, World, asks, happened, of, office
from tests.recovery.crash import check_played, play_all
from tests.recovery.crash import of as of_kind
from tests.recovery.fate import Kill
from tests.recovery.scenario import Job

from trouper import REGISTRY, IdempotencyConflict, Runtime, tool
from trouper.core.events import ActionStarted, ModelFailed, ModelRequested, ModelResponded
from trouper.errors import JournalBroken, JournalError, StorageFull
from trouper.testing import ManualClock, Status
from trouper.testing._answers import Answer
from trouper_journal import Journal
from trouper_journal._store import Batch
from trouper_journal.testing import FaultyStore


async def test_invariant_01_intent_before_effect(tmp_path: Path) -> None:
    """Each tool looks, through a connection of its own, whether its start is in the file."""
    seen: list[str] = []

    async def started() -> list[str]:
        async with Journal.open(tmp_path / "journal.db", registry=REGISTRY) as journal:
            events = [journal.registry.decode(record) async for record in journal.read_all()]
        return [event.action for event in events if isinstance(event, ActionStarted)]

    def tools(world: World) -> Sequence[AnyTool]:
        def make(effect: str, action: str, *, sync: bool) -> AnyTool:
            async def look() -> str:
                """Look."""
                assert action in await started()
                seen.append(action)
                return "seen"

            def look_from_thread() -> str:
                """Look."""
                return trio.from_thread.run(look)

            declare = tool(name=f"look{action[-1]}", effect=effect)  # type: ignore[call-overload]  # one of the classes
            made: AnyTool = declare(look_from_thread if sync else look)
            return made

        return [
            make("idempotent_write", "0.0", sync=False),
            make("unqueryable_write", "0.1", sync=True),
            make("read_only", "0.2", sync=False),
        ]

    batch = asks(("look0", {}), ("look1", {}), ("look2", {}))
    async with office(tmp_path, [batch, "done"], tools) as desk, desk.open() as runtime:
        await (await runtime.submit("desk", "go")).wait()
    assert sorted(seen) == ["0.0", "0.1", "0.2"]


@pytest.mark.parametrize("failure", [StorageFull("no room"), JournalBroken("unknown")], ids=["full", "broken"])
async def test_invariant_01_no_effect_where_the_intent_could_not_be_written(
    tmp_path: Path, failure: JournalError
) -> None:
    async def before(batch: Batch) -> None:
        if any(record.type == "action.started" for record in batch.records):
            raise failure

    async with office(tmp_path, [asks(("add", {"n": 1})), "done"], lambda world: [world.adder()]) as desk:
        async with (
            Journal.open(
                desk.path, registry=REGISTRY, wrap=lambda store: FaultyStore(store, before_write=before)
            ) as journal,
            Runtime.over(journal, [desk.agent()]) as runtime,
        ):
            run = await runtime.submit("desk", "go", command_id="job")
            with pytest.raises(type(failure)):
                await run.wait()
        assert desk.world.effects == []
        async with desk.open() as runtime:
            assert (await (await runtime.submit("desk", "go", command_id="job")).wait()).output == "done"
        assert desk.world.effects == ["add 1"]


async def test_invariant_04_commands_are_idempotent(tmp_path: Path) -> None:
    """From four processes at once, after a restart, and after the end: one run; another content: refused."""
    async with office(tmp_path, ["done"]) as desk:
        job = ChildJob("submit", str(desk.path), input="go", command_id="c-1", barrier=True)
        said: list[dict[str, object]] = []
        async with desk.open() as runtime, child(job) as one, child(job) as two, child(job) as three:

            async def submit(process: Child) -> None:
                await process.go()
                said.append(await process.said())

            for process in (one, two, three):
                await process.ready()
            async with trio.open_nursery() as nursery:
                for process in (one, two, three):
                    nursery.start_soon(submit, process)
                run = await runtime.submit("desk", "go", command_id="c-1")
            assert {each["run"] for each in said} == {run.id}
            assert [each["repeated"] for each in said].count(False) + (not run.repeated) == 1
            assert (await run.wait()).output == "done"
        async with desk.open() as runtime:
            again = await runtime.submit("desk", "go", command_id="c-1")
            assert (again.id, again.repeated) == (run.id, True)
            before = len(await again.events())
            await runtime.submit("desk", "go", command_id="c-1")
            assert len(await again.events()) == before
            with pytest.raises(IdempotencyConflict):
                await runtime.submit("desk", "go on", command_id="c-1")
        assert len(desk.stub.requests) == 1


def test_invariant_16_a_journaled_reply_is_never_asked_for_again(tmp_path: Path) -> None:
    """Killed with the reply in hand, it is lost and says so; killed once it is journaled, it is used."""
    turns = (("read_only-async",),)
    lost, kept = play_all(
        [Job("lost", turns, (Kill("replied", 1),)), Job("kept", turns, (Kill("after", 4),))], tmp_path
    )
    check_played(lost)
    check_played(kept)
    assert [entry["index"] for entry in lost.lives[-1].after.requests] == [0, 0, 1]
    assert of_kind(lost.lives[-1], "ModelLost") == [
        {"type": "ModelLost", "index": 0, "attempt": 1, "reason": "restart"}
    ]
    assert kept.lives[0].after.events[-1]["type"] == "ActionStarted"
    assert [entry["index"] for entry in kept.lives[-1].after.requests] == [0, 1]
    assert of_kind(kept.lives[-1], "ModelLost") == []


async def test_invariant_16_one_request_on_the_wire_for_each_in_the_journal(tmp_path: Path) -> None:
    """The SDK does not try again behind our back."""
    clock = ManualClock()
    script: list[Answer] = [Status(500), Status(429, headers={"retry-after": "7"}), "done"]
    async with office(tmp_path, script, by_turn=False, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await happened(runtime, run, ModelFailed, 1)
        assert len(desk.stub.requests) == 1
        (first,) = await of(run, ModelFailed)
        assert first.retry_at is not None
        await clock.wait_waiting((first.retry_at - clock.now()) / 1e9)
        clock.advance((first.retry_at - clock.now()) / 1e9)
        _, second = await happened(runtime, run, ModelFailed, 2)
        assert second.retry_at == clock.now() + 7_000_000_000
        assert len(desk.stub.requests) == 2
        await clock.wait_waiting(7)
        clock.advance(7)
        await run.wait()
        assert [event.attempt for event in await of(run, ModelRequested)] == [1, 2, 3]
        assert [event.attempt for event in await of(run, ModelResponded)] == [3]
        assert len(desk.stub.requests) == 3
