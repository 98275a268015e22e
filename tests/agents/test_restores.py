"""A journal that is put back to an older copy: it is noticed, nothing is driven, and what was under way is unknown."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import trio
from tests.agents.office import AnyTool, Office, World, asks, happened, of, office, until

from trouper import Absent, Found, Principal, Runtime, RuntimeOptions
from trouper.core.events import ActionInterrupted, ActionStarted, ActionUnresolved, ModelLost, RestoreCarriedOut
from trouper.core.restore_events import RESTORES
from trouper.errors import JournalRolledBack
from trouper.runtime.restoring import accept
from trouper.testing._answers import Answer
from trouper_journal.backup import back_up
from trouper_journal.rollback import compare_head

MARIA = Principal("maria")


def put_back(desk: Office, copy: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{desk.path}{ending}").unlink(missing_ok=True)
    shutil.copy(copy, desk.path)


async def state_of(desk: Office) -> str:
    async with desk.journal() as journal:
        return (await compare_head(journal)).state


async def accepted(desk: Office) -> bool:
    async with desk.journal() as journal:
        return await accept(journal, await compare_head(journal), by=MARIA, reason="the disk died")


def writer(world: World, effect: str) -> list[AnyTool]:
    """A tool that does not end until a copy was made."""
    return [world.hanger(effect=effect)]


@pytest.mark.parametrize("effect", ["idempotent_write", "unqueryable_write"])
@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_write_under_way_in_an_older_copy_is_unknown(tmp_path: Path, effect: str, *, meanwhile: bool) -> None:
    copy = tmp_path / "copy.db"
    script: list[Answer] = [asks(("hang", {"n": 1})), "Well."]
    async with office(tmp_path, script, lambda world: writer(world, effect), done=False) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionStarted)
            await back_up(desk.path, copy)
            await runtime.submit("desk", "Go on.")
        assert await state_of(desk) == "matches"
        put_back(desk, copy)
        assert await state_of(desk) == "rolled_back"
        effects = len(desk.world.effects)
        if not meanwhile:
            async with desk.open() as runtime:
                with pytest.raises(JournalRolledBack, match="trouper restore") as caught:
                    await runtime.run(run.id).wait()
                assert caught.value.lost > caught.value.found
                assert caught.value is runtime.parked
                assert not runtime.active
            # To have been opened is not to have been accepted.
            assert await state_of(desk) == "rolled_back"
            assert await accepted(desk)
            assert not await accepted(desk)
        async with desk.open() as runtime:
            if meanwhile:
                assert not runtime.active
                assert await accepted(desk)
            await until(runtime, run.id, "in_doubt")
            assert runtime.parked is None
            again = runtime.run(run.id)
            assert [event.cause for event in await of(again, ActionInterrupted)] == ["restored"]
            assert len(await of(again, ActionUnresolved)) == 1
            await runtime.resolve(f"{run.id}/0.0", "applied", by="maria", evidence="the bank says so")
            assert (await again.wait()).output == "Well."
        assert len(desk.world.effects) == effects
        assert await state_of(desk) == "matches"
        async with desk.open():
            pass
        async with desk.journal() as journal:
            told = [journal.registry.decode(record) async for record in journal.read(RESTORES)]
        assert [type(event).__name__ for event in told] == ["JournalRestored", "RestoreCarriedOut"]
        assert isinstance(told[1], RestoreCarriedOut)
        assert (told[1].runs, told[1].actions) == (1, 1)


@pytest.mark.parametrize("there", [True, False])
async def test_a_query_settles_what_it_finds_and_nothing_that_it_does_not(tmp_path: Path, *, there: bool) -> None:
    copy = tmp_path / "copy.db"

    def booked(n: int) -> Found | Absent:
        return Found(f"booked {n}") if there else Absent()

    def booker(world: World) -> list[AnyTool]:
        return [world.hanger(effect="queryable_write", query=booked)]

    async with office(tmp_path, [asks(("hang", {"n": 1})), "Well."], booker, done=False) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionStarted)
            await back_up(desk.path, copy)
            await runtime.submit("desk", "Go on.")
        effects = len(desk.world.effects)
        put_back(desk, copy)
        await accepted(desk)
        async with desk.open() as runtime:
            again = runtime.run(run.id)
            if not there:
                await until(runtime, run.id, "in_doubt")
                await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
            assert (await again.wait()).output == "Well."
            assert len(await of(again, ActionStarted)) == 1
        assert len(desk.world.effects) == effects


async def test_a_run_that_is_cancelled_before_its_copy_is_accepted_does_not_go_on(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    tools = lambda world: [world.mailer()]  # noqa: E731
    async with office(tmp_path, [asks(("send_email", {"to": "a"})), "Well."], tools, done=False) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await until(runtime, run.id, "awaiting_approval")
            await back_up(desk.path, copy)
            await runtime.approve(f"{run.id}/0.0", by="maria")
            await run.wait()
        assert desk.world.effects == ["mail a"]
        put_back(desk, copy)
        async with desk.open() as runtime:
            assert not runtime.active
            await runtime.cancel(run.id, by="maria")
            await accepted(desk)
            await until(runtime, run.id, "cancelled")
        assert desk.world.effects == ["mail a"]


async def test_a_driver_that_dies_at_any_step_leaves_what_the_next_can_go_on_with(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.agents.kill_restorer", str(tmp_path)]
    done = await trio.run_process(
        program, capture_stdout=True, capture_stderr=True, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    plain, parked, carried_out = map(int, done.stdout.split())
    assert (plain > 10, parked > 1, carried_out > plain) == (True, True, True)


async def test_where_the_side_file_cannot_be_written_all_goes_on(tmp_path: Path) -> None:
    async with office(tmp_path, lambda _: "Hello.", done=False) as desk:
        await greet(desk)
        before = side_file(Path(f"{desk.path}.head"))
        # The name that it has while it is written is taken: as a folder that nobody may write to, also for root.
        os.mkdir(f"{desk.path}.head.part")
        await greet(desk)
        assert side_file(Path(f"{desk.path}.head")) == before
        assert await state_of(desk) == "matches"


async def test_a_call_that_only_reads_is_made_again(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    tools = lambda world: writer(world, "read_only")  # noqa: E731
    async with office(tmp_path, [asks(("hang", {"n": 1})), "Well."], tools, done=False) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionStarted)
            await back_up(desk.path, copy)
            await runtime.submit("desk", "Go on.")
        put_back(desk, copy)
        await accepted(desk)
        async with desk.open() as runtime:
            again = runtime.run(run.id)
            await happened(runtime, again, ActionStarted, 2)
            assert [event.cause for event in await of(again, ActionInterrupted)] == ["lost"]


async def test_a_request_under_way_in_an_older_copy_is_lost(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    asked = trio.Event()
    first = True

    async def script(_: object) -> str:
        nonlocal first
        if first:
            first = False
            asked.set()
            await trio.sleep_forever()
        return "Well."

    async with office(tmp_path, script, done=False) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await asked.wait()
            await back_up(desk.path, copy)
            await runtime.submit("desk", "Go on.")
        put_back(desk, copy)
        await accepted(desk)
        async with desk.open() as runtime:
            again = runtime.run(run.id)
            assert (await again.wait()).output == "Well."
            assert [event.reason for event in await of(again, ModelLost)] == ["restart"]


async def greet(desk: Office) -> None:
    async with desk.open() as runtime:
        assert (await (await runtime.submit("desk", "Hello?")).wait()).output == "Hello."


def side_file(side: Path) -> dict[str, object]:
    told: dict[str, object] = json.loads(side.read_bytes())
    assert set(told) == {"format", "journal", "size", "root", "tree"}
    return told


def spoil(side: Path, damage: str, told: dict[str, object]) -> None:
    spoilt: dict[str, dict[str, object]] = {"damaged": {"root": "00" * 32}, "foreign": {"journal": "00" * 16}}
    changes = spoilt.get(damage, {})
    if damage in {"damaged", "foreign", "old"}:
        side.write_text(json.dumps({**told, **changes}))
        return
    side.unlink()
    if damage == "folder":
        side.mkdir()
    elif damage == "empty":
        side.touch()


def side_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.head*"))


@pytest.mark.parametrize("damage", ["missing", "damaged", "empty", "folder", "foreign", "old"])
async def test_a_side_file_that_tells_nothing_holds_nobody_up(tmp_path: Path, damage: str) -> None:
    async with office(tmp_path, lambda _: "Hello.", done=False) as desk:
        await greet(desk)
        side = Path(f"{desk.path}.head")
        first = side_file(side)
        if damage == "old":
            await greet(desk)
        spoil(side, damage, first)
        expected = {"old": "matches", "empty": "damaged", "folder": "damaged"}.get(damage, damage)
        assert await state_of(desk) == expected
        await greet(desk)
        assert await state_of(desk) == "matches"


async def test_a_copy_that_went_on_by_itself_is_noticed_too(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with office(tmp_path, lambda _: "Hello.", done=False) as desk:
        await greet(desk)
        await back_up(desk.path, copy)
        await greet(desk)
        away = Office(copy, desk.stub, desk.world)
        for _ in range(3):
            await greet(away)
        put_back(desk, copy)
        assert await state_of(desk) == "rolled_back"
        assert await state_of(away) == "matches"


async def test_a_journal_in_memory_has_none(tmp_path: Path) -> None:
    async with office(tmp_path, lambda _: "Hello.", done=False) as desk:
        async with Runtime.open(None, [desk.agent()], options=RuntimeOptions(drain=0.5)) as runtime:
            await (await runtime.submit("desk", "Hello?")).wait()
        assert side_files(tmp_path) == []
