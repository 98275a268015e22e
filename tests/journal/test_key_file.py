"""The file of keys: durable before it is needed, gone when destroyed, clear when it is lost, safe to rotate."""

# ruff: noqa: ASYNC220, ASYNC240 -- a few small files, and a process that is killed at once

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.journal.test_sealing import REGISTRY, SECRET, Noted, erase, events_of

from trouper_journal import Batch, Domain, Journal, MemoryStore, Withheld, Write
from trouper_journal.sealing import DataKey, FileKeyStore, KeyStoreError
from trouper_journal.testing import FaultyStore

JOURNAL = bytes(16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.keys"


def wrapped_of(path: Path) -> list[bytes]:
    with sqlite3.connect(path) as database:
        found = [row[0] for row in database.execute("SELECT wrapped FROM keys WHERE wrapped IS NOT NULL")]
    database.close()
    return found


async def test_one_key_for_each_domain_of_each_journal_also_by_two_processes(path: Path) -> None:
    first, second = FileKeyStore(path), FileKeyStore(path)
    key = await first.obtain(JOURNAL, "room/1")
    assert await second.obtain(JOURNAL, "room/1") == key
    assert await second.find(key.id) == key
    others = [await second.obtain(JOURNAL, "room/2"), await second.obtain(b"another journal.", "room/1")]
    assert len({key.id, *(other.id for other in others)}) == 3
    assert len({key.secret, *(other.secret for other in others)}) == 3


async def test_only_its_owner_may_read_it(path: Path) -> None:
    key = await FileKeyStore(path).obtain(JOURNAL, "room/1")
    for made in (path, Path(f"{path}.master")):
        assert made.stat().st_mode & 0o777 == 0o600
    assert key.secret not in path.read_bytes()
    path.chmod(0o640)
    with pytest.raises(KeyStoreError, match="chmod 600"):
        await FileKeyStore(path).obtain(JOURNAL, "room/1")
    path.chmod(0o600)
    Path(f"{path}.master").chmod(0o604)
    with pytest.raises(KeyStoreError, match="chmod 600"):
        await FileKeyStore(path).obtain(JOURNAL, "room/1")


async def test_calls_at_once_share_what_they_can(path: Path) -> None:
    keys = FileKeyStore(path)
    found: dict[int, DataKey] = {}

    async def obtain(number: int) -> None:
        found[number] = await keys.obtain(JOURNAL, f"room/{number % 10}")

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(obtain, number)
    assert {number: found[number].domain for number in found} == {n: f"room/{n % 10}" for n in range(100)}
    assert len({key.id for key in found.values()}) == 10


async def test_a_retired_key_is_not_given_again_also_to_who_asks_at_the_same_time(path: Path) -> None:
    keys = FileKeyStore(path)
    old = await keys.obtain(JOURNAL, "room/1")
    assert await keys.retire(JOURNAL, "room/1") == [old.id]
    new = await keys.obtain(JOURNAL, "room/1")
    assert new.id != old.id
    assert await keys.find(old.id) == old
    assert [(entry.id, entry.state) for entry in await keys.entries(JOURNAL, "room/1")] == [
        (old.id, "retired"),
        (new.id, "active"),
    ]


async def test_a_destroyed_key_is_nowhere_in_the_file(path: Path) -> None:
    keys = FileKeyStore(path)
    doomed = [(await keys.obtain(JOURNAL, f"room/{number}")).id for number in range(40)]
    wrapped = wrapped_of(path)
    stamp = keys.stamp()
    assert await keys.destroy([*doomed[:20], "unknown"]) == doomed[:20]
    assert keys.stamp() != stamp
    left = path.read_bytes()
    assert sum(each in left for each in wrapped) == 20
    assert not [each for each in path.parent.iterdir() if each.name not in {path.name, f"{path.name}.master"}]
    gone = await FileKeyStore(path).find(doomed[0])
    assert isinstance(gone, Withheld)
    assert gone.reason == "erased"
    assert await keys.destroy(doomed[:20]) == []


async def test_rotation_leaves_the_data_keys_and_makes_the_old_master_useless(path: Path) -> None:
    keys = FileKeyStore(path)
    key = await keys.obtain(JOURNAL, "room/1")
    old_master, old_file = Path(f"{path}.master").read_bytes(), wrapped_of(path)
    assert await keys.rotate() == 1
    assert Path(f"{path}.master").read_bytes() != old_master
    assert not set(old_file) & set(wrapped_of(path))
    assert await keys.find(key.id) == key
    with pytest.raises(KeyStoreError, match="needs the master key"):
        await FileKeyStore(path, bytes.fromhex(old_master.decode())).obtain(JOURNAL, "room/1")


KILLED = """
import os, signal, sys, trio
from trouper_journal.sealing import FileKeyStore

path, left = sys.argv[1], int(sys.argv[2])

def counted(call):
    def step(*arguments, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return step

for name in ("fsync", "replace", "link", "unlink"):
    setattr(os, name, counted(getattr(os, name)))

async def main():
    keys = FileKeyStore(path)
    if sys.argv[3] == "rotate":
        await keys.rotate()
    else:
        await keys.obtain(b"another journal.", "room/1")

trio.run(main)
"""


def waiting_beside(path: Path) -> list[str]:
    """Master keys that are not in their place."""
    return sorted(each.name for each in path.parent.glob(f"{path.name}.master.*"))


def killed_at(step: int, path: Path, what: str) -> bool:
    """Whether a process died at that step of what it does with the files; False where it was done before."""
    command = [sys.executable, "-c", KILLED, str(path), str(step), what]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode
    assert done in {0, -signal.SIGKILL}
    return done != 0


@pytest.mark.parametrize("what", ["rotate", "make"])
async def test_a_kill_at_any_step_loses_no_key_and_leaves_nothing_that_stands_in_the_way(
    what: str, tmp_path: Path
) -> None:
    for step in range(1, 100):
        path = tmp_path / f"{step}.keys"
        places = [f"room/{number}" for number in range(3)] if what == "rotate" else []
        known = [await FileKeyStore(path).obtain(JOURNAL, place) for place in places]
        died = killed_at(step, path, what)
        known.append(await FileKeyStore(path).obtain(JOURNAL, "room/9"))
        for _ in range(2):
            assert [await FileKeyStore(path).find(key.id) for key in known] == known
            assert await FileKeyStore(path).rotate() >= len(known)
        assert [await FileKeyStore(path).find(key.id) for key in known] == known
        assert waiting_beside(path) == []
        assert not list(tmp_path.glob(".*")), "a master key, which may be the one in use"
        if not died:
            break
    assert step > 4


async def test_a_new_master_key_that_nothing_is_wrapped_with_is_deleted(path: Path) -> None:
    key = await FileKeyStore(path).obtain(JOURNAL, "room/1")
    waiting = Path(f"{path}.master.{'ab' * 8}")
    for left in ("ab" * 32, "ab", ""):
        waiting.write_text(left)
        waiting.chmod(0o600)
        assert await FileKeyStore(path).find(key.id) == key
        assert await FileKeyStore(path).rotate() == 1
        assert await FileKeyStore(path).find(key.id) == key
        assert waiting_beside(path) == []


async def test_files_of_keys_may_share_a_master_key_and_be_rotated_one_by_one(tmp_path: Path) -> None:
    master = tmp_path / "company.master"

    def store(name: str) -> FileKeyStore:
        return FileKeyStore(tmp_path / name, master)

    keys = {name: await store(name).obtain(JOURNAL, "room/1") for name in ("a", "b", "c")}
    first = master.read_text()
    for name in ("a", "b", "a", "b", "c", "b"):
        assert await store(name).rotate() == 1
        for each, key in keys.items():
            assert await store(each).find(key.id) == key
            assert await store(each).obtain(JOURNAL, "room/1") == key
    # What was the master key is kept under its id, until a person deletes it.
    kept = [each for each in tmp_path.glob("company.master.*") if each.read_text() == first]
    assert len(kept) == 1
    kept[0].unlink()
    for each, key in keys.items():
        assert await store(each).find(key.id) == key


@pytest.mark.parametrize(
    "cell", ["wrapped = 'x'", "wrapped = 5", "wrapped = x'00'", "wrapped = zeroblob(60)", "journal = 'x'", "domain = 5"]
)
async def test_a_damaged_cell_is_a_damaged_key_and_no_crash(path: Path, cell: str) -> None:
    key = await FileKeyStore(path).obtain(JOURNAL, "room/1")
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE keys SET {cell}")
    database.close()
    found = await FileKeyStore(path).find(key.id)
    assert isinstance(found, Withheld)
    assert (found.reason, "damaged" in found.details) == ("locked", True)
    with pytest.raises(KeyStoreError, match="damaged"):
        await FileKeyStore(path).rotate()
    assert waiting_beside(path) == []


async def test_a_master_key_that_cannot_be_written_leaves_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(KeyStoreError, match="no space"):
            await FileKeyStore(path).obtain(JOURNAL, "room/1")
    assert not [each for each in path.parent.iterdir() if "master" in each.name]
    key = await FileKeyStore(path).obtain(JOURNAL, "room/1")
    assert await FileKeyStore(path).find(key.id) == key


def full(_: object) -> None:
    raise OSError(errno.ENOSPC, "no space left")


async def test_a_reader_does_not_put_right_what_another_process_was_killed_at(path: Path) -> None:
    key = await FileKeyStore(path).obtain(JOURNAL, "room/1")
    # Its rollback journal is left beside the file.
    assert any(killed_at(step, path, "rotate") and Path(f"{path}-journal").exists() for step in range(1, 100))
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    reader = FileKeyStore(path, read_only=True)
    found = await reader.find(key.id)
    assert isinstance(found, DataKey) or found.reason == "locked"
    for attempt in (reader.rotate, partial(reader.obtain, JOURNAL, "room/2"), partial(reader.destroy, [key.id])):
        with pytest.raises(KeyStoreError):
            await attempt()
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    assert await FileKeyStore(path).find(key.id) == key


ROTATING = """
import sys, trio
from trouper_journal.sealing import FileKeyStore

async def main():
    for _ in range(12):
        await FileKeyStore(sys.argv[1]).rotate()

trio.run(main)
"""


async def test_rotations_at_once_lose_no_key_and_hinder_no_reader(path: Path) -> None:
    known = [await FileKeyStore(path).obtain(JOURNAL, f"room/{number}") for number in range(30)]
    command = [sys.executable, "-c", ROTATING, str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root) as one, subprocess.Popen(command, cwd=root) as other:
        while one.poll() is None or other.poll() is None:
            for key in known[:5]:
                assert await FileKeyStore(path).find(key.id) == key
    assert (one.returncode, other.returncode) == (0, 0)
    assert [await FileKeyStore(path).find(key.id) for key in known] == known


async def test_a_master_key_that_is_handed_in(path: Path) -> None:
    master, another = b"m" * 32, b"n" * 32
    key = await FileKeyStore(path, master).obtain(JOURNAL, "room/1")
    assert not Path(f"{path}.master").exists()
    locked = await FileKeyStore(path, another).find(key.id)
    assert isinstance(locked, Withheld)
    assert locked.reason == "locked"
    assert await FileKeyStore(path, master).rotate(another) == 1
    assert await FileKeyStore(path, another).find(key.id) == key
    with pytest.raises(KeyStoreError, match="32 bytes"):
        FileKeyStore(path, b"short")
    with pytest.raises(KeyStoreError, match="give the new master key"):
        await FileKeyStore(path, another).rotate()


@pytest.mark.parametrize(
    ("what", "says"), [(b"no database at all", "not a database"), (b"", "holds no keys"), (None, "holds no keys")]
)
async def test_something_else_is_no_file_of_keys(path: Path, what: bytes | None, says: str) -> None:
    if what is None or not what:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE other (a)")
            database.execute(f"PRAGMA application_id = {0x5452504B + 1 if what is None else 0}")
        database.close()
    else:
        path.write_bytes(what)
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(KeyStoreError, match=says):
        await FileKeyStore(path).obtain(JOURNAL, "room/1")
    assert isinstance(await FileKeyStore(path).find("a"), Withheld)
    assert path.read_bytes() == before


async def test_lost_files_are_a_state_and_no_crash(tmp_path: Path, path: Path) -> None:
    where = tmp_path / "a.db"
    async with Journal.open(where, registry=REGISTRY, keys=FileKeyStore(path)) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=Domain("room/1", b"s"))])
    master = Path(f"{path}.master")
    for lost, reason in ((master, "locked"), (path, "missing")):
        lost.rename(tmp_path / "away")
        async with Journal.open(where, registry=REGISTRY, keys=FileKeyStore(path)) as journal:
            (record,) = await journal.read_page("a")
            assert isinstance(record.opened, Withheld)
            assert record.opened.reason == reason
            assert (await journal.verify()).ok
        (tmp_path / "away").rename(lost)
    async with Journal.open(where, registry=REGISTRY, keys=FileKeyStore(path)) as journal:
        assert await events_of(journal, "a") == [Noted(1, SECRET)]


async def test_a_key_is_durable_before_the_first_record_that_needs_it(path: Path) -> None:
    found: list[bool] = []

    class Watching(FaultyStore):
        async def write(self, batch: Batch) -> bool:
            for record in batch.records:
                if record.key_id is not None:
                    found.append(isinstance(await FileKeyStore(path).find(record.key_id), DataKey))
            return await super().write(batch)

    store = Watching(MemoryStore(b"memory journal 3"))
    async with Journal.over(store, registry=REGISTRY, keys=FileKeyStore(path)) as journal:
        for number in range(3):
            write = Write("a", [Noted(number, SECRET)], domain=Domain(f"room/{number}", b"s"))
            await journal.commit([write])
        await erase(journal, "room/1")
        await journal.commit([Write("a", [Noted(9, SECRET)], domain=Domain("room/1", b"s"))])
    assert found == [True] * 4


WRITER = """
import sys, trio
from trouper_journal import Domain, Journal, Write
from trouper_journal.sealing import FileKeyStore
from tests.journal.test_sealing import REGISTRY, Noted

async def main():
    async with Journal.open(sys.argv[1], registry=REGISTRY, keys=FileKeyStore(sys.argv[2])) as journal:
        number = 0
        while True:
            write = Write("a", [Noted(number, "text")], domain=Domain(f"room/{number}", b"s"))
            await journal.commit([write])
            number += 1
            print(number, flush=True)

trio.run(main)
"""


async def test_whatever_a_killed_process_left_can_be_read(tmp_path: Path, path: Path) -> None:
    for after in (1, 2, 5):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "a.db"), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as writer:
            assert writer.stdout is not None
            for _ in range(after):
                assert writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, keys=FileKeyStore(path)) as journal:
        events = await events_of(journal, "a")
        assert len(events) >= 8
        assert all(isinstance(each, Noted) and each.text == "text" for each in events)
