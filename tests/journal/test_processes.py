"""Several processes on one file: nothing is lost, nothing is doubled, and a killed one blocks nobody."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, Step, numbers, positions

from trouper_journal import Journal, JournalInUse, StaleFence

ROOT = Path(__file__).parents[2]


class Child:
    """A running child process, line by line."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._rest = b""

    async def line(self) -> str:
        """The next line that it says; empty once it has ended."""
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            part = await self.process.stdout.receive_some()
            if not part:
                return ""
            self._rest += bytes(part)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    async def begin(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"\n")


@asynccontextmanager
async def child(action: str, path: Path, *rest: str) -> AsyncIterator[Child]:
    """A child that has been started, and is killed at the end of the block."""
    command = [sys.executable, "-m", "tests.journal.child", action, str(path), *rest]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=str(ROOT))
    try:
        yield Child(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            await stream.aclose()


async def test_two_processes_append_a_thousand_events_each(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with child("append", path, "one", "1000") as one, child("append", path, "two", "1000") as two:
        for each in (one, two):
            assert await each.line() == "ready"
        await one.begin()
        await two.begin()
        assert [await one.line(), await two.line()] == ["done", "done"]
    async with Journal.open(path, registry=REGISTRY) as journal:
        assert await positions(journal) == list(range(1, 2001))
        assert await numbers(journal, "one") == await numbers(journal, "two") == list(range(1000))
        assert (await journal.verify()).ok


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
async def test_a_writer_that_ends_in_the_middle_leaves_whole_commits_and_all_it_acknowledged(
    blow: signal.Signals, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    acknowledged: dict[str, int] = {}
    async with child("flood", path) as flood:
        assert await flood.line() == "ready"
        await flood.begin()
        for _ in range(500):
            stream, version = (await flood.line()).split()
            acknowledged[stream] = int(version)
        flood.process.send_signal(blow)
        while line := await flood.line():
            stream, version = line.split()
            acknowledged[stream] = int(version)
    async with Journal.open(path, registry=REGISTRY) as journal:
        heads = {head.stream: head.version async for head in journal.streams()}
        assert all(heads[stream] >= version for stream, version in acknowledged.items())
        assert all(version % 2 == 0 for version in heads.values())
        assert (await journal.verify()).ok
        await journal.append("s0", [Note(0)], expected=heads["s0"])


async def test_a_second_driver_is_told_who_drives_and_a_killed_one_blocks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with child("drive", path, "night-shift") as driver, Journal.open(path, registry=REGISTRY) as journal:
        assert await driver.line() == "ready"
        with pytest.raises(JournalInUse) as caught:
            async with journal.drive("day-shift"):
                raise AssertionError
        assert "night-shift" in caught.value.holder
        assert str(driver.process.pid) in caught.value.holder
        await journal.append("a", [Note(1)])
        driver.process.send_signal(signal.SIGKILL)
        await driver.process.wait()
        async with journal.drive("day-shift") as fence:
            await journal.append("driven", [Step(2)], expected=1, fence=fence)


async def test_a_stopped_driver_cannot_write_late(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path, registry=REGISTRY) as journal:
        async with journal.drive("first") as late:
            pass
        async with child("drive", path, "second") as driver:
            assert await driver.line() == "ready"
            with pytest.raises(StaleFence) as caught:
                await journal.append("driven", [Step(2)], fence=late)
        assert caught.value.epoch == late + 1
        assert await journal.head("driven") is not None
        assert await positions(journal) == [1]


async def test_a_lock_is_given_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with child("drive", path, "first") as driver, Journal.open(path, registry=REGISTRY) as journal:
        assert await driver.line() == "ready"
        await driver.begin()
        assert await driver.process.wait() == 0
        async with journal.drive("second") as fence:
            assert fence == 2
            with pytest.raises(JournalInUse, match="second"):
                async with journal.drive("third"):
                    raise AssertionError


async def test_a_tail_and_news_follow_another_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with child("append", path, "theirs", "50") as other, Journal.open(path, registry=REGISTRY) as journal:
        assert await other.line() == "ready"
        seen: list[int] = []
        heard = trio.Event()

        async def listen(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with journal.news() as news:
                task_status.started()
                await news.wait()
                heard.set()

        async with trio.open_nursery() as nursery:
            await nursery.start(listen)
            await other.begin()
            async for record in journal.tail():
                seen.append(record.position)
                if len(seen) == 50:
                    break
        assert seen == list(range(1, 51))
        assert heard.is_set()


async def test_a_disk_that_fails_at_commit_breaks_the_journal_until_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with child("overflow", path) as limited:
        written, *errors = [await limited.line() for _ in range(3)]
        assert errors == ["JournalBroken", "JournalBroken"]
        assert await limited.process.wait() == 0
    async with Journal.open(path, registry=REGISTRY) as journal:
        assert await numbers(journal, "a") == list(range(int(written)))
        await journal.append("a", [Note(int(written))], expected=int(written))
        assert (await journal.verify()).ok


async def test_a_process_whose_database_hangs_still_ends(tmp_path: Path) -> None:
    async with child("hang", tmp_path / "a.db") as hung:
        with trio.fail_after(30):
            assert [await hung.line(), await hung.line()] == ["unknown", "left"]
            assert await hung.process.wait() == 0
