"""A journal's storage in an SQLite file, through aiosqlite on Trio.

Two connections, each with a thread of its own: one writes, one reads in short pages that never hold the
write-ahead log back. Every operation is one hop into a thread, and one transaction there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from trouper_journal import _sqlite_rows as rows
from trouper_journal._errors import JournalBroken, JournalClosed, JournalCorrupt
from trouper_journal._options import JournalOptions
from trouper_journal._records import Record, Snapshot, StreamHead
from trouper_journal._sqlite_connection import NO_LOOP, Answer, transact, translating
from trouper_journal._sqlite_files import OpenFiles
from trouper_journal._sqlite_log import refuse_foreign_log
from trouper_journal._sqlite_schema import configure, set_up
from trouper_journal._store import Batch, Known

if TYPE_CHECKING:
    import aiosqlite

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class SQLiteStore:
    """The store over an opened file; made by ``SQLiteHost``."""

    def __init__(self, path: str, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        import trio_asyncio

        self.path = path
        self._current_loop = trio_asyncio.current_loop
        self._token = trio.lowlevel.current_trio_token()
        self._writer = writer
        self._reader = reader
        self._ids = rows.StreamIds()
        self._id = b""
        self._files: OpenFiles | None = None
        self._closed = False

    async def prepare(self, options: JournalOptions, new_id: bytes, now: int) -> None:
        """Create or check the file and set both connections up."""
        level = options.durability.upper()

        def first(database: sqlite3.Connection) -> bytes:
            refuse_foreign_log(self.path)
            return translating(lambda: set_up(database, self.path, level, new_id, now), self.path)

        self._id = await self._hop(self._writer, first)
        await self._read(lambda database: configure(database, synchronous=level, read_only=True))
        self._files = OpenFiles(self.path)

    async def finish(self) -> None:
        """Take no more calls, and fold the write-ahead log into the file, unless another process is using it."""
        self._closed = True
        await self._call(self._writer, _checkpoint)

    @property
    def journal_id(self) -> bytes:
        """The journal's 16 random bytes."""
        return self._id

    @property
    def source(self) -> str:
        """The file, for worker processes that read it."""
        return self.path

    async def scan(self, work: Work[T]) -> T:
        """Carry out work that only reads, in the thread that reads."""
        return await self._read(work)

    def write(self, batch: Batch) -> Awaitable[bool]:
        """Write the batch durably; False where its base no longer stands. It begins at once.

        Raises:
            StorageBusy, StorageFull, StorageReadOnly: Certainly nothing was written.
            JournalBroken: The outcome is unknown.
        """
        self._check_files()
        ids = self._ids

        def work(database: sqlite3.Connection) -> bool:
            written = transact(database, lambda database: rows.write_batch(database, batch, ids))
            if written is not None:
                ids.keep(written)
            return written is not None

        return self._hop(self._writer, work)

    async def write_locked(
        self, streams: Collection[str], keys: Collection[str], plan: Callable[[Known], Batch | None]
    ) -> bool:
        """Load, plan and write under the write lock; False where the plan is to write nothing.

        Raises:
            JournalCorrupt: The tables contradict each other; nothing was written.
            StorageBusy, StorageFull, StorageReadOnly: Certainly nothing was written.
            JournalBroken: The outcome is unknown.
        """
        self._check_files()
        ids = self._ids

        def locked(database: sqlite3.Connection) -> dict[str, int] | None:
            batch = plan(rows.load_here(database, streams, keys))
            return {} if batch is None else rows.write_batch(database, batch, ids)

        def work(database: sqlite3.Connection) -> bool:
            written = transact(database, locked)
            if written is None:
                # Nobody can have come in between.
                raise JournalCorrupt("the tables contradict each other: verify tells more")
            ids.keep(written)
            return bool(written)

        return await self._hop(self._writer, work)

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """Read the head and the named streams and keys in one consistent view."""
        return await self._read(lambda database: rows.load(database, streams, keys))

    async def raise_epoch(self) -> int:
        """Take the journal over: durably raise the epoch by one and return it."""
        raised = await self._hop(self._writer, lambda database: transact(database, _raise_epoch))
        if raised is None:
            raise JournalBroken("the journal's head is missing: restore the file from a backup")
        return raised

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``, in order."""
        return await self._read(lambda database: rows.read_stream(database, stream, after, limit))

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, in order."""
        return await self._read(lambda database: rows.read_all(database, after, limit))

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """Streams in order of creation after the stream ``after``, by label, name prefix and due time."""
        return await self._read(
            partial(rows.list_streams, label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit)
        )

    async def next_wake(self, after: int) -> int | None:
        """The earliest ``wake_at`` of any stream that is later than ``after``."""
        return await self._read(partial(rows.next_wake, after=after))

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Stored bytes of large values by digest; unknown ones are absent."""
        return await self._read(lambda database: rows.read_values(database, digests))

    async def load_snapshot(self, stream: str) -> Snapshot | None:
        """The snapshot of a stream, if any."""
        return await self._read(lambda database: rows.load_snapshot(database, stream))

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """Replace the snapshot of a stream, or drop it (None)."""
        await self._hop(
            self._writer,
            lambda database: transact(database, lambda database: rows.save_snapshot(database, snapshot, stream)),
        )

    async def position(self) -> int:
        """Position of the last committed record."""
        return await self._read(lambda database: rows.read_head(database).position)

    def stamp(self) -> tuple[int, int]:
        """Changes, within the file system's resolution, whenever any process commits."""
        try:
            state = os.stat(f"{self.path}-wal")
        except OSError:
            return (0, 0)
        return (state.st_mtime_ns, state.st_size)

    def _check_files(self) -> None:
        """Refuse to write to what will be gone when it is closed: nothing acknowledged there would last."""
        if self._files is not None and not self._files.stand():
            raise JournalBroken(
                f"{self.path} or its log was deleted, moved or replaced while it was open: what was written of late "
                "may be lost, nothing more is written; put the file right and open it again"
            )

    async def _read(self, work: Work[T]) -> T:
        return await self._hop(self._reader, lambda database: translating(lambda: work(database), self.path))

    def _hop(self, connection: aiosqlite.Connection, work: Work[T]) -> Awaitable[T]:
        if self._closed:
            raise JournalClosed
        return self._call(connection, work)

    def _call(self, connection: aiosqlite.Connection, work: Work[T]) -> Awaitable[T]:
        """Hand work to a connection's thread at once; what is returned waits for the answer, and must be awaited.

        Cancelled, it returns at once; work that has begun goes on, and work that has not will still be done.
        """
        answer: Answer[T] = Answer(self._token)
        # aiosqlite's coroutine asks its event loop for a future, puts it into its thread's queue with the work, and
        # waits for it. It is left there, with a loop and a future that do nothing: the work wakes the caller itself.
        # A real loop would carry the answer through three more turns of Trio's, a fifth of a durable commit's time.
        token = self._current_loop.set(NO_LOOP)
        try:
            handed_over = connection.execute_fetchall("", answer.carrying(work))
            handed_over.send(None)
        finally:
            self._current_loop.reset(token)
        return _answered(answer, handed_over)


async def _answered(answer: Answer[T], handed_over: Coroutine[object, None, object]) -> T:
    try:
        return await answer.wait()
    finally:
        handed_over.close()


def _checkpoint(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.Error):
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _raise_epoch(database: sqlite3.Connection) -> int | None:
    database.execute("UPDATE head SET epoch = epoch + 1")
    row: tuple[int] | None = database.execute("SELECT epoch FROM head").fetchone()
    return None if row is None else row[0]
