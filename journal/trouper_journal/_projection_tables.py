"""Where projections are kept: beside the journal's tables in its file, or in memory. Runs in the calling thread.

The connection is the projections' own, so that their work never stands before a commit in the storage's thread; it
commits without waiting for the disk, because what a power failure takes away is computed again. Tables and position
change in one transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar, cast, final

import attrs

from trouper_journal._errors import InvalidProjection, ProjectionOutdated
from trouper_journal._printable import Plain
from trouper_journal._projections import Cell, Entry, Projection, owns
from trouper_journal._sqlite_connection import translated

T = TypeVar("T")

_POSITIONS: Final = """
CREATE TABLE IF NOT EXISTS projections (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    leaf BLOB NOT NULL,
    missing INTEGER NOT NULL
)
"""

_TABLE_NAMES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~")

# What a statement of a projection may do, and to which table its first argument says so.
_TO_OWN: Final = frozenset({sqlite3.SQLITE_READ, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_HARMLESS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_CREATING: Final = frozenset({sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_REINDEX})
_CATALOGUES: Final = frozenset({"sqlite_master", "sqlite_schema"})


@attrs.frozen(slots=False, repr=False)
class Mark(Plain):
    """How far a projection has come.

    Attributes:
        position: Position of the last record that it has taken in; 0 for none.
        leaf: That record's leaf.
        missing: How many records up to there were not in the journal any more: archived, and so not taken in.
    """

    position: int = 0
    leaf: bytes = b""
    missing: int = 0


@final
class ProjectionTables:
    """One projection's tables.

    Args:
        projection: The projection.
        path: The journal's file; None for memory.
    """

    def __init__(self, projection: Projection, path: str | None) -> None:
        self._projection = projection
        self._own = owns(projection)
        self._mode = ""
        self._denied = ""
        if path is None:
            self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        else:
            name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(path))
            self._database = sqlite3.connect(
                f"file:{name}?mode=rw", uri=True, timeout=10.0, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    # ---- the position

    def begin(self, worthless: Mark | None = None) -> Mark:
        """Where to go on; everything is dropped first where it is of an older version, or not of these records.

        Args:
            worthless: How far it had come with what turned out to be other records; dropped if it still stands there.

        Raises:
            ProjectionOutdated: It was stored by a newer version.
            StorageBusy, StorageFull, StorageReadOnly, JournalCorrupt: It cannot be read or written.
        """
        found = self._translating(self._stored)
        if found is not None and found != worthless:
            return found
        return self._transaction(lambda: self._made_anew(worthless))

    def advance(self, before: Mark, after: Mark, entries: Sequence[Entry]) -> Mark | None:
        """Take records in, and the position with them; where another process has moved it, only say where it stands.

        Returns:
            Where it stands now; None where the tables are gone.

        Raises:
            InvalidProjection: It touches other tables than its own.
            ProjectionOutdated, StorageBusy, StorageFull, StorageReadOnly, JournalCorrupt: Nothing was written.
        """

        def work() -> Mark | None:
            now = self._stored()
            if now is None or now.position != before.position:
                return now
            if entries:
                with self._limited("applying"):
                    self._projection.apply(self, entries)
            self._database.execute(
                "UPDATE projections SET position = ?, leaf = ?, missing = ? WHERE name = ?",
                (after.position, after.leaf, after.missing, self._projection.name),
            )
            return after

        return self._transaction(work)

    def query(self, sql: str, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """Rows of a statement that only reads the projection's own tables.

        Raises:
            InvalidProjection: It does something else.
        """

        def work() -> list[tuple[Cell, ...]]:
            with self._limited("reading"):
                return self.execute(sql, cells)

        return self._translating(work)

    def execute(self, sql: str, cells: Sequence[Cell] = ()) -> list[tuple[Cell, ...]]:
        """Run one statement of the projection's."""
        return cast("list[tuple[Cell, ...]]", self._database.execute(sql, cells).fetchall())

    def _stored(self) -> Mark | None:
        """The mark, if the tables are there and of this very version."""
        if ("projections",) not in self._database.execute(_TABLE_NAMES).fetchall():
            return None
        row = self._database.execute(
            "SELECT version, position, leaf, missing FROM projections WHERE name = ?", (self._projection.name,)
        ).fetchone()
        if row is None:
            return None
        version, *mark = row
        if version > self._projection.version:
            raise ProjectionOutdated(self._projection.name, self._projection.version, version)
        return Mark(*mark) if version == self._projection.version else None

    def _made_anew(self, worthless: Mark | None) -> Mark:
        # Another process may have done so, while this one waited for the lock.
        found = self._stored()
        if found is not None and found != worthless:
            return found
        database, projection = self._database, self._projection
        database.execute(_POSITIONS)
        for (name,) in database.execute(_TABLE_NAMES).fetchall():
            if self._own(name):
                database.execute(f'DROP TABLE "{name}"')
        with self._limited("creating"):
            for statement in projection.schema:
                database.execute(statement)
        database.execute(
            "INSERT OR REPLACE INTO projections VALUES (?, ?, 0, x'', 0)", (projection.name, projection.version)
        )
        return Mark()

    # ---- transactions and errors

    def _transaction(self, work: Callable[[], T]) -> T:
        def whole() -> T:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                result = work()
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
            return result

        return self._translating(whole)

    def _translating(self, work: Callable[[], T]) -> T:
        self._denied = ""
        try:
            return work()
        except sqlite3.Error as error:
            if self._denied:
                own = f"projection_{self._projection.name}"
                raise InvalidProjection(
                    f"projection {self._projection.name} may not touch {self._denied}: "
                    f"only tables called {own} or {own}_... are its own"
                ) from error
            raise translated(error, f"the tables of projection {self._projection.name}") from error

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """SQLite asks this about each part of a statement that it prepares."""
        if not self._mode or action in _HARMLESS:
            return sqlite3.SQLITE_OK
        table = second if action == sqlite3.SQLITE_CREATE_INDEX else first
        if table is not None and self._own(table):
            if action in _TO_OWN and (self._mode != "reading" or action == sqlite3.SQLITE_READ):
                return sqlite3.SQLITE_OK
            if action in _CREATING and self._mode == "creating":
                return sqlite3.SQLITE_OK
        # Creating writes to the catalogue, and names indexes after nothing of ours.
        if self._mode == "creating" and (first in _CATALOGUES or action == sqlite3.SQLITE_REINDEX):
            return sqlite3.SQLITE_OK
        self._denied = first or "the database itself"
        return sqlite3.SQLITE_DENY

    @contextmanager
    def _limited(self, mode: str) -> Iterator[None]:
        """For the length of the block, statements are the projection's."""
        # Set anew, so that statements which were prepared before are asked about again.
        self._database.set_authorizer(self._authorize)
        self._mode = mode
        try:
            yield
        finally:
            self._mode = ""
