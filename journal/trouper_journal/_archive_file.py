"""An archive file: its layout, and reading it. All of it runs in a thread; nothing here is asynchronous.

The rows of an archive are those of the journal that it came from, in tables of the same form, so that whatever reads
the one reads the other. It is not a journal: its positions have gaps, and nothing is ever appended.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from trouper_journal import _sqlite_rows as rows
from trouper_journal._archive_proof import Node, root_over
from trouper_journal._digest import FORMAT, leaf_digest
from trouper_journal._errors import JournalCorrupt, NotAJournal
from trouper_journal._printable import Plain
from trouper_journal._records import Record, StreamHead
from trouper_journal._sealed import checked_references, miscounted
from trouper_journal._sqlite_connection import translating
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal._sqlite_schema import EVENTS, LARGE, STREAM_COLUMNS
from trouper_journal._values import Reference

APPLICATION_ID: Final = 0x54525041
"""Marks the file as an archive (SQLite header, offset 68)."""

LAYOUT: Final = 1
"""Number of the table layout (SQLite header, ``user_version``)."""

PAGE: Final = 256
"""Records in one read."""

HASH_SIZE: Final = 32

TABLES: Final = f"""
CREATE TABLE archive (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id BLOB NOT NULL,
    journal BLOB NOT NULL,
    format INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
);
CREATE TABLE streams ({STREAM_COLUMNS},
    unit INTEGER NOT NULL
);
{EVENTS}{LARGE}CREATE INDEX large_domain ON large (domain);
CREATE TABLE proof (
    first INTEGER PRIMARY KEY,
    level INTEGER NOT NULL,
    hash BLOB NOT NULL
);
"""


@attrs.frozen(slots=False, repr=False, eq=False)
class ArchiveInfo(Plain):
    """What an archive says of itself.

    Attributes:
        id: Its 16 random bytes.
        journal_id: The id of the journal that its records came from.
        created_at: When it was made, ns UTC.
        size: How many records the journal had then.
        root: The root of the journal's Merkle tree over those.
    """

    id: bytes
    journal_id: bytes
    created_at: int
    size: int
    root: bytes


@attrs.frozen(slots=False, repr=False, eq=False)
class ArchiveCheck(Plain):
    """What checking an archive found; it is whole, or there would have been an error.

    Attributes:
        info: What it says of itself.
        records: How many records it holds.
        streams: How many streams they form.
        values: How many large values are with them.
    """

    info: ArchiveInfo
    records: int
    streams: int
    values: int


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like an archive, from its header alone; False also where it cannot be read."""
    try:
        with open(path, "rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header[:16] == b"SQLite format 3\0" and header[68:72] == APPLICATION_ID.to_bytes(4, "big")


@contextmanager
def reading(path: str) -> Iterator[tuple[sqlite3.Connection, ArchiveInfo]]:
    """Open an archive for reading, for the length of a block.

    Raises:
        NotAJournal: It is something else, or of a newer layout or format.
        JournalCorrupt: It is damaged.
        StorageUnreadable: It is not there, or cannot be read by this user.
    """
    with ReadOnlyFile(os.path.realpath(path)) as file:
        yield file.read(lambda database: (database, read_info(database, path)))


def read_info(database: sqlite3.Connection, path: str) -> ArchiveInfo:
    """What an opened archive says of itself.

    Raises:
        NotAJournal: It is something else, or of a newer layout or format.
        JournalCorrupt: It has lost what makes it an archive.
    """
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (layout,) = database.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise NotAJournal(f"{path} is not an archive of a Trouper journal: give another path")
    row = None
    if layout == LAYOUT:
        row = database.execute("SELECT id, journal, created_at, size, root, format FROM archive").fetchone()
        if row is None or tuple(map(type, row)) != (bytes, bytes, int, int, bytes, int):
            raise JournalCorrupt(f"{path} has lost what makes it an archive: take another copy of it")
    if row is None or row[-1] != FORMAT:
        raise NotAJournal(
            f"{path} is an archive of layout {layout}{'' if row is None else f', format {row[-1]}'}; this release "
            f"knows layout {LAYOUT}, format {FORMAT}: use the release for it"
        )
    return ArchiveInfo(*row[:-1])


def check(path: str, told: Callable[[int, int], None] = lambda _done, _total: None) -> ArchiveCheck:
    """Check every record of an archive: its leaf, its numbers, its large values; and all of them against the root.

    Args:
        path: The archive.
        told: Called after each page with the records checked and their total.

    Raises:
        NotAJournal, StorageUnreadable: As `reading`.
        JournalCorrupt: Something in it is not as it was; names the position.
    """
    with reading(path) as (database, info):
        checker = _Checker(database, info, told)
        root = translating(lambda: root_over(checker.nodes(), info.size), path)
        if root != info.root:
            raise JournalCorrupt(f"the records of {path} do not lead to the root that it names")
        return translating(checker.finish, path)


class _Checker:
    def __init__(self, database: sqlite3.Connection, info: ArchiveInfo, told: Callable[[int, int], None]) -> None:
        self._database = database
        self._info = info
        self._told = told
        self._streams: dict[str, StreamHead] = {}
        self._values: set[bytes] = set()
        self._records = 0

    def nodes(self) -> Iterator[Node]:
        """Leaves of the records, once checked, among the nodes of the proof, in order of position."""
        between = self._database.execute("SELECT first, level, hash FROM proof ORDER BY first")
        node = self._next(between)
        for record in self._all():
            while node is not None and node.first < record.position:
                yield node
                node = self._next(between)
            yield Node(record.position, 0, record.leaf)
        while node is not None:
            yield node
            node = self._next(between)

    def _next(self, between: sqlite3.Cursor) -> Node | None:
        row = between.fetchone()
        if row is None:
            return None
        if tuple(map(type, row)) != (int, int, bytes) or not 0 <= row[1] < 64 or len(row[2]) != HASH_SIZE:
            raise JournalCorrupt("the proof holds something else than nodes", row[0])
        return Node(*row)

    def _all(self) -> Iterator[Record]:
        (total,) = self._database.execute("SELECT count(*) FROM events").fetchone()
        position = 0
        while page := rows.read_events(self._database, position, PAGE):
            for record in page:
                # In a damaged file the order may be wrong, and reading would never end.
                if record.position <= position:
                    raise JournalCorrupt(f"it stands behind position {position}", record.position)
                position = record.position
                self._check(record)
                yield record
            self._records += len(page)
            self._told(self._records, total)
        if self._records != total:
            raise JournalCorrupt(f"{total - self._records} records belong to no stream")

    def _check(self, record: Record) -> None:
        try:
            leaf = leaf_digest(self._info.journal_id, record)
        except (struct.error, TypeError, AttributeError, ValueError):
            raise JournalCorrupt("a column has a value that cannot be hashed", record.position) from None
        if leaf != record.leaf:
            raise JournalCorrupt("the stored bytes do not have the recorded digest", record.position)
        seen = self._streams.get(record.stream)
        version = 0 if seen is None else seen.version
        if record.version != version + 1:
            raise JournalCorrupt(f"version {record.version} of {record.stream} follows {version}", record.position)
        label = record.label if record.label is not None or seen is None else seen.label
        self._streams[record.stream] = StreamHead(record.stream, record.version, record.position, label, record.wake_at)
        try:
            found = checked_references(record)
        except JournalCorrupt as error:
            raise JournalCorrupt(str(error), record.position) from None
        if (message := miscounted(record, found)) is not None:
            raise JournalCorrupt(message, record.position)
        for reference in found:
            self._check_value(reference, record.position)

    def _check_value(self, reference: Reference, position: int) -> None:
        digest = reference.digest
        if digest in self._values:
            return
        data = rows.read_values(self._database, [digest]).get(digest)
        if data is None or len(data) != reference.size or hashlib.sha256(data).digest() != digest:
            raise JournalCorrupt(f"the large value {digest.hex()} is missing, or not what it was", position)
        self._values.add(digest)

    def finish(self) -> ArchiveCheck:
        """Check what no record refers to in the open, and the indexes."""
        (said,) = self._database.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise JournalCorrupt(f"SQLite finds the archive damaged: {said}")
        for digest, data in self._database.execute("SELECT digest, data FROM large"):
            if digest not in self._values and (type(data) is not bytes or hashlib.sha256(data).digest() != digest):
                raise JournalCorrupt("a large value does not have its digest")
            self._values.add(digest)
        listed = 0
        for head in self._database.execute("SELECT name, version, position, label, wake_at FROM streams"):
            seen = self._streams.get(head[0])
            if seen is None or head != (seen.stream, seen.version, seen.position, seen.label, seen.wake_at):
                raise JournalCorrupt(f"the index of streams does not agree with the records of {head[0]}")
            listed += 1
        if listed != len(self._streams):
            raise JournalCorrupt("the index of streams lacks some that have records")
        return ArchiveCheck(self._info, self._records, listed, len(self._values))
