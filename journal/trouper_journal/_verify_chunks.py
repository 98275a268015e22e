"""Who checks a journal's chunks: the storage's own thread, or worker processes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar, runtime_checkable

import attrs

from trouper_journal._printable import Printable
from trouper_journal._store import Store
from trouper_journal._verify_fast import CHUNK, GoodChunk, StreamSum, check_chunk, other_streams
from trouper_journal._verify_worker import CHUNK_OF, STREAMS_OF, chunk_from_plain
from trouper_journal._workers import Worker, spread_over, start_workers

T = TypeVar("T")

Chunks: TypeAlias = AsyncGenerator[tuple[int, GoodChunk | None], None]
"""The last position of each chunk in order, with what was found; None where the thorough way must look."""

_WORKER: Final = "trouper_journal._verify_worker"

_FEW: Final = 256
"""Records or streams that the storage's thread checks at a time: others wait for it meanwhile."""

_STREAMS: Final = 500
"""Streams that a worker process checks at a time."""

_WORTH_IT: Final = 16
"""Chunks from which on starting processes takes less time than they save."""


@runtime_checkable
class Scanned(Protocol):
    """A store over an SQLite file, whose rows can be looked at as they are."""

    journal_id: bytes

    @property
    def source(self) -> str:
        """The file, for other processes to read."""
        ...

    async def position(self) -> int:
        """Position of the last record."""
        ...

    async def scan(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out work that only reads, in the thread that reads."""
        ...


@attrs.define(slots=True, repr=False, eq=False)
class Checkers(Printable):
    """Checks chunks of records, and records by stream.

    Attributes:
        store: The opened storage.
        workers: The processes that check; none for the storage's own thread.
    """

    store: Scanned
    workers: Sequence[Worker]

    async def chunks(self, last: int, sizes: Sequence[int]) -> Chunks:
        """Check all records up to a position.

        Args:
            last: The position.
            sizes: Positions up to which the tree is wanted, in order.
        """
        if not self.workers:
            for first, stop, wanted in _ranges(last, sizes, _FEW):
                work = partial(check_chunk, journal_id=self.store.journal_id, first=first, last=stop, sizes=wanted)
                yield stop, await self.store.scan(work)
            return

        async def lots() -> AsyncGenerator[Sequence[str], None]:
            for first, stop, wanted in _ranges(last, sizes, CHUNK):
                yield [CHUNK_OF, str(first), str(stop), *map(str, wanted)]

        async with aclosing(spread_over(self.workers, lots())) as answers:
            stop = 0
            async for answer in answers:
                stop = min(stop + CHUNK, last)
                yield stop, chunk_from_plain(answer) if answer else None

    async def others(self, streams: Sequence[StreamSum]) -> AsyncGenerator[str, None]:
        """The streams that, read by themselves, do not give the records that were seen."""
        if not self.workers:
            for lot in _cut(streams, _FEW):
                for name in await self.store.scan(partial(other_streams, streams=lot)):
                    yield name
            return

        async def lots() -> AsyncGenerator[Sequence[str], None]:
            for lot in _cut(streams, _STREAMS):
                yield [STREAMS_OF, *(str(cell) for each in lot for cell in each)]

        async with aclosing(spread_over(self.workers, lots())) as answers:
            async for answer in answers:
                for each in answer:
                    yield str(each)


@asynccontextmanager
async def checkers_of(store: Store, jobs: int) -> AsyncIterator[Checkers | None]:
    """Who can check a store's rows as they are, for the length of a block; None where nobody can.

    Raises:
        JournalCorrupt, JournalBroken, StorageBusy: The storage could not be read.
    """
    if not isinstance(store, Scanned):
        yield None
    elif jobs <= 1 or await store.position() < _WORTH_IT * CHUNK:
        yield Checkers(store, ())
    else:
        async with start_workers(_WORKER, [store.source], jobs) as workers:
            yield Checkers(store, workers)


def _ranges(last: int, sizes: Sequence[int], width: int) -> Iterator[tuple[int, int, list[int]]]:
    """First and last position of each chunk, and the sizes among them."""
    at = 0
    for first in range(1, last + 1, width):
        stop = min(first + width - 1, last)
        begin = at
        while at < len(sizes) and sizes[at] <= stop:
            at += 1
        yield first, stop, list(sizes[begin:at])


def _cut(streams: Sequence[StreamSum], width: int) -> Iterator[Sequence[StreamSum]]:
    for at in range(0, len(streams), width):
        yield streams[at : at + width]
