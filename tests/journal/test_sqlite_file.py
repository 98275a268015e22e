"""The file itself: durability settings, immutability, foreign files, and what opening and closing leave behind."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, numbers

from trouper_journal import Journal, JournalOptions, Key, NotAJournal, Write
from trouper_journal._sqlite import SQLiteStore
from trouper_journal._sqlite_schema import check_settings


async def on_both_connections(journal: Journal, ask: Callable[[sqlite3.Connection], object]) -> list[object]:
    """What each of the journal's connections answers, in its own thread."""
    store = journal.store
    assert isinstance(store, SQLiteStore)
    return [await store._call(connection, ask) for connection in (store._writer, store._reader)]


def pragma(name: str) -> Callable[[sqlite3.Connection], object]:
    return lambda database: database.execute(f"PRAGMA {name}").fetchone()[0]


async def test_every_connection_is_as_durable_as_promised(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db") as journal:
        assert await on_both_connections(journal, pragma("journal_mode")) == ["wal", "wal"]
        assert await on_both_connections(journal, pragma("synchronous")) == [2, 2]
        assert await on_both_connections(journal, pragma("foreign_keys")) == [1, 1]
        assert await on_both_connections(journal, pragma("query_only")) == [0, 1]
    async with Journal.open(tmp_path / "a.db", options=JournalOptions(durability="normal")) as journal:
        assert await on_both_connections(journal, pragma("synchronous")) == [1, 1]


def test_a_connection_that_is_less_durable_is_not_used(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("PRAGMA synchronous = OFF")
    with pytest.raises(Exception, match="journal_mode delete and synchronous 0"):
        check_settings(database, "FULL")
    database.close()


async def test_work_runs_whole_in_the_connections_own_daemon_thread(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db") as journal:
        threads = await on_both_connections(journal, lambda _: threading.current_thread())
        assert len({*threads, threading.current_thread()}) == 3
        assert all(isinstance(thread, threading.Thread) and thread.daemon for thread in threads)


IMMUTABLE = [
    "UPDATE events SET facts = x'80'",
    "UPDATE events SET position = 100",
    "DELETE FROM events",
    "INSERT OR REPLACE INTO events SELECT * FROM events LIMIT 1",
    """INSERT OR REPLACE INTO events SELECT 100, stream_id, version, type, schema, recorded_at, key, label, wake_at,
        key_id, meta, facts, content, leaf, large FROM events LIMIT 1""",
    "UPDATE keys SET digest = x'00'",
    "DELETE FROM keys",
    "INSERT OR REPLACE INTO keys SELECT name, x'00', first, last FROM keys",
    "UPDATE large SET data = x'00'",
    "DELETE FROM large",
    "UPDATE journal SET id = x'00'",
    "DELETE FROM journal",
]


@pytest.mark.parametrize("statement", IMMUTABLE)
async def test_what_was_written_cannot_be_changed(statement: str, tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(1, "x" * 40_000), Note(2)], key=Key("k", b"d"))
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError, match="immutable"):
        database.execute(statement)
    database.close()


async def test_a_replaced_large_value_is_left_as_it_was(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(1, "x" * 40_000)])
        database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        database.execute("INSERT OR REPLACE INTO large SELECT digest, domain, x'00' FROM large")
        database.close()
        assert (await journal.verify()).ok


async def test_only_what_has_a_tombstone_can_be_deleted(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(1), Note(2)])
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    database.execute("INSERT INTO tombstones SELECT leaf FROM events WHERE version = 1")
    database.execute("DELETE FROM events WHERE version = 1")
    with pytest.raises(sqlite3.IntegrityError):
        database.execute("DELETE FROM events WHERE version = 2")
    with pytest.raises(sqlite3.IntegrityError):
        database.execute("DELETE FROM tombstones")
    database.close()


async def test_a_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    for content in (b"hello", b"# notes\n" * 2000):
        (tmp_path / "a.db").write_bytes(content)
        with pytest.raises(NotAJournal, match=r"a\.db"):
            async with Journal.open(tmp_path / "a.db"):
                raise AssertionError
        assert (tmp_path / "a.db").read_bytes() == content


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(NotAJournal, match="not a Trouper journal"):
        async with Journal.open(tmp_path / "a.db"):
            raise AssertionError
    assert (tmp_path / "a.db").read_bytes() == before


async def test_a_journal_of_another_layout_is_refused_rather_than_opened_as_empty(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db"):
        pass
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(NotAJournal, match="layout 2"):
        async with Journal.open(tmp_path / "a.db"):
            raise AssertionError


async def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(1)])


async def test_two_that_create_at_once_open_the_same_journal(tmp_path: Path) -> None:
    ids: set[bytes] = set()

    async def open_one() -> None:
        async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
            ids.add(journal.id)
            await journal.append("a", [Note(1)])

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(open_one)
    assert len(ids) == 1
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        assert await numbers(journal, "a") == [1] * 8


async def test_leaving_folds_the_log_into_the_file(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(1)])
        assert (tmp_path / "a.db-wal").stat().st_size > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db"]  # noqa: ASYNC240


async def test_a_reader_left_in_the_middle_does_not_hold_the_log_back(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        await journal.append("a", [Note(number) for number in range(1000)])
        reader = aiter(journal.read_all())
        await anext(reader)
        checkpointer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        busy, frames, moved = checkpointer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        checkpointer.close()
        assert (busy, frames, moved) == (0, 0, 0)
        assert len([record async for record in reader]) == 999


async def test_a_ten_event_run_is_small(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path):
        pass
    empty = path.stat().st_size
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("driver") as fence:
        for run in range(30):
            for version in range(10):
                write = Write(f"run/0197f0a27c1e7a3b9d1e{run:012d}", [Note(version, "x" * 35)], label="running")
                await journal.commit([write], fence=fence, meta={"cause": run, "epoch": fence})
    assert (path.stat().st_size - empty) / 30 < 3500


async def test_symbolic_links_lead_to_one_journal(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "a.db")
    async with Journal.open(link) as journal, Journal.open(tmp_path / "a.db") as same:
        assert journal.path == same.path
        assert journal.id == same.id
