"""A journal's storage in an SQLite file that is only read: no byte of it, or beside it, is ever written."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from trouper_journal._errors import StorageReadOnly
from trouper_journal._options import JournalOptions
from trouper_journal._records import Snapshot
from trouper_journal._sqlite import SQLiteStore
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal._store import Batch, Known

if TYPE_CHECKING:
    import aiosqlite

T = TypeVar("T")


class ReadOnlySQLiteStore(SQLiteStore):
    """The store over a file that is only read; made by ``SQLiteHost``.

    Args:
        path: The file's real path.
        thread: Its thread is used, not its database.
        options: Limits.
    """

    def __init__(self, path: str, thread: aiosqlite.Connection, options: JournalOptions) -> None:
        super().__init__(path, thread, thread)
        self._file = ReadOnlyFile(path, options.busy_timeout)

    async def prepare(self, options: JournalOptions, new_id: bytes, now: int) -> None:  # noqa: ARG002 -- made before
        """Open the file and see that it is a journal."""
        self._id = await self._hop(self._reader, lambda _: self._file.open())

    async def finish(self) -> None:
        """Take no more calls, and close the file."""
        self._closed = True
        await self._call(self._reader, lambda _: self._file.close())

    @property
    def source(self) -> str:
        """The file that is read, for worker processes: the journal's own, or a private copy of it."""
        return self._file.source

    def write(self, batch: Batch) -> Awaitable[bool]:  # noqa: ARG002 -- the port's
        """Refuse.

        Raises:
            StorageReadOnly: Always.
        """
        raise self._refusal()

    async def write_locked(
        self,
        streams: Collection[str],  # noqa: ARG002 -- the port's
        keys: Collection[str],  # noqa: ARG002
        plan: Callable[[Known], Batch | None],  # noqa: ARG002
    ) -> bool:
        """Refuse.

        Raises:
            StorageReadOnly: Always.
        """
        raise self._refusal()

    async def raise_epoch(self) -> int:
        """Refuse.

        Raises:
            StorageReadOnly: Always.
        """
        raise self._refusal()

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """Keep nothing: snapshots are a cache, and whoever reads loses only time."""

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out work that only reads, in the connection's thread.

        Raises:
            StorageUnreadable, StorageBusy, NotAJournal, JournalCorrupt, JournalBroken: It cannot be read.
        """
        return await self._read(work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._hop(self._reader, lambda _: self._file.read(work))

    def _refusal(self) -> StorageReadOnly:
        return StorageReadOnly(f"{self.path} was opened for reading only; nothing was written")
