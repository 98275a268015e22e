"""Tombstones of archived records: their tables, made when first needed, and reading them in a journal's pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from trouper_journal._archived import marker
from trouper_journal._records import Record

TABLES: Final = """
CREATE TABLE archives (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    file TEXT NOT NULL,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
);
CREATE TABLE archived (
    position INTEGER PRIMARY KEY,
    stream_id INTEGER NOT NULL REFERENCES streams (id),
    version INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    leaf BLOB NOT NULL,
    archive INTEGER NOT NULL REFERENCES archives (number),
    UNIQUE (stream_id, version)
);
"""

GUARDS: Final = """
CREATE TRIGGER archives_update BEFORE UPDATE ON archives BEGIN
    SELECT RAISE(ABORT, 'archives are immutable');
END;
CREATE TRIGGER archives_delete BEFORE DELETE ON archives BEGIN
    SELECT RAISE(ABORT, 'archives are immutable');
END;
CREATE TRIGGER archived_update BEFORE UPDATE ON archived BEGIN
    SELECT RAISE(ABORT, 'tombstones are immutable');
END;
CREATE TRIGGER archived_delete BEFORE DELETE ON archived BEGIN
    SELECT RAISE(ABORT, 'tombstones are immutable');
END;
CREATE TRIGGER archived_insert BEFORE INSERT ON archived
WHEN NOT EXISTS (SELECT 1 FROM events WHERE position = NEW.position AND leaf = NEW.leaf)
    OR EXISTS (SELECT 1 FROM archived WHERE position = NEW.position) BEGIN
    SELECT RAISE(ABORT, 'tombstones are for records');
END;
DROP TRIGGER events_delete;
CREATE TRIGGER events_delete BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM archived WHERE position = OLD.position AND leaf = OLD.leaf) BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;
"""

_COLUMNS: Final = (
    "SELECT a.position, s.name, a.version, a.recorded_at, a.leaf, x.file, x.id FROM archived a "
    "JOIN streams s ON s.id = a.stream_id JOIN archives x ON x.number = a.archive WHERE"
)


def has_archived(database: sqlite3.Connection) -> bool:
    """Whether any record of the journal was ever archived."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'archived'"
    return database.execute(query).fetchone() is not None


def with_archived(database: sqlite3.Connection, after: int, limit: int, found: Sequence[Record]) -> list[Record]:
    """A page of all records with markers in the gaps between those that were found."""
    query = f"{_COLUMNS} a.position > ? AND a.position < ? ORDER BY a.position LIMIT ?"
    rows = database.execute(query, (after, found[-1].position, limit)).fetchall()
    merged: dict[int, Record] = {row[0]: marker(*row) for row in rows}
    # A record that is moved between the two reads is in both.
    merged.update((record.position, record) for record in found)
    return [merged[position] for position in sorted(merged)[:limit]]


def with_archived_of_stream(
    database: sqlite3.Connection, stream: str, after: int, limit: int, found: Sequence[Record]
) -> list[Record]:
    """A page of a stream's records with markers before those that were found: what is archived is its beginning."""
    query = f"{_COLUMNS} s.name = ? AND a.version > ? ORDER BY a.version LIMIT ?"
    rows = database.execute(query, (stream, after, limit)).fetchall()
    seen = {record.position for record in found}
    markers: list[Record] = [marker(*row) for row in rows if row[0] not in seen]
    return [*markers, *found][:limit]


def count_archived(database: sqlite3.Connection, *, prefix: str, after: int) -> list[tuple[bytes, int, int]]:
    """Of each archive its id, how many records behind a position went there, and how many streams of such a name."""
    if not has_archived(database):
        return []
    query = (
        "SELECT x.id, count(*), count(DISTINCT iif(substr(s.name, 1, ?1) = ?2, a.stream_id, NULL)) FROM archived a "
        "JOIN streams s ON s.id = a.stream_id JOIN archives x ON x.number = a.archive WHERE a.position > ?3 "
        "GROUP BY x.number"
    )
    return database.execute(query, (len(prefix), prefix, after)).fetchall()
