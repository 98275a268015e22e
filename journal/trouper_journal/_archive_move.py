"""Taking out of the journal what an archive holds: tombstone and deletion of a unit's records in one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final

import attrs

from trouper_journal import _sqlite_rows as rows
from trouper_journal._archive_file import ArchiveInfo, reading
from trouper_journal._archive_rows import GUARDS, TABLES, has_archived
from trouper_journal._errors import ArchiveRefused, JournalCorrupt, StorageBusy
from trouper_journal._printable import Plain
from trouper_journal._sqlite_connection import transact, translating
from trouper_journal._sqlite_schema import configure, statements_of
from trouper_journal._whole_file import remove_left

AT_ONCE: Final = 4096
"""About so many records are moved in one transaction, so that others do not wait long."""


@attrs.frozen(slots=False, repr=False, eq=False)
class Moved(Plain):
    """What was taken out of the journal.

    Attributes:
        records: How many records were moved now.
        already: How many had been moved before.
        kept: Streams of the archive that were left in the journal as well, because one of their unit may not leave, or
            something was appended to one since.
        stale: Whether it stopped early, because the journal has moved on.
    """

    records: int = 0
    already: int = 0
    kept: tuple[str, ...] = ()
    stale: bool = False


def move(path: str, archive: str, at: int, allowed: Callable[[str], bool], told: Callable[[int, int], None]) -> Moved:
    """Delete from the journal, unit by unit, what an archive holds, and leave tombstones.

    May be called again at any time, also after the process died within it: what was moved already is left alone.

    Args:
        path: The journal.
        archive: The archive, checked.
        at: The journal's last position as far as it was looked whether streams may leave; where it has moved on,
            nothing more is deleted.
        allowed: Whether a stream may leave; a unit leaves if all of its streams may.
        told: Called with the records moved and their total.

    Raises:
        ArchiveRefused: The archive is of another journal, its records are not those of this one, or one of them is
            the journal's last.
        StorageBusy, StorageFull, StorageReadOnly: Nothing more was deleted.
        JournalBroken: Whether the last unit was moved is not known; call it again.
    """
    # The name under which it was written, where the process died before it could be taken away.
    remove_left(archive)
    with reading(archive) as (source, info), closing(sqlite3.connect(path, isolation_level=None)) as database:
        translating(lambda: configure(database, synchronous="FULL", read_only=False), path)
        mover = _Mover(source, info, database, os.path.basename(archive), at)
        return mover.move(allowed, told)


def shrink(path: str) -> bool:
    """Give the space of what was deleted back; False where another process is using the file just now."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        try:
            translating(lambda: database.execute("VACUUM"), path)
            busy, *_ = translating(lambda: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone(), path)
        except StorageBusy:
            return False
        return not busy


class _Mover:
    def __init__(
        self, source: sqlite3.Connection, info: ArchiveInfo, database: sqlite3.Connection, file: str, at: int
    ) -> None:
        self._source = source
        self._info = info
        self._database = database
        self._file = file
        self._at = at

    def move(self, allowed: Callable[[str], bool], told: Callable[[int, int], None]) -> Moved:
        """Move all units that may leave."""
        query = "SELECT unit, name, version FROM streams ORDER BY unit, id"
        units: dict[int, list[tuple[str, int]]] = {}
        for unit, name, version in self._source.execute(query):
            units.setdefault(unit, []).append((name, version))
        total = sum(version for streams in units.values() for _, version in streams)
        self._check_journal()
        moved = already = done = 0
        kept: list[str] = []
        batch: list[list[str]] = []
        weight = 0
        for number, streams in enumerate(units.values(), 1):
            batch.append([name for name, _ in streams])
            weight += sum(version for _, version in streams)
            if weight < AT_ONCE and number < len(units):
                continue
            outcome = self._transact(partial(self._move_units, units=batch, allowed=allowed))
            if outcome.stale:
                return Moved(moved, already, tuple(kept), stale=True)
            moved, already = moved + outcome.records, already + outcome.already
            kept += outcome.kept
            done, weight, batch = done + weight, 0, []
            told(done, total)
        return Moved(moved, already, tuple(kept))

    def _transact(self, work: Callable[[sqlite3.Connection], Moved]) -> Moved:
        outcome = transact(self._database, work)
        if outcome is None:
            raise JournalCorrupt("the tombstones contradict each other: verify tells more")
        return outcome

    def _check_journal(self) -> None:
        (journal_id,) = translating(lambda: self._database.execute("SELECT id FROM journal").fetchone(), self._file)
        if journal_id != self._info.journal_id:
            raise ArchiveRefused(f"{self._file} holds records of another journal ({self._info.journal_id.hex()})")

    def _enter(self, database: sqlite3.Connection) -> int:
        """The archive's number, entered where it is not yet, in tables that are made where they are not there yet."""
        if not has_archived(database):
            for statement in statements_of(TABLES + GUARDS):
                database.execute(statement)
        query = "SELECT number FROM archives WHERE id = ?"
        row = database.execute(query, (self._info.id,)).fetchone()
        if row is None:
            info = self._info
            cells = (info.id, self._file, info.size, info.root)
            database.execute("INSERT INTO archives (id, file, size, root) VALUES (?, ?, ?, ?)", cells)
            row = database.execute(query, (info.id,)).fetchone()
        number: int = row[0]
        return number

    def _move_units(
        self, database: sqlite3.Connection, units: Sequence[Sequence[str]], allowed: Callable[[str], bool]
    ) -> Moved:
        if rows.read_head(database).position != self._at:
            return Moved(stale=True)
        moved = already = 0
        kept: list[str] = []
        for names in units:
            last = [self._last(database, name) for name in names]
            here = {name: self._here(database, name) for name in names}
            there = {name: self._there(name) for name in names}
            if not any(here.values()):
                already += sum(map(len, there.values()))
            elif here == there and all(map(allowed, names)):
                # That the journal's end is a record tells readers that it is the end.
                if self._at in last:
                    raise ArchiveRefused(
                        f"{names[0]} has the journal's last record, which stays: append something first"
                    )
                moved += self._move_unit(database, there)
            else:
                for name in names:
                    if here[name] and here[name][: len(there[name])] != there[name]:
                        raise ArchiveRefused(f"{self._file} has other records of {name} than the journal")
                kept += names
        return Moved(moved, already, tuple(kept))

    def _here(self, database: sqlite3.Connection, name: str) -> list[tuple[int, bytes]]:
        query = (
            "SELECT e.position, e.leaf FROM streams s JOIN events e ON e.stream_id = s.id WHERE s.name = ? "
            "ORDER BY e.version"
        )
        return database.execute(query, (name,)).fetchall()

    def _last(self, database: sqlite3.Connection, name: str) -> int:
        row = database.execute("SELECT position FROM streams WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise ArchiveRefused(f"{self._file} holds {name}, which the journal does not have")
        position: int = row[0]
        return position

    def _there(self, name: str) -> list[tuple[int, bytes]]:
        return self._here(self._source, name)

    def _move_unit(self, database: sqlite3.Connection, streams: Mapping[str, Collection[object]]) -> int:
        number = self._enter(database)
        for name in streams:
            (stream,) = database.execute("SELECT id FROM streams WHERE name = ?", (name,)).fetchone()
            database.execute(
                "INSERT INTO archived SELECT position, stream_id, version, recorded_at, leaf, ? FROM events "
                "WHERE stream_id = ? ORDER BY position",
                (number, stream),
            )
            database.execute("DELETE FROM events WHERE stream_id = ?", (stream,))
            # Only a cache, but one that holds what was said.
            database.execute("DELETE FROM snapshots WHERE stream_id = ?", (stream,))
            for (digest,) in self._source.execute("SELECT digest FROM large WHERE domain = ?", (name,)).fetchall():
                database.execute("INSERT OR IGNORE INTO tombstones VALUES (?)", (digest,))
                database.execute("DELETE FROM large WHERE digest = ? AND domain = ?", (digest, name))
        return sum(map(len, streams.values()))
