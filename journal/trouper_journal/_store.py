"""The port that a storage engine fills: move bytes, all or nothing, and say truthfully what happened.

Everything that a journal promises beyond that (keys, expected versions, fences, digests, labels) is
decided once, above the port, from cached heads. A batch carries the head it was planned on; a store
compares it under its write lock, so that a plan made on stale knowledge writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

import attrs

from trouper_journal._printable import Plain
from trouper_journal._records import KeyEntry, LargeValue, Record, Snapshot, StreamHead


@attrs.frozen(slots=True, repr=False, eq=False)
class Head(Plain):
    """Where the journal stands.

    Attributes:
        position: Position of the last record; 0 for an empty journal.
        epoch: How often a driver has taken the journal; the current fence.
        range: The Merkle compact range over all leaves, as bytes.
    """

    position: int
    epoch: int
    range: bytes


@attrs.frozen(slots=True, repr=False, eq=False)
class Batch(Plain):
    """One transaction, planned.

    Attributes:
        base: The head that the plan was made on; the store writes only if it still stands.
        head: The head after the batch.
        records: New records; their positions follow ``base``. A version of 1 begins a stream, which must not
            exist yet.
        keys: New command keys: none of them may exist yet.
        values: Large values; those already stored are left as they are.
    """

    base: Head
    head: Head
    records: Sequence[Record]
    keys: Sequence[KeyEntry]
    values: Sequence[LargeValue]


@attrs.frozen(slots=False, repr=False, eq=False)
class Known(Plain):
    """One consistent view of heads and keys; streams and keys that do not exist are absent."""

    head: Head
    streams: Mapping[str, StreamHead]
    keys: Mapping[str, KeyEntry]


class Store(Protocol):
    """A storage engine for one journal. Raises the storage errors of this package, nothing else."""

    @property
    def journal_id(self) -> bytes:
        """The journal's 16 random bytes."""
        ...

    def write(self, batch: Batch) -> Awaitable[bool]:
        """Write the batch durably; False where its base no longer stands (nothing was written).

        May be a coroutine function. Otherwise it may begin at once, and is awaited afterwards in every case.

        Raises:
            StorageBusy, StorageFull, StorageReadOnly: Certainly nothing was written.
            JournalBroken: The outcome is unknown.
        """
        ...

    async def write_locked(
        self, streams: Collection[str], keys: Collection[str], plan: Callable[[Known], Batch | None]
    ) -> bool:
        """Load, plan and write durably while nobody else can write; False where the plan is to write nothing.

        Costs others more than ``write``, and cannot fail because they write all the time.

        Args:
            streams: Streams to load.
            keys: Command keys to load.
            plan: Given what was loaded, says what to write. May be called in another thread, and again; what the last
                call returned is written.

        Raises:
            StorageBusy, StorageFull, StorageReadOnly: Certainly nothing was written.
            JournalBroken: The outcome is unknown.
        """
        ...

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """Read the head and the named streams and keys in one consistent view."""
        ...

    async def raise_epoch(self) -> int:
        """Take the journal over: durably raise the epoch by one and return it."""
        ...

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``, in order."""
        ...

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, in order."""
        ...

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """Streams in order of creation after the stream ``after`` (empty: from the first).

        Those with this label, this name prefix and ``wake_at <= wake_before``, where given.
        """
        ...

    async def next_wake(self, after: int) -> int | None:
        """The earliest ``wake_at`` of any stream that is later than ``after`` (ns UTC); None where there is none."""
        ...

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Stored bytes of large values by digest; unknown ones are absent."""
        ...

    async def load_snapshot(self, stream: str) -> Snapshot | None:
        """The snapshot of a stream, if any."""
        ...

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """Replace the snapshot of a stream, or drop it (None)."""
        ...

    async def position(self) -> int:
        """Position of the last committed record: the cheapest way to notice other processes' commits."""
        ...

    def stamp(self) -> object:
        """Cheap to get; changes, within some resolution, whenever anybody commits. None: nobody else can."""
        ...
