"""Whatever is changed in any table is found by ``verify``, except in a few cells of which nothing is promised."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, Step

from trouper_journal import Journal, JournalError, Key, Write

NOTHING_IS_PROMISED = {
    ("journal", "created_at"),  # when the file was made, for people
    ("head", "epoch"),  # how often the journal was driven; only compared with later ones
    ("keys", "digest"),  # what the commands asked for; a command that differs from it is refused
    ("large", "domain"),  # where a value is stored once; it is found by its digest
    ("snapshots", "stream_id"), ("snapshots", "version"), ("snapshots", "leaf"), ("snapshots", "fingerprint"),
    ("snapshots", "state"),  # a cache, held against its record when it is used
}  # fmt: skip
SAME = [("content", None, b""), ("content", b"", None), ("large", None, 0), ("large", 0, None)]


async def write(path: Path) -> None:
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("me") as fence:
        for number in range(6):
            write = Write(
                f"run/{number % 2}", [Note(number, "said"), Step(number)], label="running", wake_at=number + 1
            )
            await journal.commit([write], fence=fence, key=Key(f"submit:{number}", b"d"), meta={"cause": number})
        await journal.append("big", [Note(9, "x" * 40_000)])
        await journal.save_snapshot("run/0", 3, "code", b"state")


def verified(path: Path) -> bool:
    """Whether nothing is found; an error is a finding."""

    async def verify() -> bool:
        async with Journal.open(path, read_only=True) as journal:
            return (await journal.verify()).ok

    try:
        return trio.run(verify)
    except JournalError:
        return False


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trio.run(write, path := tmp_path_factory.mktemp("whole") / "j.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("PRAGMA journal_mode = DELETE")
    return path


def changes(path: Path) -> Iterator[tuple[str, str, int]]:
    """Every cell: its table, column and row."""
    with closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f"PRAGMA table_info({table})").fetchall():
                for (rowid,) in database.execute(f"SELECT rowid FROM {table}").fetchall():
                    yield table, row[1], rowid


def others(old: object, rng: random.Random) -> list[object]:
    """What may stand in the place of a value: something of its kind, of another kind, or out of all bounds."""
    near: list[object] = []
    if isinstance(old, int):
        near = [old + 1, old - 1]
    elif isinstance(old, str):
        near = [old + "x", old[:-1]]
    elif isinstance(old, bytes) and old:
        at = rng.randrange(len(old))
        near = [old[:at] + bytes([old[at] ^ 1 << rng.randrange(8)]) + old[at + 1 :]]
    return [rng.choice(near or [1]), rng.choice([None, 0, -1, 2**62, "", "x", b"", bytes(32)])]


def change(path: Path, table: str, column: str, rowid: int, new: object) -> bool:
    """Change a cell; whether it holds another value now."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        cell = f"SELECT {column} FROM {table} WHERE rowid = ?"
        (old,) = database.execute(cell, (rowid,)).fetchone()
        try:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, rowid))
        except sqlite3.Error:
            return False
        (now,) = database.execute(cell, (rowid,)).fetchone() or (new,)
        return (type(now), now) != (type(old), old) and (column, old, now) not in SAME


def test_a_changed_cell_of_any_table_is_found(whole: Path, tmp_path: Path) -> None:
    rng = random.Random(7)
    missed: set[tuple[str, str]] = set()
    found = 0
    shutil.copy(whole, path := tmp_path / "j.db")
    for table, column, rowid in changes(whole):
        with closing(sqlite3.connect(whole)) as database:
            (old,) = database.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (rowid,)).fetchone()
        for new in others(old, rng):
            if not change(path, table, column, rowid, new):
                continue
            if verified(path):
                missed.add((table, column))
            else:
                found += 1
            shutil.copy(whole, path)
    assert missed <= NOTHING_IS_PROMISED
    assert found > 300


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE streams SET label = 'succeeded', version = version - 1, position = {2**62} WHERE name = 'run/0'",
        "UPDATE streams SET label = 'succeeded', wake_at = NULL, position = 14 WHERE name = 'run/1'",
        "UPDATE streams SET position = 14 WHERE name = 'big'",
        "INSERT INTO streams VALUES (99, 'run/9', 1, 14, 'failed', NULL)",
        "INSERT INTO streams VALUES (-1, 'run/9', 1, 1, 'failed', NULL)",
        "INSERT INTO streams VALUES (0, 'run/9', 0, 0, NULL, NULL)",
    ],
)
def test_what_an_index_says_of_a_time_to_come_is_found(whole: Path, tmp_path: Path, statement: str) -> None:
    shutil.copy(whole, path := tmp_path / "j.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)
    assert not verified(path)


async def test_streams_that_move_on_while_they_are_verified_are_no_problem(tmp_path: Path) -> None:
    await write(path := tmp_path / "j.db")
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("me") as fence:
        moved = 0

        async def go_on() -> None:
            nonlocal moved
            while True:
                writes = [Write(f"run/{moved % 3}", [Step(moved)], label=f"l{moved}", wake_at=moved)]
                await journal.commit(writes, fence=fence, key=Key(f"again:{moved}", b"d"))
                moved += 1

        async with trio.open_nursery() as nursery, Journal.open(path, read_only=True) as other:
            nursery.start_soon(go_on)
            for _ in range(10):
                assert (await other.verify()).problems == ()
            nursery.cancel_scope.cancel()
        assert moved
