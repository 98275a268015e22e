"""Writing an archive: copies of whole streams, and the proof that they are what the journal's tree has there."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from typing import Final

from trouper_journal import _sqlite_rows as rows
from trouper_journal._archive_file import APPLICATION_ID, LAYOUT, TABLES, check
from trouper_journal._archive_proof import Gap, Node
from trouper_journal._archive_rows import has_archived
from trouper_journal._digest import FORMAT
from trouper_journal._errors import ArchiveRefused, JournalCorrupt
from trouper_journal._merkle import CompactRange
from trouper_journal._sealed import checked_references
from trouper_journal._sqlite_connection import translating
from trouper_journal._sqlite_schema import statements_of
from trouper_journal._whole_file import give_name, sync_file, sync_folder, unfinished

PAGE: Final = 2048
"""Leaves in one read."""

Told = Callable[[int, int], None]


def write_archive(
    path: str, target: str, units: Sequence[Collection[str]], *, new_id: bytes, now: int, told: Told
) -> None:
    """Copy streams into a new file, check it, and give it its name.

    It is written under another name and renamed at the very end, so that a file called ``target`` is always whole.

    Args:
        path: The journal.
        target: The archive.
        units: Names of streams; those of a unit leave together or not at all.
        new_id: 16 random bytes.
        now: Time of creation, ns UTC.
        told: Called with the positions passed and their total.

    Raises:
        ArchiveRefused: There is something at ``target``; a stream does not exist, or is archived already.
        JournalCorrupt: The journal does not agree with its own root: it is not archived before that is put right.
    """
    if os.path.lexists(target):
        raise ArchiveRefused(f"{target} is there already: give another path")
    with unfinished(target, mode=0o644) as part:
        translating(lambda: _write(path, part, units, new_id, now, told), path)
        sync_file(part)
        check(part)
        try:
            give_name(part, target)
        except FileExistsError:
            raise ArchiveRefused(f"{target} is there already: give another path") from None
        sync_folder(target)


def _write(path: str, part: str, units: Sequence[Collection[str]], new_id: bytes, now: int, told: Told) -> None:
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as source,
        closing(sqlite3.connect(part, isolation_level=None)) as archive,
    ):
        source.execute("PRAGMA query_only = ON")
        archive.execute("PRAGMA journal_mode = MEMORY")
        archive.execute("PRAGMA synchronous = FULL")
        # One view of the journal, from the first read to the last.
        source.execute("BEGIN")
        archive.execute("BEGIN")
        for statement in statements_of(TABLES):
            archive.execute(statement)
        archive.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        archive.execute(f"PRAGMA user_version = {LAYOUT}")
        head = rows.read_head(source)
        (journal_id,) = source.execute("SELECT id FROM journal").fetchone()
        root = CompactRange.from_bytes(head.range).root()
        archive.execute(
            "INSERT INTO archive VALUES (1, ?, ?, ?, ?, ?, ?)", (new_id, journal_id, FORMAT, now, head.position, root)
        )
        copier = _Copier(source, archive, units, head.position)
        copier.copy(told)
        archive.execute("COMMIT")
        source.execute("ROLLBACK")


class _Copier:
    def __init__(
        self, source: sqlite3.Connection, archive: sqlite3.Connection, units: Sequence[Collection[str]], size: int
    ) -> None:
        self._source = source
        self._archive = archive
        self._size = size
        self._names: set[str] = set()
        self._ids: set[int] = set()
        self._values: set[bytes] = set()
        self._gap = Gap()
        for number, names in enumerate(units, 1):
            for name in names:
                self._take(name, number)

    def _take(self, name: str, unit: int) -> None:
        query = "SELECT id, name, version, position, label, wake_at FROM streams WHERE name = ?"
        row = self._source.execute(query, (name,)).fetchone()
        if row is None:
            raise ArchiveRefused(f"there is no stream {name}: nothing was archived")
        here = self._source.execute("SELECT count(*) FROM events WHERE stream_id = ?", (row[0],)).fetchone()[0]
        if here != row[2]:
            raise ArchiveRefused(f"{name} has {row[2]} records, of which {here} are here: nothing was archived")
        if name not in self._names:
            self._archive.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, unit))
            self._names.add(name)
            self._ids.add(row[0])

    def copy(self, told: Told) -> None:
        """Copy records and large values; what stays is passed over and goes into the proof."""
        for position, stream, leaf in self._leaves(told):
            if stream in self._ids:
                self._prove(self._gap.close())
                self._copy_record(position)
            else:
                self._gap.add(position, leaf)
        self._prove(self._gap.close())
        for digest, domain in self._source.execute("SELECT digest, domain FROM large"):
            if domain in self._names:
                self._copy_value(digest, domain)

    def _leaves(self, told: Told) -> Iterator[tuple[int, int, bytes]]:
        """All leaves of the journal, in order; stream 0 for those that are in other archives."""
        here = "SELECT position, stream_id, leaf FROM events WHERE position > ?1"
        moved = " UNION ALL SELECT position, 0, leaf FROM archived WHERE position > ?1"
        query = f"{here}{moved if has_archived(self._source) else ''} ORDER BY position LIMIT ?2"
        position = 0
        while page := self._source.execute(query, (position, PAGE)).fetchall():
            for row in page:
                if row[0] != position + 1 or type(row[2]) is not bytes:
                    raise JournalCorrupt("it does not follow the one before; verify tells more", row[0])
                position += 1
                yield row
            told(position, self._size)

    def _prove(self, nodes: Sequence[Node]) -> None:
        self._archive.executemany(
            "INSERT INTO proof VALUES (?, ?, ?)", [(node.first, node.level, node.hash) for node in nodes]
        )

    def _copy_record(self, position: int) -> None:
        row = self._source.execute("SELECT * FROM events WHERE position = ?", (position,)).fetchone()
        self._archive.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 -- question marks
        (record,) = rows.read_events(self._source, position - 1, 1)
        for known in checked_references(record):
            # Also where it is another domain's, and stays in the journal, too.
            query = "SELECT digest, domain FROM large WHERE digest = ?"
            for digest, domain in self._source.execute(query, (known.digest,)).fetchall():
                self._copy_value(digest, domain)

    def _copy_value(self, digest: bytes, domain: str) -> None:
        if digest in self._values:
            return
        self._values.add(digest)
        query = "SELECT digest, domain, data FROM large WHERE digest = ? AND domain = ?"
        row = self._source.execute(query, (digest, domain)).fetchone()
        self._archive.execute("INSERT INTO large VALUES (?, ?, ?)", row)
