"""Each way in which a storage can fail: what the caller is told, what was written, and how it goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Gate, Note, numbers, positions
from trio.testing import wait_all_tasks_blocked

from trouper_journal import (
    Batch,
    Journal,
    JournalBroken,
    JournalClosed,
    JournalError,
    JournalOptions,
    Key,
    MemoryStore,
    StorageBusy,
    StorageFull,
    StorageReadOnly,
    Store,
)
from trouper_journal._sqlite_connection import transact
from trouper_journal.testing import FaultyStore, Hook


def failing_once(error: JournalError) -> Hook:
    """A hook that fails the first time."""
    left = [error]

    async def fail(_: Batch) -> None:
        if left:
            raise left.pop()

    return fail


@pytest.mark.parametrize("kind", [StorageBusy, StorageFull, StorageReadOnly])
async def test_a_storage_that_refuses_has_written_nothing(kind: type[JournalError], tmp_path: Path) -> None:
    def wrap(store: Store) -> Store:
        return FaultyStore(store, before_write=failing_once(kind("on demand")))

    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, wrap=wrap) as journal:
        with pytest.raises(kind):
            await journal.append("a", [Note(1)], expected=0, key=Key("k", b"d"))
        assert await positions(journal) == []
        committed = await journal.append("a", [Note(2)], expected=0, key=Key("k", b"d"))
        assert not committed.repeated
        assert await numbers(journal, "a") == [2]


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
async def test_after_an_unknown_outcome_only_key_and_reading_tell(written: bool, tmp_path: Path) -> None:
    lost = failing_once(JournalBroken("the answer was lost"))

    def wrap(store: Store) -> Store:
        return FaultyStore(store, after_write=lost) if written else FaultyStore(store, before_write=lost)

    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, wrap=wrap) as journal:
        with pytest.raises(JournalBroken):
            await journal.append("a", [Note(1)], key=Key("k", b"d"))
        with pytest.raises(JournalBroken):
            await journal.append("b", [Note(2)])
        assert await numbers(journal, "a") == ([1] if written else [])
        assert await numbers(journal, "b") == []
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        again = await journal.append("a", [Note(1)], key=Key("k", b"d"))
        assert again.repeated is written
        assert await numbers(journal, "a") == [1]


async def test_each_caller_of_a_failed_batch_gets_an_error_of_its_own() -> None:
    store = FaultyStore(MemoryStore(b"0" * 16))
    caught: list[StorageBusy] = []

    async def attempt(journal: Journal, stream: str) -> None:
        try:
            await journal.append(stream, [Note(1)], expected=0)
        except StorageBusy as error:
            caught.append(error)

    async with Journal.over(store, registry=REGISTRY) as journal:
        gate = Gate()
        store.before_write = gate
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.append, "first", [Note(0)])
            await gate.reached.wait()
            store.before_write = failing_once(StorageBusy("on demand"))
            for stream in "abc":
                nursery.start_soon(attempt, journal, stream)
            await wait_all_tasks_blocked()
            gate.open.set()
        assert [str(error) for error in caught] == ["on demand"] * 3
        assert len({id(error) for error in caught}) == 3


async def test_a_foreign_lock_delays_and_then_the_append_works(tmp_path: Path) -> None:
    done = trio.Event()
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY) as journal:
        foreign = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")

        async def append() -> None:
            await journal.append("a", [Note(1)], expected=0)
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await wait_all_tasks_blocked(0.05)
            assert not done.is_set()
            foreign.execute("COMMIT")
        foreign.close()
        assert await numbers(journal, "a") == [1]


async def test_a_foreign_lock_beyond_the_limit_is_busy_and_nothing_is_written(tmp_path: Path) -> None:
    options = JournalOptions(busy_timeout=0.01)
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, options=options) as journal:
        await journal.append("a", [Note(1)])
        foreign = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy, match=r"nothing was written"):
            await journal.append("a", [Note(2)], expected=1)
        with pytest.raises(StorageBusy):
            async with journal.drive("driver"):
                raise AssertionError
        assert await numbers(journal, "a") == [1]
        foreign.execute("ROLLBACK")
        foreign.close()
        await journal.append("a", [Note(2)], expected=1)
        assert await numbers(journal, "a") == [1, 2]


async def test_another_writer_between_read_and_write_is_no_error(tmp_path: Path) -> None:
    async with (
        Journal.open(tmp_path / "a.db", registry=REGISTRY) as one,
        Journal.open(tmp_path / "a.db", registry=REGISTRY) as other,
    ):
        for number in range(0, 20, 2):
            head = await one.head("a")
            await other.append("b", [Note(number)])
            await one.append("a", [Note(number)], expected=head.version if head else 0)
        assert await positions(one) == list(range(1, 21))


def test_a_full_disk_is_told_apart_and_leaves_no_open_transaction(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    database.execute("CREATE TABLE t (x)")
    database.execute(f"PRAGMA max_page_count = {database.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(StorageFull):
        transact(database, lambda database: database.execute("INSERT INTO t VALUES (zeroblob(100000))"))
    assert not database.in_transaction
    assert transact(database, lambda database: database.execute("INSERT INTO t VALUES (1)")) is not None
    database.close()


def test_a_failure_at_commit_is_of_unknown_outcome_and_leaves_no_open_transaction(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("CREATE TABLE t (x REFERENCES u (y) DEFERRABLE INITIALLY DEFERRED)")
    database.execute("CREATE TABLE u (y PRIMARY KEY)")
    with pytest.raises(JournalBroken):
        transact(database, lambda database: database.execute("INSERT INTO t VALUES (1)"))
    assert not database.in_transaction
    database.close()


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageReadOnly, match=r"absent/a\.db"):
        async with Journal.open(tmp_path / "absent" / "a.db"):
            raise AssertionError


async def test_a_storage_that_hangs_is_given_up_in_bounded_time_and_every_caller_answered() -> None:
    gate = Gate()
    store = FaultyStore(MemoryStore(b"0" * 16), before_write=gate)
    outcomes: dict[str, str] = {}

    async def attempt(journal: Journal, stream: str) -> None:
        try:
            await journal.append(stream, [Note(1)])
        except JournalError as error:
            outcomes[stream] = type(error).__name__

    async with trio.open_nursery() as nursery:  # noqa: SIM117 -- the callers outlive the block
        async with Journal.over(store, registry=REGISTRY, options=JournalOptions(close_timeout=0.01)) as journal:
            nursery.start_soon(attempt, journal, "in flight")
            await gate.reached.wait()
            nursery.start_soon(attempt, journal, "waiting")
            await wait_all_tasks_blocked()
        # The one that had been begun may have been written, the other certainly was not.
    assert outcomes == {"in flight": JournalBroken.__name__, "waiting": JournalClosed.__name__}
