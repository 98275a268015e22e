"""Reading evidence: whatever lies beside the file, all of it is read, and not one byte of anything changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, numbers

from trouper_journal import (
    Journal,
    JournalCorrupt,
    JournalError,
    NotAJournal,
    StorageReadOnly,
    StorageUnreadable,
)
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]


def seen(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and its time."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


async def write(path: Path, *values: int) -> None:
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append("a", [Note(value, "text") for value in values])


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What lies in a folder while a program has the journal open: file, log, index. Ten records are in the log."""

    async def make() -> None:
        async with Journal.open(tmp_path / "live.db", registry=REGISTRY) as journal:
            await journal.append("a", [Note(value) for value in range(10)])
            await trio.to_thread.run_sync(copy)

    def copy() -> None:
        (tmp_path / "left").mkdir()
        for ending in ("", "-wal", "-shm"):
            shutil.copyfile(tmp_path / f"live.db{ending}", tmp_path / "left" / f"a.db{ending}")

    trio.run(make)
    return tmp_path / "left" / "a.db"


def read(path: Path) -> list[int]:
    async def main() -> list[int]:
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            found = await journal.verify()
            assert found.ok
            return await numbers(journal, "a")

    return trio.run(main)


@pytest.mark.parametrize("missing", [(), ("-shm",)], ids=["as a killed program leaves it", "copied without the index"])
def test_what_is_in_the_log_is_read_and_no_byte_changes(left: Path, missing: tuple[str, ...], tmp_path: Path) -> None:
    for ending in missing:
        Path(f"{left}{ending}").unlink()
    before = seen(left.parent)
    assert read(left) == list(range(10))
    assert seen(left.parent) == before
    assert not list(Path(tempfile.gettempdir()).glob("trouper-reading-*"))


async def test_a_closed_journal_is_read_as_it_lies(tmp_path: Path) -> None:
    await write(tmp_path / "a.db", 1, 2)
    before = seen(tmp_path)
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, read_only=True) as journal:
        assert await numbers(journal, "a") == [1, 2]
        assert seen(tmp_path) == before
    assert seen(tmp_path) == before


@pytest.mark.parametrize("name", ["journal-1.db", "runs-1.db"])
async def test_golden_journals_are_read_without_a_trace(name: str, tmp_path: Path) -> None:
    shutil.copyfile(GOLDEN / name, tmp_path / name)
    before = seen(tmp_path)
    async with Journal.open(tmp_path / name, read_only=True) as journal:
        assert (await journal.verify()).ok
    assert seen(tmp_path) == before


async def test_beside_a_program_that_writes_its_commits_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path, registry=REGISTRY) as live:
        await live.append("a", [Note(1)])
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            assert await numbers(journal, "a") == [1]
            await live.append("a", [Note(2)])
            assert await numbers(journal, "a") == [1, 2]
            tail = journal.tail(after=2)
            await live.append("a", [Note(3)])
            with trio.fail_after(10):
                assert (await anext(tail)).position == 3


async def test_a_journal_that_is_opened_for_writing_while_it_is_read_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await write(path, 1)
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        assert await numbers(journal, "a") == [1]
        await write(path, 2)
        assert await numbers(journal, "a") == [1, 2]
        async with Journal.open(path, registry=REGISTRY) as live:
            await live.append("a", [Note(3)])
            assert await numbers(journal, "a") == [1, 2, 3]
            with trio.fail_after(10):
                async for record in journal.tail(after=2):
                    assert record.position == 3
                    break
                else:
                    raise AssertionError
            await live.append("a", [Note(5)])
    await write(path, 6)


async def test_nothing_can_be_written(tmp_path: Path) -> None:
    await write(tmp_path / "a.db", 1)
    before = seen(tmp_path)
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, read_only=True) as journal:
        with pytest.raises(StorageReadOnly, match="reading only"):
            await journal.append("a", [Note(2)])
        with pytest.raises(StorageReadOnly, match="reading only"):
            async with journal.drive("me"):
                raise AssertionError
        with pytest.raises(StorageReadOnly):
            await journal.store.raise_epoch()
        await journal.save_snapshot("a", 1, "code", b"state")
        assert await journal.load_snapshot("a", "code") is None
        assert await numbers(journal, "a") == [1]
    assert seen(tmp_path) == before


def refused(path: Path) -> JournalError:
    async def main() -> None:
        async with Journal.open(path, read_only=True):
            raise AssertionError

    with pytest.raises(JournalError) as caught:
        trio.run(main)
    assert path.name in str(caught.value)
    return caught.value


def test_what_is_no_journal_is_refused_by_name_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("# notes\n" * 2000)
    (tmp_path / "folder.db").mkdir()
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as database:
        database.execute("CREATE TABLE theirs (x)")
    files = [tmp_path / name for name in ("empty.db", "text.db", "theirs.db")]
    before = [path.read_bytes() for path in files]
    for path in (*files, tmp_path / "folder.db"):
        assert type(refused(path)) is NotAJournal
    assert [path.read_bytes() for path in files] == before
    assert type(refused(tmp_path / "missing.db")) is StorageUnreadable
    (tmp_path / "missing.db-wal").write_bytes(b"what is left")
    assert type(refused(tmp_path / "missing.db")) is JournalCorrupt
    assert not (tmp_path / "missing.db").exists()


async def test_a_journal_in_memory_cannot_be_opened_for_reading_only() -> None:
    with pytest.raises(TypeError, match="path"):
        Journal.open(read_only=True)


def test_a_private_copy_is_removed_also_where_the_file_is_refused(left: Path) -> None:
    Path(f"{left}-shm").unlink()
    with closing(sqlite3.connect(left, isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 99")
        shutil.copyfile(left, left.with_name("b.db"))
        shutil.copyfile(f"{left}-wal", left.with_name("b.db-wal"))
    before = seen(left.parent)
    assert "layout 99" in str(refused(left.with_name("b.db")))
    assert seen(left.parent) == before
    assert not list(Path(tempfile.gettempdir()).glob("trouper-reading-*"))


READ = """
import os, shutil, sys, tempfile, trio
from trouper_journal import Journal

async def main(path):
    async with Journal.open(path, read_only=True) as journal:
        return (await journal.verify()).records

# What is imported late may stand where others than root cannot look.
trio.run(main, sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)
try:
    print(trio.run(main, sys.argv[2]))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may look into, and nobody else may write to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def as_nobody(path: Path) -> subprocess.CompletedProcess[str]:
    """Read a journal as a user who may not write to its folder (needs root; without, oneself)."""
    return subprocess.run(
        [sys.executable, "-c", READ, str(GOLDEN / "journal-1.db"), str(path)],
        capture_output=True, text=True, timeout=60, cwd=path.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT / "journal"), "TMPDIR": "/tmp"},
    )  # fmt: skip


@pytest.mark.parametrize("endings", [("",), ("", "-wal", "-shm"), ("", "-wal")])
def test_neither_file_nor_folder_needs_write_permission(
    endings: tuple[str, ...], left: Path, tmp_path: Path, open_folder: Path
) -> None:
    source = tmp_path / "live.db" if endings == ("",) else left
    for ending in endings:
        shutil.copyfile(f"{source}{ending}", open_folder / f"a.db{ending}")
        os.chmod(open_folder / f"a.db{ending}", 0o444)
    os.chmod(open_folder, 0o555)
    before = seen(open_folder)
    found = as_nobody(open_folder / "a.db")
    assert (found.stdout, found.stderr) == ("10\n", "")
    assert seen(open_folder) == before
    os.chmod(open_folder, 0o755)


def test_a_file_without_read_permission_is_refused_by_name(tmp_path: Path, left: Path, open_folder: Path) -> None:
    shutil.copyfile(tmp_path / "live.db", open_folder / "a.db")
    os.chmod(open_folder / "a.db", 0)
    found = as_nobody(open_folder / "a.db")
    assert found.stdout == f"StorageUnreadable {open_folder}/a.db cannot be read: you have no permission to\n"


HOLDER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("BEGIN")
database.execute("SELECT position FROM head").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""
INDEX_HEADER = 48
"""Bytes of the header of a log's index, of which it holds two copies (https://sqlite.org/walformat.html)."""


def test_an_index_that_a_writer_is_changing_is_read_when_it_is_done(tmp_path: Path) -> None:
    """A writer changes one copy of the index's header after the other: for a moment they differ."""
    path = tmp_path / "busy.db"
    trio.run(write, path, 1)
    asked = 0

    async def main(index: int) -> int:
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            whole = os.pread(index, INDEX_HEADER, 0)

            def work(database: sqlite3.Connection) -> int:
                nonlocal asked
                asked += 1
                if asked == 3:
                    os.pwrite(index, whole, 0)
                found: int = database.execute("SELECT position FROM head").fetchone()[0]
                return found

            os.pwrite(index, bytes(INDEX_HEADER), 0)
            store = journal.store
            assert isinstance(store, ReadOnlySQLiteStore)
            return await store.query(work)

    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        index = os.open(f"{path}-shm", os.O_RDWR)
        try:
            assert trio.run(main, index) == 1
        finally:
            os.close(index)
            holder.communicate("")
    assert asked == 3
