"""A store with hooks: every way in which a storage can fail, on demand and for certain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from trouper_journal._records import Record, Snapshot, StreamHead
from trouper_journal._store import Batch, Known, Store

Hook: TypeAlias = Callable[[Batch], Awaitable[None]]
"""Called with each batch. It may raise a storage error, wait for an event, or kill the process."""


class FaultyStore:
    """Stands before another store and lets hooks interfere with writing; all else is passed through.

    Example:
        ``Journal.open(path, wrap=lambda store: FaultyStore(store, after_write=lose_the_answer))``

    Attributes:
        before_write: Called before a batch is written; what it raises means that nothing was written, unless it
            raises ``JournalBroken``, which leaves that open.
        after_write: Called after a batch was written; with ``JournalBroken`` it plays an answer that was lost.
    """

    def __init__(self, inner: Store, *, before_write: Hook | None = None, after_write: Hook | None = None) -> None:
        self.before_write = before_write
        self.after_write = after_write
        self._inner = inner

    @property
    def journal_id(self) -> bytes:
        """As the inner store."""
        return self._inner.journal_id

    async def write(self, batch: Batch) -> bool:
        """Write the batch, between the hooks; a batch that is refused as stale does not reach ``after_write``."""
        if self.before_write is not None:
            await self.before_write(batch)
        written = await self._inner.write(batch)
        if written and self.after_write is not None:
            await self.after_write(batch)
        return written

    async def write_locked(
        self, streams: Collection[str], keys: Collection[str], plan: Callable[[Known], Batch | None]
    ) -> bool:
        """Plan and write, between the hooks, which are given what would be written at that moment."""
        batch = plan(await self._inner.load(streams, keys))
        if batch is not None and self.before_write is not None:
            await self.before_write(batch)
        written = await self._inner.write_locked(streams, keys, plan)
        if batch is not None and written and self.after_write is not None:
            await self.after_write(batch)
        return written

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """As the inner store."""
        return await self._inner.load(streams, keys)

    async def raise_epoch(self) -> int:
        """As the inner store."""
        return await self._inner.raise_epoch()

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """As the inner store."""
        return await self._inner.read_stream(stream, after, limit)

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """As the inner store."""
        return await self._inner.read_all(after, limit)

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """As the inner store."""
        return await self._inner.streams(label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit)

    async def next_wake(self, after: int) -> int | None:
        """As the inner store."""
        return await self._inner.next_wake(after)

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """As the inner store."""
        return await self._inner.values(digests)

    async def load_snapshot(self, stream: str) -> Snapshot | None:
        """As the inner store."""
        return await self._inner.load_snapshot(stream)

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """As the inner store."""
        await self._inner.save_snapshot(snapshot, stream)

    async def position(self) -> int:
        """As the inner store."""
        return await self._inner.position()

    def stamp(self) -> object:
        """As the inner store."""
        return self._inner.stamp()
