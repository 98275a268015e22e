"""The health of a journal's file as SQLite sees it, below what ``verify`` proves."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import attrs

from trouper_journal import _archive_rows
from trouper_journal._archive_store import ArchivedStore
from trouper_journal._errors import JournalCorrupt
from trouper_journal._journal import Journal
from trouper_journal._printable import Plain
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore
from trouper_journal._sqlite_schema import layout_of, plain_sql, table_layout

MAX_COMPLAINTS: Final = 20
_PAGE: Final = 1000


@attrs.frozen(slots=False, repr=False, eq=False)
class FileHealth(Plain):
    """What was found.

    Attributes:
        complaints: What SQLite's own check says is wrong, the first of it.
        missing: Tables, indexes and triggers of the layout that are not there.
        altered: Those that are there, and are not as the layout has them.
        strange: What is none of a journal's: other tables, indexes, triggers and views.
        size: Bytes of the file.
        log: Bytes of the log beside it; None where there is none.
        mode: The file's permission bits.
    """

    complaints: tuple[str, ...]
    missing: tuple[str, ...]
    altered: tuple[str, ...]
    strange: tuple[str, ...]
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
    missing, altered, strange = await store.query(_guards)
    path = store.path
    state = _stat(path)
    log = _stat(f"{path}-wal")
    return FileHealth(
        complaints,
        missing,
        altered,
        strange,
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


def _guards(database: sqlite3.Connection) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names of what is missing, of what is not as the layout has it, and of what is none of a journal's."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    there = {str(name): plain_sql(str(sql)) for name, sql in rows}
    own = table_layout()
    archives = layout_of(_archive_rows.TABLES + _archive_rows.GUARDS)
    missing = sorted(own.keys() - there.keys())
    known = own.keys() | archives.keys()
    altered = sorted(
        name for name, sql in there.items() if name in known and sql not in {own.get(name), archives.get(name)}
    )
    strange = sorted(name for name, sql in there.items() if name not in known and not _is_projection(name, sql))
    return tuple(missing), tuple(altered), tuple(strange)


def _is_projection(name: str, sql: str) -> bool:
    """Whether it is a table of projections, which are kept beside a journal's own."""
    return name.startswith("projection") and sql.startswith(("CREATE TABLE", "CREATE INDEX", "CREATE UNIQUE INDEX"))


def _values(database: sqlite3.Connection, *, after: int) -> list[tuple[int, bytes, int]]:
    return database.execute(
        "SELECT rowid, digest, length(data) FROM large WHERE rowid > ? ORDER BY rowid LIMIT ?", (after, _PAGE)
    ).fetchall()
