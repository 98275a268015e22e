"""A journal's storage that is read in the calling thread: for work that reads much, a little at a time.

Handing each read to another thread costs as much as reading some dozens of records; a process that does nothing but
read and compute, such as a worker of a replay, need not pay it. The event loop stands still for the length of a read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar, final

from trouper_journal import _sqlite_rows as rows
from trouper_journal._errors import StorageReadOnly
from trouper_journal._journal import Journal
from trouper_journal._records import Record, Snapshot, StreamHead
from trouper_journal._registry import EventRegistry
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal._store import Batch, Known, Store

if TYPE_CHECKING:
    from trouper_journal._keystore import KeyStore

T = TypeVar("T")


@final
class InlineStore:
    """The store over a file that is only read; see ``Store``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = ReadOnlyFile(path)
        self._id = self._file.open()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def journal_id(self) -> bytes:
        """The journal's 16 random bytes."""
        return self._id

    def write(self, batch: Batch) -> Awaitable[bool]:  # noqa: ARG002 -- the port's
        """Refuse."""
        self._refuse()

    async def write_locked(
        self,
        streams: Collection[str],  # noqa: ARG002 -- the port's
        keys: Collection[str],  # noqa: ARG002
        plan: Callable[[Known], Batch | None],  # noqa: ARG002
    ) -> bool:
        """Refuse."""
        self._refuse()

    async def raise_epoch(self) -> int:
        """Refuse."""
        self._refuse()

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """The head and the named streams and keys in one consistent view."""
        return self._read(lambda database: rows.load(database, streams, keys))

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``, in order."""
        return self._read(lambda database: rows.read_stream(database, stream, after, limit))

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, in order."""
        return self._read(lambda database: rows.read_all(database, after, limit))

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """Streams in order of creation after the stream ``after``."""
        return self._read(
            partial(rows.list_streams, label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit)
        )

    async def next_wake(self, after: int) -> int | None:
        """The earliest ``wake_at`` of any stream that is later than ``after``."""
        return self._read(partial(rows.next_wake, after=after))

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Stored bytes of large values by digest; unknown ones are absent."""
        return self._read(lambda database: rows.read_values(database, digests))

    async def load_snapshot(self, stream: str) -> Snapshot | None:
        """The snapshot of a stream, if any."""
        return self._read(lambda database: rows.load_snapshot(database, stream))

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """Keep nothing."""

    async def position(self) -> int:
        """Position of the last committed record."""
        return self._read(lambda database: rows.read_head(database).position)

    def stamp(self) -> object:
        """None: whether anybody writes is not looked for."""
        return None

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self._file.read(work)

    def _refuse(self) -> NoReturn:
        raise StorageReadOnly(f"{self._path} was opened for reading only; nothing was written")


@asynccontextmanager
async def open_inline(
    path: str,
    registry: EventRegistry,
    *,
    keys: KeyStore | None = None,
    wrap: Callable[[Store], Store] | None = None,
) -> AsyncIterator[Journal]:
    """A journal file for reading, in the calling thread, for the length of the block.

    Args:
        path: The file.
        registry: The events that can be read.
        keys: As for ``Journal.open``.
        wrap: As for ``Journal.open``.

    Raises:
        NotAJournal, StorageUnreadable, StorageBusy, JournalCorrupt, JournalBroken: It cannot be opened.
    """
    store = InlineStore(path)
    try:
        inner = store if wrap is None else wrap(store)
        async with Journal.over(inner, checked=True, registry=registry, keys=keys) as journal:
            yield journal
    finally:
        store.close()
