"""Commits of other processes are noticed whatever disks and clocks do, and a file that is gone is not written to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, numbers
from trio.testing import wait_all_tasks_blocked

from trouper_journal import (
    Journal,
    JournalBroken,
    Known,
    MemoryStore,
    StorageBusy,
    SystemClock,
)


class SlowDisk(MemoryStore):
    """Another process's commits change the stamp at once, and are seen a number of looks later."""

    delay = 0
    stamps = 0

    async def position(self) -> int:
        if self.delay:
            self.delay -= 1
            return 0
        return await super().position()

    def stamp(self) -> object:
        return self.stamps


class Counting(SystemClock):
    """Counts the pauses between two looks, and takes none."""

    pauses = 0

    async def sleep_until(self, moment: int) -> None:
        self.pauses += 1
        await trio.lowlevel.checkpoint()


async def test_a_commit_that_is_long_on_its_way_to_the_disk_is_noticed_soon_after() -> None:
    store, clock = SlowDisk(bytes(16), shared=True), Counting()
    async with Journal.over(store, registry=REGISTRY, clock=clock) as journal, journal.news() as news:
        async with Journal.over(store, registry=REGISTRY) as other:
            store.delay, store.stamps = 4, 1
            await other.append("a", [Note(1)])
        assert await news.wait()
        # Long before the store would have been asked whatever its stamp says.
        assert clock.pauses < 30


class SetBack(SystemClock):
    """A wall clock that is set back by an hour between a look at it and the wait for a moment that follows."""

    back = 0

    def now(self) -> int:
        self.back += 3_600_000_000_000
        return super().now() - self.back


async def test_a_wall_clock_that_is_set_back_holds_up_no_news(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with trio.fail_after(30):
        async with (
            Journal.open(path, registry=REGISTRY, clock=SetBack()) as journal,
            Journal.open(path, registry=REGISTRY) as other,
        ):
            seen: list[int] = []

            async def follow() -> None:
                async for record in journal.tail():
                    seen.append(record.position)
                    if len(seen) == 3:
                        return

            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                for number in range(3):
                    await wait_all_tasks_blocked()
                    await other.append("a", [Note(number)])
    assert seen == [1, 2, 3]


class Unreadable(MemoryStore):
    """A storage that can no longer be read from some moment on."""

    broken = False

    async def position(self) -> int:
        if self.broken:
            raise JournalBroken("the disk is gone")
        return await super().position()

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        if self.broken:
            raise StorageBusy("not reached")
        return await super().load(streams, keys)


async def test_whoever_reads_from_a_storage_that_broke_is_told_why() -> None:
    store = Unreadable(bytes(16), shared=True)
    async with Journal.over(store, registry=REGISTRY) as journal, journal.news() as news:
        tail = journal.tail()
        store.broken = True
        with pytest.raises(JournalBroken, match="the disk is gone"):
            await news.wait()
        with pytest.raises(JournalBroken, match="the disk is gone"):
            await anext(tail)
        with pytest.raises(JournalBroken, match="the disk is gone"):
            await journal.head("a")


async def test_news_and_arrivals_are_for_their_blocks() -> None:
    async with Journal.open() as journal:
        with pytest.raises(RuntimeError, match="async with"):
            await journal.news().wait()
        with pytest.raises(RuntimeError, match="async with"):
            await journal.arrivals().wait()


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name("a.db-wal").unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.parametrize("settled", [False, True], ids=["new folder", "old folder"])
@pytest.mark.parametrize("meddle", [delete, delete_log, move, replace, move_folder])
async def test_what_would_not_last_is_not_acknowledged(
    meddle: Callable[[Path], None], settled: bool, tmp_path: Path
) -> None:
    path = tmp_path / "kept" / "a.db"
    path.parent.mkdir()
    async with Journal.open(path, registry=REGISTRY) as journal:
        if settled:
            os.utime(path.parent, (1e9 + 0.5, 1e9 + 0.5))
        await journal.append("a", [Note(1)])
        (path.parent / "another file").write_text("of no concern")
        await journal.append("a", [Note(2)])
        if settled:
            os.utime(path.parent, (1e9 + 0.5, 1e9 + 0.5))
        await journal.append("a", [Note(3)])
        meddle(path)
        with pytest.raises(JournalBroken, match="deleted, moved or replaced"):
            await journal.append("a", [Note(4)])
        with pytest.raises(JournalBroken, match="deleted, moved or replaced"):
            await journal.append("b", [Note(5)])
        assert await numbers(journal, "a") == [1, 2, 3]
