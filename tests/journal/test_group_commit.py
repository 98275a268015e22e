"""One writer for all: shared transactions, back-pressure, and other processes that write in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Gate, Note, Step, numbers, positions
from trio.testing import wait_all_tasks_blocked

from trouper_journal import (
    Batch,
    IdempotencyConflict,
    Journal,
    JournalOptions,
    Key,
    MemoryStore,
    StaleFence,
    Store,
    VersionConflict,
    Write,
)
from trouper_journal.testing import FaultyStore


async def test_commits_that_wait_together_share_a_transaction(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(journal.append, f"s{number}", [Note(number)])
        statistics = journal.statistics()
        assert statistics.writer.commits == 100
        assert statistics.writer.batches <= 3
        assert statistics.position == 100


async def test_a_batch_is_bounded_but_a_big_commit_is_not_split() -> None:
    gate = Gate()
    sizes: list[int] = []
    store = FaultyStore(MemoryStore(b"0" * 16), before_write=gate)

    async with Journal.over(store, registry=REGISTRY, options=JournalOptions(max_batch=10)) as journal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.append, "first", [Note(0)])
            await gate.reached.wait()
            for stream, size in (("a", 4), ("b", 4), ("c", 4), ("d", 25), ("e", 1)):
                nursery.start_soon(journal.append, stream, [Note(number) for number in range(size)])
                await wait_all_tasks_blocked()
            gate.open.set()
            while journal.statistics().writer.batches < 5:
                sizes.append(journal.statistics().position)
                await trio.lowlevel.checkpoint()
        assert sorted(set(sizes)) == [0, 1, 9, 13, 38]


async def test_callers_wait_before_the_queue_when_it_is_full() -> None:
    gate = Gate()
    store = FaultyStore(MemoryStore(b"0" * 16), before_write=gate)
    async with Journal.over(store, registry=REGISTRY, options=JournalOptions(max_waiting=3)) as journal:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(journal.append, f"s{number}", [Note(number)])
            await gate.reached.wait()
            await wait_all_tasks_blocked()
            assert journal.statistics().writer.waiting == 3
            gate.open.set()
        assert len(await positions(journal)) == 20


@asynccontextmanager
async def two_journals(folder: Path) -> AsyncIterator[tuple[Journal, Journal]]:
    """Two journals over one file, as in two processes."""
    path = folder / "a.db"
    async with Journal.open(path, registry=REGISTRY) as here, Journal.open(path, registry=REGISTRY) as there:
        await here.append("a", [Note(0)])
        await there.append("a", [Note(1)])
        yield here, there


async def test_what_another_process_appended_is_no_conflict_to_who_read_it(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (here, there):
        await here.append("a", [Note(2)], expected=2)
        with pytest.raises(VersionConflict):
            await there.append("a", [Note(2)], expected=2)
        await there.append("b", [Note(3)], require={"a": 3})
        assert await numbers(here, "a") == [0, 1, 2]
        assert await positions(here) == [1, 2, 3, 4]


async def test_what_another_process_appended_makes_a_stale_plan_start_again(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (here, there):
        await there.append("a", [Note(2)])
        await here.append("a", [Note(3)])
        assert here.statistics().writer.repetitions == 1
        assert await numbers(here, "a") == [0, 1, 2, 3]
        assert (await here.verify()).ok


async def test_a_stream_that_another_process_began_is_not_begun_again(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (here, there):
        await there.append("new", [Note(1)], expected=0)
        conflicts: list[VersionConflict] = []

        async def begin() -> None:
            try:
                await here.append("new", [Note(2)], expected=0)
            except VersionConflict as conflict:
                conflicts.append(conflict)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin)
            nursery.start_soon(here.append, "other", [Note(2)])
        assert [conflict.actual for conflict in conflicts] == [1]
        assert await numbers(here, "new") == [1]
        assert await numbers(here, "other") == [2]


async def test_a_key_that_another_process_used_is_known(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (here, there):
        original = await there.append("b", [Note(1)], key=Key("k", b"d"))
        repeated = await here.append("b", [Note(1)], key=Key("k", b"d"))
        assert repeated.repeated
        assert repeated.records == original.records
        with pytest.raises(IdempotencyConflict):
            await here.append("b", [Note(1)], key=Key("k", b"e"))


async def test_another_driver_ends_the_fence_and_a_known_end_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path, registry=REGISTRY) as here, Journal.open(path, registry=REGISTRY) as there:
        async with here.drive("here") as old:
            await here.append("a", [Step(1)], fence=old)
        async with there.drive("there") as new:
            with pytest.raises(StaleFence):
                await here.append("a", [Step(2)], fence=old)
            await there.append("a", [Step(2)], fence=new)
        async with here.drive("here again") as newest:
            await here.append("a", [Step(3)], fence=newest)
        assert (old, new, newest) == (1, 2, 3)
        assert await positions(here) == [1, 2, 3]


async def test_more_streams_than_are_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("trouper_journal._planner.MEMORY", 5)
    monkeypatch.setattr("trouper_journal._sqlite_rows._MAX_IDS", 5)
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        for turn in range(3):
            await journal.commit([Write(f"s{number}", [Note(turn)], expected=turn) for number in range(20)])
        assert await numbers(journal, "s0") == [0, 1, 2]
        assert (await journal.verify()).ok


async def test_a_commit_gets_through_though_others_write_all_the_time(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path, registry=REGISTRY) as other:
        written = 0

        async def get_in_between(_: Batch) -> None:
            nonlocal written
            await other.append("theirs", [Note(written)])
            written += 1

        def wrap(store: Store) -> Store:
            return FaultyStore(store, before_write=get_in_between)

        async with Journal.open(path, registry=REGISTRY, wrap=wrap) as journal:
            committed = await journal.append("ours", [Note(1), Note(2)], expected=0, key=Key("k", b"d"))
            with pytest.raises(VersionConflict):
                await journal.append("ours", [Note(3)], expected=1)
            again = await journal.append("ours", [Note(1), Note(2)], key=Key("k", b"d"))
            assert [record.version for record in committed.records] == [1, 2]
            assert again.records == committed.records
            assert await numbers(journal, "theirs") == list(range(written))
            assert (await journal.verify()).ok
