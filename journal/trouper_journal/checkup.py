"""The health of a journal's file as SQLite sees it, below what ``verify`` proves."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import attrs

from trouper_journal._archive_store import ArchivedStore
from trouper_journal._errors import JournalCorrupt
from trouper_journal._journal import Journal
from trouper_journal._printable import Plain
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore
from trouper_journal._sqlite_schema import table_layout

MAX_COMPLAINTS: Final = 20
_PAGE: Final = 1000


@attrs.frozen(slots=False, repr=False, eq=False)
class FileHealth(Plain):
    """What was found.

    Attributes:
        complaints: What SQLite's own check says is wrong, the first of it.
        missing: Tables, indexes and triggers of the layout that are not there.
        disarmed: Triggers that no longer refuse what they are there to refuse.
        size: Bytes of the file.
        log: Bytes of the log beside it; None where there is none.
        mode: The file's permission bits.
    """

    complaints: tuple[str, ...]
    missing: tuple[str, ...]
    disarmed: tuple[str, ...]
    size: int
    log: int | None
    mode: int


async def check_file(journal: Journal) -> FileHealth:
    """Check the file of a journal that was opened for reading only.

    Reads the whole file. Says nothing about what the records say; nothing that is stored is quoted.

    Raises:
        TypeError: The journal was not opened with ``read_only=True``.
        StorageBusy, JournalCorrupt, JournalBroken: It cannot be read.
    """
    store = _store(journal)
    complaints = await store.query(_complaints)
    missing, disarmed = await store.query(_guards)
    path = store.path
    state = _stat(path)
    log = _stat(f"{path}-wal")
    return FileHealth(
        complaints,
        missing,
        disarmed,
        0 if state is None else state.st_size,
        None if log is None else log.st_size,
        0 if state is None else state.st_mode & 0o777,
    )


async def stored_values(journal: Journal) -> AsyncIterator[tuple[bytes, int]]:
    """Digest and size of each large value that is stored, in the order in which they were.

    Raises:
        TypeError: The journal was not opened with ``read_only=True``.
        StorageBusy, JournalCorrupt, JournalBroken: It cannot be read.
    """
    store = _store(journal)
    last = 0
    while page := await store.query(partial(_values, after=last)):
        for _, digest, size in page:
            yield digest, size
        if page[-1][0] <= last:
            raise JournalCorrupt("the table of large values is damaged: its rows lead back")
        last = page[-1][0]


def _store(journal: Journal) -> ReadOnlySQLiteStore:
    store = journal.store
    if isinstance(store, ArchivedStore):
        store = store.inner
    if not isinstance(store, ReadOnlySQLiteStore):
        raise TypeError("open the journal's file with read_only=True to have it checked")
    return store


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _complaints(database: sqlite3.Connection) -> tuple[str, ...]:
    try:
        rows = database.execute(f"PRAGMA integrity_check({MAX_COMPLAINTS})").fetchall()
    except sqlite3.DatabaseError as error:
        return (f"the check itself failed: {error}",)
    return tuple(str(row[0]) for row in rows if row[0] != "ok")


def _guards(database: sqlite3.Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    rows = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    there = {name for _, name, _ in rows}
    missing = tuple(sorted(set(table_layout()) - there))
    disarmed = tuple(sorted(name for kind, name, sql in rows if kind == "trigger" and "RAISE(" not in sql))
    return missing, disarmed


def _values(database: sqlite3.Connection, *, after: int) -> list[tuple[int, bytes, int]]:
    return database.execute(
        "SELECT rowid, digest, length(data) FROM large WHERE rowid > ? ORDER BY rowid LIMIT ?", (after, _PAGE)
    ).fetchall()
