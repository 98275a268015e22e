"""Copies of a journal in use: one consistent moment, verified, named when whole, and nothing ever overwritten."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, numbers

from trouper_journal import Journal, JournalCorrupt, NotAJournal, StorageUnreadable
from trouper_journal.backup import back_up

BIG = "x" * 30_000


async def fill(path: Path, count: int) -> None:
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append("a", [Note(number, BIG) for number in range(count)])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_closed_journal_is_copied_and_left_as_it_was(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    await fill(path, 3)
    os.chmod(path, 0o640)
    before = path.read_bytes()
    made = await back_up(path, copy)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["a.db", "copy.db"]
    assert (made.records, made.path, made.size) == (3, str(copy), copy.stat().st_size)
    assert copy.stat().st_mode & 0o777 == 0o640
    async with Journal.open(copy, registry=REGISTRY) as journal:
        assert (journal.id.hex(), await numbers(journal, "a")) == (made.journal_id, [0, 1, 2])
        assert (await journal.verify()).root == made.root
        await journal.append("a", [Note(3)])


KILLED = """
import os, signal, sys, trio
from trouper_journal.backup import back_up

def told(what, done, total):
    if what == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(lambda: back_up(sys.argv[1], sys.argv[2], progress=told))
"""


@pytest.mark.parametrize("moment", ["copying", "verifying"])
async def test_what_a_killed_process_left_is_removed_by_the_next(moment: str, tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    await fill(path, 3)
    command = [sys.executable, "-c", KILLED, str(path), str(copy), moment]
    assert (await trio.run_process(command, check=False)).returncode == -signal.SIGKILL
    assert names(tmp_path) != ["a.db"]
    assert not copy.exists()
    await back_up(path, copy)
    assert names(tmp_path) == ["a.db", "copy.db"]


async def test_of_two_that_make_one_copy_at_once_neither_disturbs_the_other(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    await fill(path, 3)
    token = trio.lowlevel.current_trio_token()
    made: list[str] = []

    def told(what: str, _done: int, _total: int) -> None:
        # In the middle of the one, the other is made from its beginning to its end.
        if what == "copying" and not made:
            made.append("other")
            trio.from_thread.run(back_up, path, copy, trio_token=token)

    with pytest.raises(FileExistsError, match="nothing is overwritten"):
        await back_up(path, copy, progress=told)
    assert names(tmp_path) == ["a.db", "copy.db"]
    async with Journal.open(copy, registry=REGISTRY) as journal:
        assert await numbers(journal, "a") == [0, 1, 2]


async def test_a_journal_is_copied_at_one_moment_while_it_is_written_to(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    token = trio.lowlevel.current_trio_token()
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append("a", [Note(number, BIG) for number in range(100)])
        steps: list[int] = []

        def told(what: str, done: int, total: int) -> None:
            # Somebody commits between any two steps of the copy.
            if what == "copying" and done < total:
                steps.append(done)
                trio.from_thread.run(journal.append, "a", [Note(1000 + done)], trio_token=token)

        made = await back_up(path, copy, progress=told)
        assert steps
        assert made.records == 100
        assert len(await numbers(journal, "a")) == 100 + len(steps)
    async with Journal.open(copy, registry=REGISTRY, read_only=True) as journal:
        assert await numbers(journal, "a") == list(range(100))


async def test_what_stands_in_a_log_alone_is_copied(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(1)])
        for ending in ("", "-wal"):
            shutil.copyfile(tmp_path / f"a.db{ending}", tmp_path / "left" / f"a.db{ending}")
    assert (await back_up(tmp_path / "left" / "a.db", tmp_path / "copy.db")).records == 1
    assert names(tmp_path / "left") == ["a.db", "a.db-wal"]


@pytest.mark.parametrize("taken", ["copy.db", "copy.db-wal", "copy.db-journal"])
async def test_nothing_is_overwritten(taken: str, tmp_path: Path) -> None:
    await fill(tmp_path / "a.db", 1)
    (tmp_path / taken).write_bytes(b"theirs")
    with pytest.raises(FileExistsError, match=taken):
        await back_up(tmp_path / "a.db", tmp_path / "copy.db")
    assert (tmp_path / taken).read_bytes() == b"theirs"
    assert names(tmp_path) == ["a.db", taken]


async def test_a_name_that_is_taken_meanwhile_is_not_overwritten_either(tmp_path: Path) -> None:
    await fill(tmp_path / "a.db", 1)
    with pytest.raises(FileExistsError):
        await back_up(
            tmp_path / "a.db", tmp_path / "copy.db", progress=lambda *_: (tmp_path / "copy.db").touch(exist_ok=True)
        )
    assert (tmp_path / "copy.db").stat().st_size == 0
    assert names(tmp_path) == ["a.db", "copy.db"]


async def test_a_cancelled_copy_leaves_nothing(tmp_path: Path) -> None:
    await fill(tmp_path / "a.db", 100)
    with trio.CancelScope() as scope:
        stop = partial(trio.from_thread.run_sync, scope.cancel)
        await back_up(tmp_path / "a.db", tmp_path / "copy.db", progress=lambda *_: stop())
    assert scope.cancelled_caught
    assert names(tmp_path) == ["a.db"]


async def test_a_damaged_journal_gives_no_backup(tmp_path: Path) -> None:
    await fill(tmp_path / "a.db", 2)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as database:
        database.execute("DROP TRIGGER events_update")
        database.execute("UPDATE events SET label = 'forged' WHERE position = 2")
    with pytest.raises(JournalCorrupt, match="does not verify"):
        await back_up(tmp_path / "a.db", tmp_path / "copy.db")
    assert names(tmp_path) == ["a.db"]


async def test_what_is_no_journal_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("notes\n" * 2000)
    with pytest.raises(NotAJournal):
        await back_up(tmp_path / "text.db", tmp_path / "copy.db")
    with pytest.raises(StorageUnreadable):
        await back_up(tmp_path / "missing.db", tmp_path / "copy.db")
    assert names(tmp_path) == ["text.db"]
