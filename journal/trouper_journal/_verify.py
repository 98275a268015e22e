"""Check a journal against itself: every promise that its bytes make, recomputed from the bytes alone.

No event class is needed, and nothing is decoded into events. What the grade means: ``self-consistent`` says that
the records, the indexes and the tree agree with each other. Somebody who can write the whole file can make another
file that agrees with itself; only a root kept elsewhere tells the two apart.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import attrs

from trouper_journal._archive_store import ArchivedStore
from trouper_journal._archived import Archived
from trouper_journal._digest import leaf_digest
from trouper_journal._errors import JournalCorrupt
from trouper_journal._merkle import EMPTY_RANGE, CompactRange
from trouper_journal._printable import Printable
from trouper_journal._records import Record
from trouper_journal._sealed import checked_references, miscounted
from trouper_journal._store import Head, Store
from trouper_journal._values import Reference
from trouper_journal._verification import Kind, Problem, Verification
from trouper_journal._verify_chunks import Checkers, checkers_of
from trouper_journal._verify_fast import ChunkStream, GoodChunk
from trouper_journal._verify_index import CHAIN_MASK, SeenStream, StreamIndexes, chain_of
from trouper_journal._verify_strays import HasRows, entered_otherwise, stray_keys, unlisted_streams

PAGE: Final = 256
"""Records read at a time, so that no read holds the write-ahead log back."""

MAX_UNREADABLE: Final = 10_000
"""Records that cannot be read and are passed over, before the rest is given up."""

MAX_PROBLEMS: Final = 100
"""Problems described one by one; more are only counted."""


async def check(
    store: Store, progress: Callable[[int, int], None] | None, sizes: Iterable[int], jobs: int
) -> Verification:
    """See `trouper_journal._verifying.verify`."""
    checker = _Checker(store, sizes=sorted(set(sizes), reverse=True))
    try:
        async with checkers_of(store, jobs) as checker.checkers:
            await checker.run(progress)
    except JournalCorrupt as error:
        checker.note("unreadable", str(error), error.position)
    return checker.result()


@attrs.define(slots=True, repr=False)
class _KeySpan(Printable):
    name: str
    first: int
    last: int
    earliest: int
    latest: int


@attrs.define(slots=True, repr=False)
class _Checker(Printable):
    store: Store
    checkers: Checkers | None = None
    range: CompactRange = EMPTY_RANGE
    position: int = 0
    streams: dict[str, SeenStream] = attrs.Factory(dict)
    values: set[bytes] = attrs.Factory(set)
    span: _KeySpan | None = None
    problems: list[Problem] = attrs.Factory(list)
    found: int = 0
    unreadable: int = 0
    sizes: list[int] = attrs.Factory(list)
    roots: dict[int, str] = attrs.Factory(dict)
    archived: int = 0
    gap: int = 0

    def note(self, kind: Kind, message: str, position: int | None = None, stream: str | None = None) -> None:
        self.found += 1
        if len(self.problems) < MAX_PROBLEMS:
            # A damaged record's stream may be anything that SQLite can store.
            name = None if stream is None else f"{stream}"
            self.problems.append(Problem(position, name, kind, message))

    def result(self) -> Verification:
        return Verification(
            journal_id=self.store.journal_id.hex(),
            records=self.range.size - self.unreadable,
            streams=len(self.streams),
            values=len(self.values),
            root=self.range.root().hex(),
            grade="inconsistent" if self.found else "self-consistent",
            problems=tuple(self.problems),
            found=self.found,
            roots=self.roots,
            archived=self.archived,
        )

    def _grow(self, leaves: Sequence[bytes]) -> None:
        """Extend the tree, and keep its root at the sizes that were asked for."""
        done = 0
        while self.sizes and self.sizes[-1] <= self.range.size + len(leaves) - done:
            size = self.sizes.pop()
            upto = done + size - self.range.size
            self.range = self.range.extend(leaves[done:upto])
            done = upto
            self.roots[size] = self.range.root().hex()
        self.range = self.range.extend(leaves[done:])

    async def run(self, progress: Callable[[int, int], None] | None) -> None:
        head = (await self.store.load((), ())).head
        self._grow(())
        if self.checkers is not None:
            await self._check_chunks(self.checkers, head, progress)
        await self._check_each(head, head.position, progress)
        await self._check_spans([self.span] if self.span is not None else [])
        self._check_head(head)
        await self._as_far_as_readable(self._check_beyond(head))
        await self._as_far_as_readable(self._check_strays())
        indexes = StreamIndexes(self.store, head, self.streams, self._note_index)
        others = await self._other_streams()
        for check in (
            indexes.check_heads,
            partial(indexes.check_records, others),
            indexes.check_labels,
            indexes.check_due,
        ):
            # Begun one by one: what ends one of them must not leave the others waiting for ever.
            await self._as_far_as_readable(check())

    async def _check_chunks(self, checkers: Checkers, head: Head, progress: Callable[[int, int], None] | None) -> None:
        """Check records by chunks, and those of a chunk in which something might be wrong one by one.

        Stops where a chunk does not stand where it should: from there on, all are checked one by one.
        """
        async with aclosing(checkers.chunks(head.position, self.sizes[::-1])) as chunks:
            async for last, good in chunks:
                if good is None or not await self._absorb(good):
                    await self._check_each(head, last, None)
                if self.position != last or self.range.size != last:
                    return
                if progress is not None:
                    progress(last, head.position)

    async def _absorb(self, good: GoodChunk) -> bool:
        """Take over what was found in a chunk, unless it does not follow what was there before it."""
        if any(self._version(stream) + 1 != stream.first for stream in good.streams):
            return False
        spans: list[_KeySpan] = []
        if self.span is not None and not (good.edges and good.edges[0][:2] == (self.span.name, good.first)):
            spans.append(self.span)
            self.span = None
        gap, self.gap = self.gap, 0
        for name, first, last in good.edges:
            if self.span is not None:
                self.span.last = self.span.latest = last
            else:
                self.span = _KeySpan(name, first, last, gap or first if first == good.first else first, last)
            if last != good.last:
                spans.append(self.span)
                self.span = None
        for size, tree in good.roots:
            self.roots[size] = self.range.join(tree).root().hex()
            self.sizes.pop()
        self.range = self.range.join(good.tree)
        self.position = good.last
        self.values.update(good.values)
        for stream in good.streams:
            seen = self.streams.setdefault(stream.name, SeenStream())
            seen.version, seen.position, seen.wake_at = stream.version, stream.position, stream.wake_at
            seen.label = seen.label if stream.label is None else stream.label
            seen.chain = seen.chain + stream.chain & CHAIN_MASK
        await self._check_spans(spans)
        return True

    def _version(self, stream: ChunkStream) -> int:
        seen = self.streams.get(stream.name)
        return 0 if seen is None else seen.version

    async def _other_streams(self) -> Collection[str]:
        """The streams that might not read as they should."""
        if self.checkers is None:
            return self.streams
        sums = [(name, seen.version, seen.chain) for name, seen in self.streams.items()]
        async with aclosing(self.checkers.others(sums)) as others:
            return [name async for name in others]

    async def _check_each(self, head: Head, upto: int, progress: Callable[[int, int], None] | None) -> None:
        """Check records one by one, and say what is wrong with them."""
        limit = PAGE
        while self.position < upto:
            try:
                page = await self.store.read_all(self.position, min(limit, upto - self.position))
            except JournalCorrupt as error:
                limit = self._approach(error, limit)
                continue
            limit = PAGE
            page = [record for record in page if record.position <= upto]
            if not page:
                break
            before = self.position
            await self._check_page(page)
            if self.position <= before:
                # Rows of a damaged tree lead back, which was told: it must not be gone round in circles.
                break
            if progress is not None:
                progress(self.position, head.position)

    def _approach(self, error: JournalCorrupt, limit: int) -> int:
        """Come as near as can be to a record that cannot be read, then pass it over; how many to read next."""
        if limit > 1:
            return 1 if error.position is None else max(1, error.position - self.position - 1)
        if self.unreadable == MAX_UNREADABLE:
            raise error
        self.unreadable += 1
        self.position = error.position or self.position + 1
        self.note("unreadable", str(error), self.position)
        self._grow([bytes(32)])
        return PAGE

    async def _as_far_as_readable(self, check: Awaitable[None]) -> None:
        try:
            await check
        except JournalCorrupt as error:
            self.note("unreadable", str(error), error.position)

    def _note_index(self, message: str, position: int | None, stream: str) -> None:
        self.note("stream", message, position, stream)

    async def _check_page(self, page: Sequence[Record]) -> None:
        spans: list[_KeySpan] = []
        leaves: list[bytes] = []
        for record in page:
            self._check_numbers(record)
            leaves.append(self._check_leaf(record))
            spans += self._follow_key(record)
            for reference in self._check_bytes(record):
                await self._check_value(record, reference)
        self._grow(leaves)
        await self._check_spans(spans)

    def _check_numbers(self, record: Record) -> None:
        if record.position != self.position + 1:
            self.note("position", f"position {self.position + 1} is missing before it", record.position, record.stream)
        self.position = record.position
        if type(record.stream) is not str or type(record.version) is not int:
            return  # which the leaf shows
        stream = self.streams.setdefault(record.stream, SeenStream())
        if record.version != stream.version + 1:
            self.note(
                "version",
                f"version {record.version} follows version {stream.version} of its stream",
                record.position,
                record.stream,
            )
        stream.archived = stream.archived or isinstance(record, Archived)
        stream.version = record.version
        stream.position = record.position
        stream.wake_at = record.wake_at
        stream.chain = chain_of(stream.chain, record.version, record.leaf)
        if record.label is not None:
            stream.label = record.label

    def _check_leaf(self, record: Record) -> bytes:
        if isinstance(record, Archived):
            self.archived += 1
            return record.leaf if type(record.leaf) is bytes else bytes(32)
        try:
            leaf = leaf_digest(self.store.journal_id, record)
        except (struct.error, TypeError, AttributeError, ValueError) as error:
            self.note("leaf", f"a column has a value that cannot be hashed: {error}", record.position, record.stream)
            return bytes(32)
        if leaf != record.leaf:
            self.note("leaf", "the stored bytes do not have the recorded digest", record.position, record.stream)
        return leaf

    def _check_bytes(self, record: Record) -> tuple[Reference, ...]:
        """Check that what can be read are packed maps; the references in them."""
        try:
            found = checked_references(record)
        except JournalCorrupt as error:
            self.note("encoding", str(error), record.position, record.stream)
            return ()
        if (message := miscounted(record, found)) is not None:
            self.note("value", message, record.position, record.stream)
        return found

    async def _check_value(self, record: Record, reference: Reference) -> None:
        if reference.digest in self.values:
            return
        self.values.add(reference.digest)
        # One at a time: a value may have many megabytes.
        name = f"the large value {reference.digest.hex()}"
        try:
            data = (await self.store.values((reference.digest,))).get(reference.digest)
        except JournalCorrupt as error:
            self.note("value", str(error), record.position, record.stream)
            return
        if data is None:
            self.note("value", f"{name} is missing", record.position, record.stream)
        elif len(data) != reference.size or hashlib.sha256(data).digest() != reference.digest:
            self.note("value", f"{name} does not have its digest", record.position, record.stream)

    def _follow_key(self, record: Record) -> Iterator[_KeySpan]:
        """The span of a key, once a record without that key follows; archived ones may have had it."""
        span = self.span
        if isinstance(record, Archived):
            if span is not None:
                span.latest = record.position
            self.gap = self.gap or record.position
            return
        earliest, self.gap = self.gap or record.position, 0
        if span is not None and record.key == span.name:
            span.last = span.latest = record.position
            return
        if span is not None:
            yield span
        self.span = None
        if record.key is not None:
            self.span = _KeySpan(record.key, record.position, record.position, earliest, record.position)

    async def _check_spans(self, spans: Sequence[_KeySpan]) -> None:
        if not spans:
            return
        try:
            known = (await self.store.load((), {span.name for span in spans})).keys
        except JournalCorrupt as error:
            self.note("unreadable", str(error), spans[0].first)
            return
        for span in spans:
            entry = known.get(span.name)
            if entry is None:
                self.note("key", f"the key {span.name} of this record is not in the index of keys", span.first)
            elif not (span.earliest <= entry.first <= span.first and span.last <= entry.last <= span.latest):
                message = (
                    f"the index says that key {span.name} stands for positions {entry.first} to {entry.last}, "
                    f"the records say {span.first} to {span.last}"
                )
                self.note("key", message, span.first)

    async def _check_strays(self) -> None:
        archives = self.store.archives if isinstance(self.store, ArchivedStore) else ()
        store = self.store.inner if isinstance(self.store, ArchivedStore) else self.store
        if not isinstance(store, HasRows):
            return
        for stream in await unlisted_streams(store):
            self.note("stream", "no list of streams shows it, and its name leads to it", None, stream)
        async with aclosing(stray_keys(store)) as stray:
            async for name, first in stray:
                self.note("key", f"the index says that the key {name} begins at {first}, where no record has it", first)
        for message in await entered_otherwise(store, [archive.info for archive in archives]):
            self.note("archive", message)

    def _check_head(self, head: Head) -> None:
        if self.position != head.position:
            message = f"the head is at position {head.position}, the last record is at {self.position}"
            self.note("head", message, self.position + 1)
        try:
            kept = CompactRange.from_bytes(head.range)
        except JournalCorrupt as error:
            self.note("head", str(error))
            return
        if self.position != head.position:
            return  # which was told: the leaves of missing records are missing, too
        if kept.size != head.position:
            self.note("head", f"the head is at position {head.position}, its tree has {kept.size} leaves")
        elif kept != self.range:
            self.note("head", f"the head's tree has the root {kept.root().hex()}, not that of the records")

    async def _check_beyond(self, head: Head) -> None:
        """A record beyond the head is a commit made meanwhile, unless the head now does not know of it either."""
        for record in await self.store.read_all(head.position, 1):
            now = (await self.store.load((), ())).head
            if now.position < record.position:
                message = f"the record stands beyond the head, which is at position {now.position}"
                self.note("position", message, record.position, record.stream)
