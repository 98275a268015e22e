"""Archives as storages: one alone, to be read like a journal, or several beside the journal that they came from."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn, TypeVar

import trio

from trouper_journal import _sqlite_rows as rows
from trouper_journal._archive_file import ArchiveInfo, read_info
from trouper_journal._archived import Archived
from trouper_journal._digest import leaf_digest
from trouper_journal._errors import ArchiveRefused, JournalClosed, JournalCorrupt, StorageReadOnly
from trouper_journal._merkle import EMPTY_RANGE
from trouper_journal._opening import real_path
from trouper_journal._records import KeyEntry, Record, Snapshot, StreamHead
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal._store import Batch, Head, Known, Store

T = TypeVar("T")


class ArchiveStore:
    """An archive by itself, as a store that can only be read; made by `open_archive`.

    Its positions have gaps, so that `verify` of a journal is not for it: `check_archive` is.
    """

    def __init__(self, path: str, info: ArchiveInfo, file: ReadOnlyFile) -> None:
        self._path = path
        self._info = info
        self._file: ReadOnlyFile | None = file
        self._turn = trio.CapacityLimiter(1)

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def info(self) -> ArchiveInfo:
        """What the archive says of itself."""
        return self._info

    @property
    def journal_id(self) -> bytes:
        """The id of the journal that the records came from."""
        return self._info.journal_id

    async def close(self) -> None:
        """Close the file, once a read that is under way has ended."""
        async with self._turn:
            if self._file is not None:
                self._file.close()
                self._file = None

    async def at(self, positions: Collection[int]) -> dict[int, Record]:
        """Those of the records that are here, by position."""
        found = await self._read(lambda database: rows.read_at(database, positions))
        return {record.position: record for record in found}

    async def write(self, batch: Batch) -> bool:  # noqa: ARG002 -- the port's
        """Refused."""
        self._refuse()

    async def write_locked(
        self,
        streams: Collection[str],  # noqa: ARG002 -- the port's
        keys: Collection[str],  # noqa: ARG002 -- the port's
        plan: Callable[[Known], Batch | None],  # noqa: ARG002 -- the port's
    ) -> bool:
        """Refused."""
        self._refuse()

    async def raise_epoch(self) -> int:
        """Refused."""
        self._refuse()

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:  # noqa: ARG002 -- the port's
        """Nothing is kept."""
        await trio.lowlevel.checkpoint()

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:  # noqa: ARG002 -- the port's
        """The named streams; an archive has no index of keys."""
        heads = await self._read(lambda database: [rows.read_stream_head(database, name) for name in streams])
        position = await self.position()
        found = {head.stream: head for head in heads if head is not None}
        return Known(Head(position, 0, EMPTY_RANGE.to_bytes()), found, dict[str, KeyEntry]())

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``, in order."""
        return await self._read(lambda database: rows.read_stream(database, stream, after, limit))

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, in order; there are gaps."""
        return await self._read(lambda database: rows.read_events(database, after, limit))

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

    async def load_snapshot(self, stream: str) -> Snapshot | None:  # noqa: ARG002 -- the port's
        """None."""
        await trio.lowlevel.checkpoint()
        return None

    async def position(self) -> int:
        """Position of the last record that is here."""
        query = "SELECT ifnull(max(position), 0) FROM events"
        found: int = (await self._read(lambda database: database.execute(query).fetchone()))[0]
        return found

    def stamp(self) -> object:
        """None: nobody writes."""
        return None

    def _refuse(self) -> NoReturn:
        raise StorageReadOnly(f"{self._path} is an archive, and nothing is ever written there")

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._file is None:
            raise JournalClosed
        # Not abandoned when cancelled: the connection is for one thread at a time.
        return await trio.to_thread.run_sync(self._file.read, work, limiter=self._turn)


class ArchivedStore:
    """A journal's store with archives beside it: archived records are read from there, each held against its tombstone.

    What is in none of the archives stays a marker; what should be in one of them, and is not there, is damage.
    """

    def __init__(self, inner: Store, archives: Sequence[ArchiveStore]) -> None:
        for archive in archives:
            if archive.journal_id != inner.journal_id:
                raise ArchiveRefused(f"{archive.path} is an archive of another journal ({archive.journal_id.hex()})")
        self._inner = inner
        self._archives = archives

    @property
    def inner(self) -> Store:
        """The journal's own store."""
        return self._inner

    @property
    def archives(self) -> Sequence[ArchiveStore]:
        """The archives beside it."""
        return self._archives

    @property
    def journal_id(self) -> bytes:
        """As the inner store."""
        return self._inner.journal_id

    def write(self, batch: Batch) -> Awaitable[bool]:
        """As the inner store."""
        return self._inner.write(batch)

    async def write_locked(
        self, streams: Collection[str], keys: Collection[str], plan: Callable[[Known], Batch | None]
    ) -> bool:
        """As the inner store."""
        return await self._inner.write_locked(streams, keys, plan)

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """As the inner store."""
        return await self._inner.load(streams, keys)

    async def raise_epoch(self) -> int:
        """As the inner store."""
        return await self._inner.raise_epoch()

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """As the inner store, with archived records in their places."""
        return await self._filled(await self._inner.read_stream(stream, after, limit))

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """As the inner store, with archived records in their places."""
        return await self._filled(await self._inner.read_all(after, limit))

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """As the inner store, which still lists the streams that were archived."""
        return await self._inner.streams(label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit)

    async def next_wake(self, after: int) -> int | None:
        """As the inner store."""
        return await self._inner.next_wake(after)

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """As the inner store, then from the archives."""
        found = dict(await self._inner.values(digests))
        for archive in self._archives:
            missing = [digest for digest in digests if digest not in found]
            if missing:
                found.update(await archive.values(missing))
        return found

    async def load_snapshot(self, stream: str) -> Snapshot | None:
        """As the inner store."""
        return await self._inner.load_snapshot(stream)

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:  # noqa: ARG002 -- the port's
        """Nothing is kept: what is folded here may be archived, and its content is to be gone from the journal."""
        await trio.lowlevel.checkpoint()

    async def position(self) -> int:
        """As the inner store."""
        return await self._inner.position()

    def stamp(self) -> object:
        """As the inner store."""
        return self._inner.stamp()

    async def _filled(self, page: Sequence[Record]) -> Sequence[Record]:
        missing = {record.position for record in page if isinstance(record, Archived)}
        if not missing:
            return page
        found: dict[int, Record] = {}
        for archive in self._archives:
            found.update(await archive.at(missing - found.keys()))
        return [self._fitting(record, found) if isinstance(record, Archived) else record for record in page]

    def _fitting(self, tombstone: Archived, at_hand: Mapping[int, Record]) -> Record:
        """The archived record, if it is the one that the tombstone stands for."""
        position = tombstone.position
        found = at_hand.get(position)
        if found is None:
            for archive in self._archives:
                if archive.info.id == tombstone.archive_id:
                    raise JournalCorrupt(f"{archive.path} lacks the record, which was moved there", position)
            return tombstone
        try:
            leaf = leaf_digest(self.journal_id, found)
        except (struct.error, TypeError, AttributeError, ValueError):
            leaf = b""
        told = tombstone.stream, tombstone.version, tombstone.recorded_at, tombstone.leaf
        if (found.stream, found.version, found.recorded_at, leaf) != told:
            raise JournalCorrupt("the archive has another record there than was moved to it", position)
        return found


@asynccontextmanager
async def open_archive(path: str | os.PathLike[str]) -> AsyncIterator[ArchiveStore]:
    """Open an archive for reading, for the length of an ``async with`` block. Nothing is ever written to it.

    With ``Journal.over(archive, registry=...)`` it is read like a journal.

    Raises:
        NotAJournal: It is something else, or of a newer layout or format.
        JournalCorrupt: It is damaged.
        StorageUnreadable: It is not there, or cannot be read by this user.
    """
    where = real_path(path)
    file = ReadOnlyFile(where, any_thread=True)
    try:
        info = await trio.to_thread.run_sync(file.read, partial(read_info, path=where))
    except BaseException:
        file.close()
        raise
    archive = ArchiveStore(where, info, file)
    try:
        yield archive
    finally:
        with trio.CancelScope(shield=True):
            await archive.close()


def beside(*archives: ArchiveStore) -> Callable[[Store], Store]:
    """For ``Journal.open(path, wrap=beside(archive))``: archived records are read from these.

    Opening raises ArchiveRefused where one of them belongs to another journal.
    """

    def wrap(store: Store) -> Store:
        return ArchivedStore(store, archives)

    return wrap
