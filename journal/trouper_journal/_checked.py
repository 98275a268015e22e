"""Reading evidence: each record is held against its digest, its number and the journal's head before it is given.

Whoever reads a journal that somebody else kept must not take a story for whole from which a record was taken, or for
true in which one was changed. So every page that is read of a file opened for reading only comes through here. What is
good before a damaged place is given; then reading ends with the position of the first bad record, or, for whoever
wants to know what else there is, goes on behind a marker.

This finds what contradicts the journal itself. Whether somebody made another journal that agrees with itself, only
``verify`` against a checkpoint can tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, final

from trouper_journal import _sqlite_rows as rows
from trouper_journal._archive_store import ArchivedStore, ArchiveStore
from trouper_journal._checked_page import CheckedPage
from trouper_journal._damaged import Damaged, Whole, damaged, damaged_record, is_shaped, problem_of
from trouper_journal._errors import JournalCorrupt
from trouper_journal._records import Record, Snapshot, StreamHead
from trouper_journal._sqlite import SQLiteStore
from trouper_journal._sqlite_index import index_problem
from trouper_journal._store import Batch, Known, Store

MAX_UNREADABLE: Final = 10_000
"""Records that cannot be read and are passed over, before the rest is given up."""

_MAX_HEADS: Final = 10_000
"""Streams of which it is remembered how far they go."""

_PAGE: Final = 256

ReadPage = Callable[[int, int], Awaitable[Sequence[Record]]]
"""Reads up to so many records behind a number."""


def checked(store: Store, told: Callable[[Damaged], None] | None = None) -> CheckedStore:
    """The store, read with every check that it allows; see `CheckedStore`."""
    file = store.inner if isinstance(store, ArchivedStore) else store
    index = file if isinstance(file, SQLiteStore) else None
    return CheckedStore(store, gapless=not isinstance(store, ArchiveStore), index=index, told=told)


@final
class CheckedStore:
    """A store whose records are checked before they are given; see the module.

    Args:
        inner: The store that is read.
        gapless: Whether positions have no gaps, as in all but an archive.
        index: The file whose index of streams is held against the number of records before it is believed.
        told: Called with each damaged place, in the order in which they are read, and each time that they are; a
            marker stands there. None: reading raises JournalCorrupt.
    """

    def __init__(
        self,
        inner: Store,
        *,
        gapless: bool = True,
        index: SQLiteStore | None = None,
        told: Callable[[Damaged], None] | None = None,
    ) -> None:
        self._inner = inner
        self._gapless = gapless
        self._index = index
        self._doubtful = False
        self._told = told
        self._end = -1
        self._heads: dict[str, StreamHead] = {}
        self._unreadable = 0

    @property
    def journal_id(self) -> bytes:
        """As the inner store."""
        return self._inner.journal_id

    async def read_all(self, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, in order, as far as nothing is wrong.

        Raises:
            JournalCorrupt: The very first is not there, or not what was recorded; names its position.
        """
        if self._end < 0:
            self._end = await self._inner.position()
        page, error, limit = await self._readable(self._inner.read_all, after, limit)
        reading = CheckedPage(self.told, self.marks, after, limit)
        for record in page:
            problem = problem_of(self.journal_id, record)
            if problem is None and (record.position == reading.last + 1 or not self._gapless):
                reading.good(record, record.position)
                continue
            if self._gapless and record.position != reading.last + 1:
                if reading.stop(self._missing(reading.last + 1, record.position - 1, record.recorded_at)):
                    return reading.given
                reading.last = record.position - 1
            if reading.take(record, record.position, problem):
                return reading.given
        whole = error is None and len(page) < limit
        if error is not None:
            if reading.last < self._end or not self._gapless:
                reading.stop(self._unread(error, "", 0, reading.last + 1, reading.at))
            elif not reading.given:
                self._complain(str(error))
        elif whole and self._gapless and reading.last < self._end:
            reading.stop(self._missing(reading.last + 1, self._end, reading.at))
            whole = False
        given = await self._within(reading)
        return Whole(given) if whole else given

    async def read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``, in order; errors as for ``read_all``."""
        read = partial(self._inner.read_stream, stream)
        page, error, limit = await self._readable(read, after, limit)
        reading = CheckedPage(self.told, self.marks, after, limit, stream)
        full = error is None and len(page) == limit
        for record in page:
            problem = problem_of(self.journal_id, record)
            if (
                problem is None
                and record.version == reading.last + 1
                and record.stream == stream
                and record.position > reading.position
            ):
                reading.good(record, record.version)
                continue
            if type(record.version) is not int or record.version <= reading.last:
                # It would be found again behind any number: it counts as one that is not there.
                full = False
                break
            if record.version != reading.last + 1:
                if reading.stop(await self._missing_version(stream, reading, record.version - 1, record.position - 1)):
                    return reading.given
                reading.last = record.version - 1
            if problem is None and record.stream != stream:
                problem = f"it is read as one of {stream}, and is one of {record.stream}"
            if problem is None and record.position <= reading.position:
                problem = f"it stands behind position {reading.position} in its stream"
            if reading.take(record, record.version, problem):
                return reading.given
        if not full and await self._ends(stream, reading, error, read):
            return Whole(reading.given)
        return reading.given

    async def _ends(self, stream: str, reading: CheckedPage, error: JournalCorrupt | None, read: ReadPage) -> bool:
        """Whether a stream ends with what was read of it; what is wrong behind that is told, or marked."""
        head = self._heads.get(stream)
        if head is None or head.version < reading.last:
            head = (await self.load([stream], ())).streams.get(stream)
        version = 0 if head is None else head.version
        if error is not None:
            if reading.last < version:
                place = error.position or await self._gap(await self._place(stream, reading), 0)
                reading.stop(self._unread(error, stream, reading.last + 1, place, reading.at))
            elif not reading.given:
                self._complain(str(error))
        elif reading.last > version:
            self._complain(f"{stream} has a record of version {reading.last}, and its head is at {version}")
        elif reading.last < version and head is not None:
            # What came in between the two reads is for the next one.
            if not await read(reading.last, 1):
                reading.stop(await self._missing_version(stream, reading, version, head.position))
        else:
            return True
        return False

    async def _readable(
        self, read: ReadPage, after: int, limit: int
    ) -> tuple[Sequence[Record], JournalCorrupt | None, int]:
        """As much of a page as can be read, what keeps from reading on, and how much was asked for then."""
        limit = max(1, limit)
        while True:
            try:
                return await read(after, limit), None, limit
            except JournalCorrupt as error:
                if limit == 1:
                    return [], error, limit
            limit //= 2

    def _missing(self, first: int, last: int, at: object) -> Damaged:
        records = "the record is" if first == last else f"the records up to position {last} are"
        return damaged(f"{records} missing", stream="", version=0, position=last, first=first, at=_moment(at))

    async def _missing_version(self, stream: str, reading: CheckedPage, version: int, before: int) -> Damaged:
        first = reading.last + 1
        versions = f"version {first}" if version == first else f"versions {first} to {version}"
        place = await self._gap(await self._place(stream, reading), before)
        return damaged(
            f"{versions} of {stream} {'is' if version == first else 'are'} missing",
            stream=stream,
            version=version,
            position=place if version == first else max(place, before),
            first=place,
            at=reading.at,
        )

    async def _place(self, stream: str, reading: CheckedPage) -> int:
        """Position of the record of a stream behind which one is missing; 0 where that is not known."""
        if reading.given or not reading.last:
            return reading.position
        # It was given with the page before this one.
        page, _, _ = await self._readable(partial(self._inner.read_stream, stream), reading.last - 1, 1)
        return page[0].position if page and page[0].version == reading.last and is_shaped(page[0]) else 0

    async def _gap(self, after: int, before: int) -> int:
        """The first position behind ``after`` that has no good record; ``before`` where all up to there have."""
        if not self._gapless:
            return 0
        last = after
        while not before or last < before:
            page, error, _ = await self._readable(self._inner.read_all, last, _PAGE)
            for record in page:
                if record.position != last + 1 or problem_of(self.journal_id, record) is not None:
                    return last + 1
                last = record.position
            if error is not None or not page:
                return last + 1
        return before

    def _unread(self, error: JournalCorrupt, stream: str, version: int, position: int, at: int) -> Damaged:
        self._unreadable += 1
        if self._unreadable > MAX_UNREADABLE:
            raise error
        text = str(error).removeprefix(f"position {error.position}: ")
        return damaged(text, stream=stream, version=version, position=position, first=position, at=at)

    async def _within(self, reading: CheckedPage) -> Sequence[Record]:
        """A record beyond the head is a commit made meanwhile, unless the head now does not know of it either."""
        if not reading.given:
            return reading.given
        if reading.last > self._end:
            self._end = await self._inner.position()
        if reading.last > self._end:
            if (good := [each for each in reading.given if each.position <= self._end]) and not self.marks:
                return good
            self._complain(f"records stand beyond the head, which is at position {self._end}", self._end + 1)
        return reading.given

    def mark(self, record: Record, problem: str) -> Record:
        """The marker for a record of which something is wrong that only its values show.

        Raises:
            JournalCorrupt: Nobody wants to read on.
        """
        return self.told(damaged_record(record, problem))

    def told(self, marker: Damaged) -> Damaged:
        """The marker, told of.

        Raises:
            JournalCorrupt: Nobody wants to read on.
        """
        if self._told is None:
            raise marker.error
        self._told(marker)
        return marker

    def _complain(self, problem: str, position: int = 0) -> None:
        """Tell of what is not wrong with a record."""
        self.told(damaged(problem, stream="", version=0, position=position, first=position))

    @property
    def marks(self) -> bool:
        """Whether damaged places are marked, and reading goes on behind them."""
        return self._told is not None

    # ---- the rest

    async def load(self, streams: Collection[str], keys: Collection[str]) -> Known:
        """As the inner store."""
        known = await self._inner.load(streams, keys)
        self._remember(known.streams.values())
        return known

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        """As the inner store; where markers are wanted, rows that are no rows of an index are passed over.

        Raises:
            JournalCorrupt: The index cannot be complete; names the position of a record that is in no stream.
        """
        if self._index is not None and not after:
            problem = await self._index.scan(index_problem)
            self._doubtful = problem is not None
            if problem is not None:
                self._complain(problem.message, problem.position)
        listed = partial(
            rows.list_streams, label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit
        )
        if self._index is not None and self._doubtful:
            found: Sequence[StreamHead] = await self._index.scan(partial(listed, sound=True))
        else:
            found = await self._inner.streams(
                label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit
            )
        self._remember(found)
        return found

    async def values(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """As the inner store.

        Raises:
            JournalCorrupt: One of them is missing, or does not have its digest.
        """
        found = await self._inner.values(digests)
        for digest in digests:
            data = found.get(digest)
            if data is None:
                raise JournalCorrupt(f"the large value {digest.hex()} is missing")
            if hashlib.sha256(data).digest() != digest:
                raise JournalCorrupt(f"the large value {digest.hex()} does not have its digest")
        return found

    def write(self, batch: Batch) -> Awaitable[bool]:
        """As the inner store."""
        return self._inner.write(batch)

    async def write_locked(
        self, streams: Collection[str], keys: Collection[str], plan: Callable[[Known], Batch | None]
    ) -> bool:
        """As the inner store."""
        return await self._inner.write_locked(streams, keys, plan)

    async def raise_epoch(self) -> int:
        """As the inner store."""
        return await self._inner.raise_epoch()

    async def next_wake(self, after: int) -> int | None:
        """As the inner store."""
        return await self._inner.next_wake(after)

    async def load_snapshot(self, stream: str) -> Snapshot | None:  # noqa: ARG002 -- the port's
        """None: no digest covers a snapshot, so that it is no evidence."""
        return None

    async def save_snapshot(self, snapshot: Snapshot | None, stream: str) -> None:
        """Keep nothing."""

    async def position(self) -> int:
        """As the inner store."""
        return await self._inner.position()

    def stamp(self) -> object:
        """As the inner store."""
        return self._inner.stamp()

    def _remember(self, heads: Collection[StreamHead]) -> None:
        if len(self._heads) > _MAX_HEADS:
            self._heads.clear()
        self._heads.update((head.stream, head) for head in heads)


def _moment(cell: object) -> int:
    return cell if type(cell) is int else 0
