"""Check that whoever asks a journal's indexes finds what its records say: by stream, by name, by label, by due time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import attrs

from trouper_journal._printable import Printable
from trouper_journal._records import StreamHead
from trouper_journal._store import Head, Store

PAGE: Final = 256
"""Streams or records read at a time, so that no read holds the write-ahead log back."""

CHAIN_MASK: Final = 2**64 - 1
"""Chains are sums modulo 2**64."""

LATEST: Final = 2**63 - 1
"""The last moment that can be stored, ns UTC."""


def chain_of(chain: int, version: int, leaf: bytes) -> int:
    """A sum over a stream's records with one more.

    Parts of a stream can be summed up apart from each other, and in any process. That a record's leaf is its own is
    checked elsewhere; here it stands for the record.
    """
    number = int.from_bytes(leaf[:8], "big") if type(leaf) is bytes else hash(leaf)
    return (chain + number * (2 * version + 1)) & CHAIN_MASK


@attrs.define(slots=True, repr=False)
class SeenStream(Printable):
    """What a stream's records say, from the first to the last.

    Attributes:
        version: Version of the last.
        position: Position of the last.
        label: The last that was not None.
        wake_at: That of the last.
        chain: Sum over versions and leaves of all of them.
        archived: Whether some are in an archive, so that label and due time are not known.
    """

    version: int = 0
    position: int = 0
    label: str | None = None
    wake_at: int | None = None
    chain: int = 0
    archived: bool = False


class Note(Protocol):
    """Takes a problem down."""

    def __call__(self, message: str, position: int | None, stream: str) -> None:
        """What is wrong, with which stream, at which position."""
        ...


@attrs.define(slots=True, repr=False)
class StreamIndexes(Printable):
    """The indexes of streams, beside what the records say; streams that moved on meanwhile are past what is checked.

    Attributes:
        store: The opened storage.
        head: Up to where the records were seen.
        streams: What was seen.
        note: Takes problems down.
    """

    store: Store
    head: Head
    streams: Mapping[str, SeenStream]
    note: Note

    async def check_heads(self) -> None:
        """The list of streams, and each looked up by its name."""
        unseen = set(self.streams)
        moved: list[str] = []
        after = ""
        while True:
            page = await self._list(after=after)
            by_name = (await self.store.load([found.stream for found in page], ())).streams
            for found in page:
                unseen.discard(found.stream)
                if found.position <= self.head.position:
                    self._compare(found, by_name.get(found.stream))
                else:
                    moved.append(found.stream)
            if len(page) < PAGE:
                break
            after = page[-1].stream
        for name in sorted(unseen):
            self.note("the stream is missing from the index", self.streams[name].position, name)
        for name in moved:
            await self._check_moved(name)

    async def _check_moved(self, name: str) -> None:
        """A stream that is said to have got records since: then they are there, and say what is listed of it."""
        known = await self.store.load((name,), ())
        found = known.streams.get(name)
        if found is None:
            self.note("the stream cannot be found by its name", None, name)
            return
        now = attrs.evolve(self.streams.get(name, SeenStream()))
        while now.version < found.version:
            page = await self.store.read_stream(name, now.version, min(PAGE, found.version - now.version))
            if not page or [each.version for each in page] != list(range(now.version + 1, now.version + 1 + len(page))):
                break
            for record in page:
                now.version, now.position, now.wake_at = record.version, record.position, record.wake_at
                now.label = now.label if record.label is None else record.label
        if found.position > known.head.position:
            message = f"the index says that its last record is at {found.position}, beyond the end of the journal"
            self.note(message, now.position or None, name)
        else:
            self._note_differences(found, now)

    async def check_records(self, names: Iterable[str]) -> None:
        """The records of streams, read as whoever folds them reads them."""
        for name in names:
            seen = self.streams[name]
            chain = last = 0
            while last < seen.version:
                page = await self.store.read_stream(name, last, min(PAGE, seen.version - last))
                if not all(type(record.version) is int for record in page):
                    chain = -1
                    break
                for record in page:
                    chain = chain_of(chain, record.version, record.leaf)
                if not page or type(page[-1].version) is not int:
                    break
                last = page[-1].version
            if chain != seen.chain:
                self.note("reading the stream gives other records than it has", seen.position, name)

    async def check_labels(self) -> None:
        """The streams of each label."""
        by_label: dict[str, set[str]] = {}
        for name, seen in self.streams.items():
            if type(seen.label) is str and not seen.archived:
                by_label.setdefault(seen.label, set()).add(name)
        for label, names in by_label.items():
            await self._compare_list(names, f"the label {label}", label=label)

    async def check_due(self) -> None:
        """The streams that need their driver at some time."""
        names = {name for name, seen in self.streams.items() if seen.wake_at is not None}
        await self._compare_list(names, "due times", wake_before=LATEST)

    async def _compare_list(
        self, expected: set[str], what: str, *, label: str | None = None, wake_before: int | None = None
    ) -> None:
        after = ""
        while True:
            page = await self._list(after=after, label=label, wake_before=wake_before)
            for found in page:
                seen = self.streams.get(found.stream)
                right = seen is not None and (seen.archived or found.stream in expected)
                if seen is not None and any(self._differences(found, seen)):
                    right = False
                if found.position <= self.head.position and not right:
                    self.note(f"the index by {what} lists the stream wrongly", found.position, found.stream)
            expected.difference_update(head.stream for head in page)
            if len(page) < PAGE:
                break
            after = page[-1].stream
        for name in await self._unmoved(expected):
            self.note(f"the index by {what} lacks the stream", self.streams[name].position, name)

    async def _unmoved(self, names: Collection[str]) -> Sequence[str]:
        """Those of the streams that have got no record meanwhile, by which they may have left a list."""
        now = (await self.store.load(names, ())).streams if names else {}
        return [name for name in sorted(names) if name not in now or now[name].position <= self.head.position]

    async def _list(
        self, *, after: str, label: str | None = None, wake_before: int | None = None
    ) -> Sequence[StreamHead]:
        return await self.store.streams(label=label, prefix="", wake_before=wake_before, after=after, limit=PAGE)

    def _compare(self, found: StreamHead, by_name: StreamHead | None) -> None:
        seen = self.streams.get(found.stream)
        if seen is None:
            self.note("the index lists a stream that has no records", None, found.stream)
            return
        if by_name is None:
            self.note("the stream cannot be found by its name", seen.position, found.stream)
        self._note_differences(found, seen)

    def _note_differences(self, found: StreamHead, seen: SeenStream) -> None:
        for what, listed, true in self._differences(found, seen):
            self.note(f"the index says {what} {listed}, the records say {true}", seen.position, found.stream)

    def _differences(self, found: StreamHead, seen: SeenStream) -> Iterator[tuple[str, object, object]]:
        """What is listed of a stream that has records, and what these say instead."""
        for what, listed, true in (
            ("version", found.version, seen.version),
            ("position", found.position, seen.position),
            ("label", found.label, seen.label),
            ("wake_at", found.wake_at, seen.wake_at),
        ):
            if listed != true and not (seen.archived and what in {"label", "wake_at"}):
                yield what, listed, true
