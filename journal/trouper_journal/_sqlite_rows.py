"""Statements of the SQLite store: records to rows and back, in the connection's thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from trouper_journal._archive_rows import has_archived, with_archived, with_archived_of_stream
from trouper_journal._errors import JournalCorrupt
from trouper_journal._records import KeyEntry, Record, Snapshot, StreamHead
from trouper_journal._sqlite_connection import is_undecodable
from trouper_journal._sqlite_index import SOUND
from trouper_journal._store import Batch, Head, Known

_MAX_IDS = 20_000
_COLUMNS = (
    "e.position, s.name, e.version, e.type, e.schema, e.recorded_at, e.key, e.label, e.wake_at, e.key_id, "
    "e.meta, e.facts, ifnull(e.content, x''), e.leaf, ifnull(e.large, 0)"
)
_READ_ALL = (
    f"SELECT {_COLUMNS} FROM events e JOIN streams s ON s.id = e.stream_id "  # noqa: S608 -- made of the constant above
    "WHERE e.position > ? ORDER BY e.position LIMIT ?"
)
_READ_AT = (
    f"SELECT {_COLUMNS} FROM json_each(?) p JOIN events e ON e.position = p.value "  # noqa: S608 -- made of the constant above
    "JOIN streams s ON s.id = e.stream_id"
)
_READ_STREAM = (
    f"SELECT {_COLUMNS} FROM streams s JOIN events e ON e.stream_id = s.id "  # noqa: S608 -- made of the constant above
    "WHERE s.name = ? AND e.version > ? ORDER BY e.version LIMIT ?"
)
_HEADS = "name, version, position, label, wake_at"
_READ_HEAD = f"SELECT {_HEADS} FROM streams WHERE name = ?"  # noqa: S608 -- made of the constant above
_EVENT = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPSERT = (
    " ON CONFLICT (id) DO UPDATE SET version = excluded.version, position = excluded.position, "
    "label = ifnull(excluded.label, label), wake_at = excluded.wake_at"
)
_UPDATE = "UPDATE streams SET version = ?, position = ?, label = ifnull(?, label), wake_at = ? WHERE id = ?"

Cell = int | str | bytes | None


class StreamIds:
    """Ids of the streams written of late; belongs to the writing connection's thread."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def find(self, database: sqlite3.Connection, names: Collection[str]) -> dict[str, int]:
        """The ids of the streams among ``names`` that exist."""
        found: dict[str, int] = {}
        for name in names:
            known = self._ids.get(name)
            if known is None:
                row = database.execute("SELECT id FROM streams WHERE name = ?", (name,)).fetchone()
                if row is None:
                    continue
                known = row[0]
            found[name] = known
        return found

    def keep(self, ids: dict[str, int]) -> None:
        """Remember ids once they are committed."""
        self._ids.update(ids)
        while len(self._ids) > _MAX_IDS:
            del self._ids[next(iter(self._ids))]


def write_batch(database: sqlite3.Connection, batch: Batch, known_ids: StreamIds) -> dict[str, int] | None:
    """Write a batch inside of a transaction; the ids of its streams, or None where its base no longer stands."""
    base, head = batch.base, batch.head
    moved = database.execute(
        "UPDATE head SET position = ?, epoch = ?, range = ? WHERE position = ? AND epoch = ?",
        (head.position, head.epoch, head.range, base.position, base.epoch),
    )
    if moved.rowcount != 1 or _any_exists(database, batch.keys):
        return None
    labels: dict[str, str | None] = {}
    last: dict[str, Record] = {}
    fresh: dict[str, int] = {}
    for record in batch.records:
        stream = record.stream
        last[stream] = record
        if record.label is not None:
            labels[stream] = record.label
        if record.version == 1:
            fresh[stream] = record.position
    ids = known_ids.find(database, [name for name in last if name not in fresh] if fresh else last)
    changed = [
        (at, name, last[name].version, last[name].position, labels.get(name), last[name].wake_at)
        for name, at in ids.items()
    ]
    begun = [
        (at, name, last[name].version, last[name].position, labels.get(name), last[name].wake_at)
        for name, at in fresh.items()
    ]
    ids.update(fresh)
    if len(ids) != len(last):
        raise JournalCorrupt(f"the index of streams lacks {min(last.keys() - ids.keys())}, which has records")
    _insert(database, f"streams (id, {_HEADS})", "(?, ?, ?, ?, ?, ?)", begun)
    if len(changed) == 1:
        at, _, *heads = changed[0]
        database.execute(_UPDATE, (*heads, at))
    else:
        _insert(database, f"streams (id, {_HEADS})", "(?, ?, ?, ?, ?, ?)", changed, _UPSERT)
    _insert(database, "events", _EVENT, [_event_cells(record, ids[record.stream]) for record in batch.records])
    _insert(database, "keys", "(?, ?, ?, ?)", [(key.name, key.digest, key.first, key.last) for key in batch.keys])
    _insert(database, "large", "(?, ?, ?)", [(value.digest, value.domain, value.data) for value in batch.values])
    return ids


def load(database: sqlite3.Connection, streams: Collection[str], keys: Collection[str]) -> Known:
    """The head and the named streams and keys, in one read transaction."""
    database.execute("BEGIN")
    try:
        return load_here(database, streams, keys)
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def load_here(database: sqlite3.Connection, streams: Collection[str], keys: Collection[str]) -> Known:
    """The head and the named streams and keys, inside of a transaction."""
    head = read_head(database)
    heads: dict[str, StreamHead] = {}
    entries: dict[str, KeyEntry] = {}
    for name in streams:
        row = database.execute(_READ_HEAD, (name,)).fetchone()
        if row is not None:
            heads[name] = _head_of(row)
    for name in keys:
        row = database.execute("SELECT name, digest, first, last FROM keys WHERE name = ?", (name,)).fetchone()
        if row is not None:
            entries[name] = _entry_of(row)
    return Known(head, heads, entries)


def read_head(database: sqlite3.Connection) -> Head:
    """Where the journal stands."""
    row = database.execute("SELECT position, epoch, range FROM head").fetchone()
    if row is None:
        raise JournalCorrupt("the journal's head is missing: restore the file from a backup")
    position, epoch, tree = row
    if type(position) is not int or type(epoch) is not int or type(tree) is not bytes:
        raise JournalCorrupt("the journal's head is not numbers and bytes: restore the file from a backup")
    if position < 0:
        raise JournalCorrupt(f"the journal's head is at position {position}: restore the file from a backup")
    return Head(position, epoch, tree)


def read_stream_head(database: sqlite3.Connection, name: str) -> StreamHead | None:
    """Where a stream stands; None where there is no such stream."""
    row = database.execute(_READ_HEAD, (name,)).fetchone()
    return None if row is None else _head_of(row)


def read_stream(database: sqlite3.Connection, stream: str, after: int, limit: int) -> list[Record]:
    """A page of a stream's records, with markers for those that were archived."""
    found = _records(database, _READ_STREAM, (stream, after, limit))
    last = found[-1].version if found else 0
    if found:
        _check_ascending(last, after)
    # Versions have no gaps, so that whether some were archived shows without a look at their tombstones.
    if (found and type(last) is int and last - after == len(found)) or not has_archived(database):
        return found
    return with_archived_of_stream(database, stream, after, limit, found)


def read_events(database: sqlite3.Connection, after: int, limit: int) -> list[Record]:
    """A page of all records that are here."""
    found = _records(database, _READ_ALL, (after, limit))
    if found:
        _check_ascending(found[-1].position, after)
    return found


def read_at(database: sqlite3.Connection, positions: Collection[int]) -> list[Record]:
    """Those of the records at some positions that are here."""
    return _records(database, _READ_AT, (json.dumps([*positions]),))


def read_all(database: sqlite3.Connection, after: int, limit: int) -> list[Record]:
    """A page of all records, with markers for those that were archived."""
    found = read_events(database, after, limit)
    # The last record of a journal is never archived, so that an empty page is the end.
    if not found or found[-1].position - after == len(found) or not has_archived(database):
        return found
    return with_archived(database, after, limit, found)


def list_streams(
    database: sqlite3.Connection,
    *,
    label: str | None,
    prefix: str,
    wake_before: int | None,
    after: str,
    limit: int,
    sound: bool = False,
) -> list[StreamHead]:
    """A page of stream heads in order of creation; with ``sound``, rows that are none are passed over."""
    # A sign before a column keeps SQLite from going by its index. Few streams are due, so the index on what is due
    # comes first; else the order of creation does, because the index on names would have all of them sorted.
    column = "id" if wake_before is None else "+id"
    wheres = [f"{column} > ?"]
    begin = _id_of(database, after) if after else 0
    cells: list[Cell] = [begin]
    if label is not None:
        wheres.append("label = ?")
        cells.append(label)
    if wake_before is not None:
        wheres.append("wake_at <= ?")
        cells.append(wake_before)
    if prefix:
        wheres.append("substr(name, 1, ?) = ?")
        cells += [len(prefix), prefix]
    if sound:
        wheres.append(SOUND)
    where = " AND ".join(wheres)
    query = f"SELECT id, {_HEADS} FROM streams WHERE {where} ORDER BY {column} LIMIT ?"  # noqa: S608 -- made of the constants above
    rows = database.execute(query, (*cells, limit)).fetchall()
    if rows:
        _check_ascending(rows[-1][0], begin)
    return [_head_of(row[1:]) for row in rows]


def _id_of(database: sqlite3.Connection, stream: str) -> int:
    row = database.execute("SELECT id FROM streams WHERE name = ?", (stream,)).fetchone()
    if row is None:
        raise JournalCorrupt(f"the index of streams lacks {stream}, which it lists")
    found: int = row[0]
    return found


def _check_ascending(last: object, after: int) -> None:
    """Refuse rows of a damaged tree that lead back: whoever goes on behind the last of them would never come to an end.

    Raises:
        JournalCorrupt: They do.
    """
    if type(last) is int and last <= after:
        raise JournalCorrupt(f"SQLite finds {last} behind {after}: the file is damaged")


def next_wake(database: sqlite3.Connection, *, after: int) -> int | None:
    """The earliest alarm later than ``after``."""
    row = database.execute("SELECT min(wake_at) FROM streams WHERE wake_at > ?", (after,)).fetchone()
    moment: int | None = row[0]
    return moment


def read_values(database: sqlite3.Connection, digests: Collection[bytes]) -> dict[bytes, bytes]:
    """Large values by digest."""
    found: dict[bytes, bytes] = {}
    for digest in digests:
        row = database.execute("SELECT data FROM large WHERE digest = ? LIMIT 1", (digest,)).fetchone()
        if row is not None:
            if type(row[0]) is not bytes:
                raise JournalCorrupt(f"the large value {digest.hex()} is not bytes")
            found[digest] = row[0]
    return found


def load_snapshot(database: sqlite3.Connection, stream: str) -> Snapshot | None:
    """The snapshot of a stream, if any."""
    row = database.execute(
        "SELECT s.name, n.version, n.leaf, n.fingerprint, n.state FROM streams s "
        "JOIN snapshots n ON n.stream_id = s.id WHERE s.name = ?",
        (stream,),
    ).fetchone()
    if row is None:
        return None
    snapshot = Snapshot(*row)
    if type(snapshot.version) is not int or type(snapshot.state) is not bytes:
        raise JournalCorrupt(f"the snapshot of {stream} is not a number and bytes")
    return snapshot


def save_snapshot(database: sqlite3.Connection, snapshot: Snapshot | None, stream: str) -> bool:
    """Replace or drop the snapshot of a stream, inside of a transaction."""
    database.execute("DELETE FROM snapshots WHERE stream_id = (SELECT id FROM streams WHERE name = ?)", (stream,))
    if snapshot is not None:
        database.execute(
            "INSERT INTO snapshots SELECT id, ?, ?, ?, ? FROM streams WHERE name = ?",
            (snapshot.version, snapshot.leaf, snapshot.fingerprint, snapshot.state, stream),
        )
    return True


def _records(database: sqlite3.Connection, query: str, cells: tuple[Cell, ...]) -> list[Record]:
    """A page of records.

    Raises:
        JournalCorrupt: Text of one of them is not UTF-8; names the position.
    """
    try:
        return [Record(*row) for row in database.execute(query, cells).fetchall()]
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if not is_undecodable(error):
            raise
        position = _first_undecodable(database, query, cells)
    raise JournalCorrupt("the record holds text that is not UTF-8", position)


class _Text(bytes):
    """What is stored as text, undecoded."""


def _first_undecodable(database: sqlite3.Connection, query: str, cells: tuple[Cell, ...]) -> int | None:
    database.text_factory = _Text
    try:
        for row in database.execute(query, cells):
            try:
                for cell in row:
                    if type(cell) is _Text:
                        cell.decode()
            except UnicodeDecodeError:
                position: int = row[0]
                return position
    finally:
        database.text_factory = str
    return None


def _head_of(row: tuple[str, int, int, str | None, int | None]) -> StreamHead:
    head = StreamHead(*row)
    if (
        type(head.stream) is not str
        or type(head.version) is not int
        or type(head.position) is not int
        or (head.label is not None and type(head.label) is not str)
        or (head.wake_at is not None and type(head.wake_at) is not int)
    ):
        position = head.position if type(head.position) is int and head.position > 0 else None
        raise JournalCorrupt("a row of the index of streams holds what none has there", position)
    return head


def _entry_of(row: tuple[str, bytes, int, int]) -> KeyEntry:
    entry = KeyEntry(*row)
    if type(entry.first) is not int or type(entry.last) is not int or type(entry.digest) is not bytes:
        raise JournalCorrupt(f"the index of keys holds no digest and numbers for {entry.name}")
    return entry


def _any_exists(database: sqlite3.Connection, keys: Sequence[KeyEntry]) -> bool:
    return any(database.execute("SELECT 1 FROM keys WHERE name = ?", (key.name,)).fetchone() for key in keys)


def _event_cells(record: Record, stream_id: int) -> tuple[Cell, ...]:
    return (
        record.position,
        stream_id,
        record.version,
        record.type,
        record.schema,
        record.recorded_at,
        record.key,
        record.label,
        record.wake_at,
        record.key_id,
        record.meta,
        record.facts,
        record.content or None,
        record.leaf,
        record.large or None,
    )


def _insert(
    database: sqlite3.Connection, table: str, row: str, rows: Sequence[tuple[Cell, ...]], tail: str = ""
) -> None:
    """Insert rows by statements of at most 64 of them, in powers of two.

    Each executed statement gives the interpreter's lock up and waits for it again; with a busy event loop that
    costs more than the statement. Few sizes keep all of them in the cache of prepared statements.
    """
    for part in _parts(rows):
        database.execute(f"INSERT INTO {table} VALUES {', '.join([row] * len(part))}{tail}", tuple(chain(*part)))  # noqa: S608 -- made of the constants above


def _parts(rows: Sequence[tuple[Cell, ...]]) -> Iterator[Sequence[tuple[Cell, ...]]]:
    at = 0
    for size in (64, 32, 16, 8, 4, 2, 1):
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size
