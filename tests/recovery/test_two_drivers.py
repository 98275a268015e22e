"""Two processes, or two tasks, that would drive one journal: one does, and the other can do no harm."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.child import Child, child, driving
from tests.agents.office import AnyTool, World, asks, happened, of, office, until

from trouper import JournalInUse, Runtime, tool
from trouper.core.events import ActionReceipted, ActionStarted, ActionUnresolved, CancelRequested
from trouper.errors import StaleFence, VersionConflict
from trouper.testing._answers import Answer
from trouper_journal import Domain, Key, Write

HANG: list[Answer] = [asks(("hang", {"n": 1})), "done"]


async def test_case_08_of_two_processes_that_open_at_once_one_drives(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), asks(("add", {"n": 2})), "done"]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        job = attrs.evolve(driving(desk, "add"), barrier=True)
        async with child(job) as one, child(job) as two:
            said: list[tuple[Child, str]] = []

            async def listen(process: Child) -> None:
                said.append((process, await process.line()))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen, one)
                nursery.start_soon(listen, two)
            (winner, ready), (_, refused) = sorted(said, key=lambda each: each[1] != "ready")
            assert ready == "ready"
            told = json.loads(refused)
            assert told["error"] == "JournalInUse"
            assert "runtime" in told["message"]
            await winner.go()
            assert (await winner.said())["output"] == "done"
        assert desk.world.effects == ["add 1", "add 2"]
        assert len(desk.stub.requests) == 3


async def test_case_08_a_process_that_is_stopped_during_a_slow_tool_keeps_its_run(tmp_path: Path) -> None:
    """Nobody takes over from a process that lives, however long it is stopped; from a killed one, the next does."""
    async with office(tmp_path, HANG, lambda world: [world.hanger()]) as desk:
        async with child(driving(desk, "hang")) as first:
            await first.ready()
            await until_effect(desk.world)
            first.send_signal(signal.SIGSTOP)
            async with child(driving(desk, "hang")) as second:
                assert json.loads(await second.line())["error"] == "JournalInUse"
            with pytest.raises(JournalInUse):
                async with desk.open():
                    raise AssertionError
            first.send_signal(signal.SIGCONT)
            await first.kill()
        async with desk.open() as runtime:
            (head,) = [head async for head in runtime.commands.runs()]
            run = runtime.run(head.stream.removeprefix("run/"))
            await until(runtime, run.id, "in_doubt")
            assert desk.world.effects == ["hang 1"]
            await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
            assert (await run.wait()).output == "done"
        assert desk.world.effects == ["hang 1"]


async def until_effect(world: World) -> None:
    """Wait until a child has had an effect: there is nothing to wait on but the file."""
    while not world.effects:
        await trio.to_thread.run_sync(world.path.exists)


async def test_case_08_an_owner_that_was_cut_off_cannot_write_a_receipt_late(tmp_path: Path) -> None:
    """The lock is lost, as on a file system without locks; the fence in the journal holds all the same."""
    entered, release = trio.Event(), trio.Event()

    def tools(world: World) -> Sequence[AnyTool]:
        @tool
        async def pay() -> str:
            """Pay, slowly."""
            entered.set()
            await release.wait()
            world.do("pay")
            return "paid"

        return [pay]

    async with office(tmp_path, [asks(("pay", {})), "done"], tools) as desk, desk.open() as stale:
        run = await stale.submit("desk", "go")
        await entered.wait()
        await trio.Path(f"{desk.path}.lock").unlink()
        async with desk.open() as runtime:
            await until(runtime, run.id, "in_doubt")
            release.set()
            with pytest.raises(StaleFence):
                await run.wait()
            # The loser knows that it has lost, and takes nothing more.
            with pytest.raises(StaleFence):
                await stale.submit("desk", "more")
            assert await of(runtime.run(run.id), ActionReceipted) == []
            assert len(await of(runtime.run(run.id), ActionStarted)) == 1
            # What really happened is for a person to say.
            assert desk.world.effects == ["pay"]
            await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
            assert (await runtime.run(run.id).wait()).output == "done"
        assert desk.world.effects == ["pay"]


async def test_case_08_a_position_is_taken_once(tmp_path: Path) -> None:
    """The same content under the same key is no conflict and no second event; another content is an error."""
    script = [asks(("send_email", {"to": "a"}))]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        state = await until(runtime, run.id, "awaiting_approval")

        def write(reason: str) -> Write:
            domain = Domain(f"run/{run.id}", state.salt)
            return Write(f"run/{run.id}", [CancelRequested(reason=reason)], expected=state.version, domain=domain)

        first = await runtime.journal.commit([write("enough")], key=Key("signal:1", b"enough"))
        again = await runtime.journal.commit([write("enough")], key=Key("signal:1", b"enough"))
        assert (first.repeated, again.repeated) == (False, True)
        assert first.records == again.records
        with pytest.raises(VersionConflict):
            await runtime.journal.commit([write("another")], key=Key("signal:2", b"another"))
        assert len(await of(run, CancelRequested)) == 1


async def test_case_08_a_doubt_is_settled_once_though_many_settle_it(tmp_path: Path) -> None:
    async def settle(runtime: Runtime, action: str) -> None:
        await runtime.resolve(action, "applied", by="maria")

    async with office(tmp_path, HANG, lambda world: [world.hanger()]) as desk:
        async with child(driving(desk, "hang")) as first:
            await first.ready()
            await until_effect(desk.world)
            await first.kill()
        async with desk.open() as runtime:
            (head,) = [head async for head in runtime.commands.runs()]
            run = runtime.run(head.stream.removeprefix("run/"))
            await happened(runtime, run, ActionUnresolved)
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(settle, runtime, f"{run.id}/0.0")
            await run.wait()
            assert len(await of(run, ActionReceipted)) == 1
