"""A journal's storage in memory: the reference for what the port means, and the store of tests and examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

import attrs
import trio

from trouper_journal._merkle import EMPTY_RANGE
from trouper_journal._records import KeyEntry, Record, Snapshot, StreamHead
from trouper_journal._store import Batch, Head, Known


class MemoryStore:
    """Keeps everything in plain lists and dicts; gone when the process ends.

    Several journals may be opened over one store, one after another or at once: that plays a restart, or
    another process, without a file.

    Args:
        journal_id: 16 random bytes.
        shared: Whether several journals are going to be open over it at once, and must notice each other's commits.
    """

    def __init__(self, journal_id: bytes, *, shared: bool = False) -> None:
        self._id = journal_id
        self._shared = shared
        self._head = Head(0, 0, EMPTY_RANGE.to_bytes())
        self._records: list[Record] = []
        self._streams: dict[str, StreamHead] = {}
        self._positions: dict[str, list[int]] = {}
        self._keys: dict[str, KeyEntry] = {}
        self._values: dict[bytes, bytes] = {}
        self._snapshots: dict[str, Snapshot] = {}

    @property
    def journal_id(self) -> bytes:
        """The journal's 16 random bytes."""
        return self._id

    async def write(self, batch: Batch) -> bool:
        """Write the batch; False where its base no longer stands."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        return self._write(batch)

    async def write_locked(
        self, streams: Collection[str], keys: Collection[str], plan: Callable[[Known], Batch | None]
    ) -> bool:
        """Load, plan and write in one step; False where the plan is to write nothing."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        batch = plan(self._known(streams, keys))
        return batch is not None and self._write(batch)

    def _write(self, batch: Batch) -> bool:
        stale = (
            batch.base != self._head
            or any(record.version == 1 and record.stream in self._streams for record in batch.records)
            or any(entry.name in self._keys for entry in batch.keys)
        )
        if stale:
            return False
        self._head = batch.head
        self._records.extend(batch.records)
        for record in batch.records:
            before = self._streams.get(record.stream)
            label = record.label if record.label is not None or before is None else before.label
            self._streams[record.stream] = StreamHead(
                record.stream, record.version, record.position, label, record.wake_at
            )
            self._positions.setdefault(record.stream, []).append(record.position)
        for entry in batch.keys:
            self._keys[entry.name] = entry
        for value in batch.values:
            self._values.setdefault(value.digest, value.data)
        return True

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """Read the head and the named streams and keys in one consistent view."""
        await trio.lowlevel.checkpoint()
        return self._known(streams, keys)

    def _known(self, streams: Collection[str], keys: Collection[str]) -> Known:
        return Known(
            self._head,
            {name: self._streams[name] for name in streams if name in self._streams},
            {name: self._keys[name] for name in keys if name in self._keys},
        )

    async def raise_epoch(self) -> int:
        """Take the journal over: raise the epoch by one and return it."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        self._head = attrs.evolve(self._head, epoch=self._head.epoch + 1)
        return self._head.epoch

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``, in order."""
        await trio.lowlevel.checkpoint()
        return [self._records[at - 1] for at in self._positions.get(stream, [])[after : after + limit]]

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, in order."""
        await trio.lowlevel.checkpoint()
        return self._records[after : after + limit]

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """Streams in order of creation after the stream ``after``, by label, name prefix and due time."""
        await trio.lowlevel.checkpoint()
        born = self._positions[after][0] if after in self._positions else 0
        found = (
            head
            for name, head in self._streams.items()
            if self._positions[name][0] > born
            and (label is None or head.label == label)
            and name.startswith(prefix)
            and (wake_before is None or (head.wake_at is not None and head.wake_at <= wake_before))
        )
        return list(islice(found, limit))

    async def next_wake(self, after: int) -> int | None:
        """The earliest ``wake_at`` of any stream that is later than ``after``."""
        await trio.lowlevel.checkpoint()
        moments = (head.wake_at for head in self._streams.values() if head.wake_at is not None)
        return min((moment for moment in moments if moment > after), default=None)

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Stored bytes of large values by digest; unknown ones are absent."""
        await trio.lowlevel.checkpoint()
        return {digest: self._values[digest] for digest in digests if digest in self._values}

    async def load_snapshot(self, stream: str) -> Snapshot | None:
        """The snapshot of a stream, if any."""
        await trio.lowlevel.checkpoint()
        return self._snapshots.get(stream)

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """Replace the snapshot of a stream, or drop it (None)."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        if snapshot is None:
            self._snapshots.pop(stream, None)
        else:
            self._snapshots[stream] = snapshot

    async def position(self) -> int:
        """Position of the last committed record."""
        await trio.lowlevel.checkpoint()
        return self._head.position

    def stamp(self) -> object:
        """The position, where several journals share this store."""
        return self._head.position if self._shared else None
