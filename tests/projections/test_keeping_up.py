"""Projections are kept up with their journal exactly once, whoever dies and whoever else does the same."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.projections.counting import EVENTS, Counting, append, total

from trouper_journal import EventRegistry, Journal, StorageReadOnly, UnknownEvent
from trouper_journal.archive import ArchivedStore
from trouper_journal.projections import (
    Entry,
    InvalidProjection,
    Projected,
    ProjectionOutdated,
    Tables,
    open_projection,
)

ROOT = Path(__file__).parents[2]


async def totals(projected: Projected) -> tuple[object, object]:
    """How many numbers were taken in, and their sum as it was kept."""
    ((count,),) = await projected.query("SELECT count(*) FROM projection_counting")
    ((added,),) = await projected.query("SELECT total FROM projection_counting_sum")
    ((recounted,),) = await projected.query("SELECT ifnull(sum(number), 0) FROM projection_counting")
    assert added == recounted
    return count, added


async def test_it_goes_on_where_the_last_process_stopped(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 600)
        told: list[tuple[int, int]] = []
        async with open_projection(journal, Counting()) as projected:
            assert await projected.catch_up(lambda done, end: told.append((done, end))) == 600
            assert await totals(projected) == (400, total(0, 600))
        assert told[-1] == (600, 600)
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 100, first=600)
        async with open_projection(journal, Counting()) as projected:
            assert (await totals(projected))[1] == total(0, 600)
            told.clear()
            await projected.catch_up(lambda done, end: told.append((done, end)))
            # What had been taken in was not read again.
            assert told == [(700, 700)]
            assert (await totals(projected))[1] == total(0, 700)
        assert (await journal.verify()).ok


async def test_whoever_looks_while_another_goes_on_leaves_the_others_tables(tmp_path: Path) -> None:
    """Between a look at the journal's end and one at how far the tables are, both may have moved on."""
    path = tmp_path / "j.db"
    async with (
        Journal.open(path, registry=EVENTS) as busy,
        open_projection(busy, Counting()) as ahead,
    ):
        await append(busy, 10)
        await ahead.catch_up()
        with closing(sqlite3.connect(path)) as database:
            database.execute("INSERT INTO projection_counting VALUES (-1, 0)")
            database.commit()

        class Slow(ArchivedStore):
            async def position(self) -> int:
                found = await super().position()
                await append(busy, 10, first=found)
                await ahead.catch_up()
                return found

        async with (
            Journal.open(path, registry=EVENTS, wrap=lambda store: Slow(store, ())) as other,
            open_projection(other, Counting()) as behind,
        ):
            await behind.catch_up()
            assert (-1,) in await behind.query("SELECT position FROM projection_counting")


async def test_tables_in_memory_leave_the_file_as_it_is(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 90)
    before = (tmp_path / "j.db").read_bytes()
    async with Journal.open(tmp_path / "j.db", registry=EVENTS, read_only=True) as journal:
        with pytest.raises(StorageReadOnly):
            async with open_projection(journal, Counting()):
                pass
        async with open_projection(journal, Counting(), in_memory=True) as projected:
            await projected.catch_up()
            assert (await totals(projected))[1] == total(0, 90)
    assert (tmp_path / "j.db").read_bytes() == before
    async with Journal.open(registry=EVENTS) as journal, open_projection(journal, Counting(), in_memory=True) as kept:
        await append(journal, 10)
        await kept.catch_up()
        assert (await totals(kept))[1] == total(0, 10)


async def test_following_ends_with_the_journal(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery, Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        async with open_projection(journal, Counting()) as projected:
            with trio.fail_after(60):
                async with trio.open_nursery() as following:
                    following.start_soon(projected.follow)
                    for number in range(20):
                        await append(journal, 1, first=number)
                    while projected.position < 20:
                        await trio.lowlevel.checkpoint()
                    following.cancel_scope.cancel()
            assert (await totals(projected))[1] == total(0, 20)
        nursery.cancel_scope.cancel()


async def test_processes_that_do_the_same_take_everything_in_once(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Journal.open(path, registry=EVENTS) as journal:
        await append(journal, 300)
        command = [sys.executable, "-m", "tests.projections.counting", str(path), "900", "0"]
        with trio.fail_after(90):
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(partial(trio.run_process, command, cwd=ROOT))
                async with open_projection(journal, Counting()) as projected:
                    for first in range(300, 900, 20):
                        await append(journal, 20, first=first)
                        await projected.catch_up()
        async with open_projection(journal, Counting()) as projected:
            assert await projected.catch_up() == 900
            assert await totals(projected) == (600, total(0, 900))


@pytest.mark.parametrize("die_at", [1, 130, 512, 599])
async def test_killed_in_the_middle_of_a_page_it_is_as_if_the_page_had_not_begun(tmp_path: Path, die_at: int) -> None:
    path = tmp_path / "j.db"
    async with Journal.open(path, registry=EVENTS) as journal:
        await append(journal, 600)
    command = [sys.executable, "-m", "tests.projections.counting", str(path), "600", str(die_at)]
    done = await trio.run_process(command, cwd=ROOT, check=False, capture_stderr=True)
    assert done.returncode == -9, done.stderr
    async with Journal.open(path, registry=EVENTS) as journal, open_projection(journal, Counting()) as projected:
        before, _ = await totals(projected)
        assert isinstance(before, int)
        assert before < 400
        await projected.catch_up()
        assert await totals(projected) == (400, total(0, 600))


async def test_a_newer_version_begins_anew_and_an_older_one_is_refused(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 30)
        async with open_projection(journal, Counting()) as old:
            await old.catch_up()
            async with open_projection(journal, Counting(version=2, every=True)) as new:
                await new.catch_up()
                assert await totals(new) == (30, total(0, 30))
            await append(journal, 10, first=30)
            with pytest.raises(ProjectionOutdated, match="version 2, newer than 1 here"):
                await old.catch_up()
        with pytest.raises(ProjectionOutdated):
            async with open_projection(journal, Counting()) as again:
                await again.query("SELECT 1")
        async with open_projection(journal, Counting(version=2, every=True)) as new:
            await new.catch_up()
            assert await totals(new) == (40, total(0, 40))


async def test_what_was_made_of_other_records_is_made_anew(tmp_path: Path) -> None:
    """As where tables were carried over from another file, or records replaced under them."""
    path = tmp_path / "j.db"
    async with Journal.open(path, registry=EVENTS) as journal:
        await append(journal, 30)
        async with open_projection(journal, Counting()) as projected:
            await projected.catch_up()
    for mark in ("leaf = x'00'", "position = 31", "position = 29"):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"UPDATE projections SET {mark}")
            database.execute("DELETE FROM projection_counting WHERE position < 10")
        async with Journal.open(path, registry=EVENTS) as journal, open_projection(journal, Counting()) as projected:
            await projected.catch_up()
            assert await totals(projected) == (20, total(0, 30))


async def test_dropped_tables_are_made_anew_while_it_follows(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Journal.open(path, registry=EVENTS) as journal, open_projection(journal, Counting()) as projected:
        await append(journal, 30)
        await projected.catch_up()
        with closing(sqlite3.connect(path)) as database, database:
            for table in ("projections", "projection_counting", "projection_counting_sum"):
                database.execute(f"DROP TABLE {table}")
        await append(journal, 30, first=30)
        await projected.catch_up()
        assert await totals(projected) == (40, total(0, 60))


class Failing(Counting):
    def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
        super().apply(tables, entries)
        raise LookupError("a defect")


async def test_what_a_page_did_is_undone_when_it_fails(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 30)
        async with open_projection(journal, Failing()) as projected:
            for _ in range(2):
                with pytest.raises(LookupError):
                    await projected.catch_up()
            assert projected.position == 0
            assert await totals(projected) == (0, 0)
        async with open_projection(journal, Counting()) as projected:
            await projected.catch_up()
            assert await totals(projected) == (20, total(0, 30))


async def test_it_stops_before_what_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Journal.open(path, registry=EVENTS) as journal:
        await append(journal, 30)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TRIGGER events_update")
        database.execute("UPDATE events SET schema = 9 WHERE position = 20")
        database.execute("UPDATE events SET schema = 9 WHERE position = 3")  # of a type that it is not given
    async with Journal.open(path, registry=EVENTS) as journal, open_projection(journal, Counting()) as projected:
        for _ in range(2):
            with pytest.raises(UnknownEvent) as caught:
                await projected.catch_up()
            assert caught.value.position == 20
            assert (projected.position, projected.missing) == (19, 0)
            assert (await totals(projected))[1] == total(0, 19)


FORBIDDEN = [
    "DELETE FROM keys",
    "UPDATE head SET position = 0",
    "INSERT INTO tombstones VALUES (x'00')",
    "SELECT * FROM events",
    "DROP TABLE projection_counting",
    "DROP TABLE events",
    "CREATE TABLE projection_counting_more (x)",
    "CREATE TRIGGER projection_counting_x AFTER INSERT ON events BEGIN SELECT 1; END",
    "UPDATE projections SET position = 0",
    "INSERT INTO projection_countings VALUES (1)",
    "ATTACH 'other.db' AS other",
    "PRAGMA user_version = 7",
    "COMMIT",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_a_projection_touches_its_own_tables_alone(tmp_path: Path, statement: str) -> None:
    class Reaching(Counting):
        def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
            super().apply(tables, entries)
            tables.execute(statement)

    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 30)
        with closing(sqlite3.connect(tmp_path / "j.db")) as database:
            database.execute("CREATE TABLE projection_countings (x)")
        async with open_projection(journal, Reaching()) as projected:
            with pytest.raises(InvalidProjection, match="projection_counting"):
                await projected.catch_up()
            assert await totals(projected) == (0, 0)
            with pytest.raises(InvalidProjection):
                await projected.query(statement)
            with pytest.raises(InvalidProjection):
                await projected.query("DELETE FROM projection_counting")
        assert (await journal.verify()).ok


@pytest.mark.parametrize(
    "projection",
    [Counting(name="Counting"), Counting(name="a_b"), Counting(name=""), Counting(version=0)],
    ids=["capital", "underscore", "empty", "no version"],
)
async def test_names_and_versions_that_cannot_be_meant(tmp_path: Path, projection: Counting) -> None:
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        with pytest.raises(InvalidProjection):
            async with open_projection(journal, projection):
                pass


async def test_a_schema_reaches_no_further_than_apply(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=EVENTS) as journal:
        await append(journal, 3)
        for statement in (
            "CREATE TABLE mine (x)",
            "DROP TABLE keys",
            "DELETE FROM keys",
            "CREATE INDEX i ON events (key)",
        ):
            projection = Counting(schema=(*Counting().schema, statement))
            async with open_projection(journal, projection) as projected:
                with pytest.raises(InvalidProjection):
                    await projected.catch_up()
        async with open_projection(journal, Counting()) as projected:
            assert await projected.catch_up() == 3


async def test_a_file_with_projections_can_be_read_as_ever(tmp_path: Path) -> None:
    path = Path(shutil.copy(ROOT / "tests" / "golden" / "journal-1.db", tmp_path))
    async with Journal.open(path, registry=EventRegistry([])) as journal:
        before = await journal.verify()
        async with open_projection(journal, Counting(types=(), every=True)) as projected:
            await projected.catch_up()
            assert (await totals(projected))[0] == before.records
    async with Journal.open(path) as journal:
        assert await journal.verify() == before
