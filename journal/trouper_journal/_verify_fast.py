"""The quick way through records of which nothing is wrong, over SQLite rows as they come.

It tells only whether a chunk of records is as it must be; where it is not, or might not be, the thorough way through
the same records finds out what is wrong. So nothing here has to say anything, and most journals are checked by this
alone, each worker process on chunks of its own.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import msgpack

from trouper_journal._codec import SALT_SIZE
from trouper_journal._digest import FORMAT
from trouper_journal._errors import JournalError
from trouper_journal._merkle import EMPTY_RANGE, CompactRange
from trouper_journal._printable import Printable
from trouper_journal._sealed import listed_in
from trouper_journal._values import references, unpack_map
from trouper_journal._verify_index import CHAIN_MASK, chain_of

CHUNK: Final = 4096
"""Records of a chunk: a power of two, so that the chunk's tree is a subtree of the journal's."""

_KEPT: Final = 2048
"""Byte strings and names that are remembered, as many of them recur."""

_ROWS: Final = (
    "SELECT position, stream_id, version, type, schema, recorded_at, key, label, wake_at, key_id, meta, facts, "
    "ifnull(content, x''), leaf, ifnull(large, 0) FROM events WHERE position BETWEEN ? AND ? ORDER BY position"
)
_BY_STREAM: Final = (
    "SELECT e.version, e.leaf FROM streams s JOIN events e ON e.stream_id = s.id WHERE s.name = ? "
    "ORDER BY e.version LIMIT ?"
)
_LARGE: Final = "SELECT data FROM large WHERE digest = ? LIMIT 1"
_HEADER: Final = struct.Struct(">BB16sQQqIBq")
_LENGTH: Final = struct.Struct(">I")
_EMPTY: Final = hashlib.sha256(b"").digest()
_sha256 = hashlib.sha256

StreamSum: TypeAlias = tuple[str, int, int]
"""A stream with its version, and the chain over its records."""

Span: TypeAlias = tuple[str, int, int]
"""A command key with the first and the last position of records that have it."""

_Around: TypeAlias = tuple[str | None, str | None, bytes, str | None]
"""Key, label, meta and key id: what the records of a commit mostly have in common."""

_DOUBTS: Final = (
    struct.error,
    TypeError,
    AttributeError,
    ValueError,
    OverflowError,
    JournalError,
    sqlite3.Error,
    msgpack.UnpackException,
)


@attrs.define(slots=True, repr=False, eq=False)
class ChunkStream(Printable):
    """What a chunk's records say of one stream.

    Attributes:
        name: The stream.
        first: Version of its first record in the chunk.
        version: Version of its last one.
        position: Position of its last one.
        label: The last that was not None.
        wake_at: That of the last one.
        chain: Sum over its records, as `chain_of` adds them up.
    """

    name: str
    first: int
    version: int
    position: int
    label: str | None
    wake_at: int | None
    chain: int


@attrs.define(slots=True, repr=False, eq=False)
class GoodChunk(Printable):
    """Records of which nothing is wrong by themselves.

    Attributes:
        first: Position of the first.
        last: Position of the last.
        tree: The tree over their leaves.
        roots: The trees over the leaves up to given positions.
        streams: What they say of each stream.
        edges: The keys of the first and of the last records, which may go on in other chunks; those in between were
            looked up.
        values: Digests of the large values that they refer to, each of which was checked.
    """

    first: int
    last: int
    tree: CompactRange
    roots: list[tuple[int, CompactRange]]
    streams: list[ChunkStream]
    edges: list[Span]
    values: list[bytes]


def check_chunk(
    database: sqlite3.Connection, journal_id: bytes, first: int, last: int, sizes: Sequence[int] = ()
) -> GoodChunk | None:
    """Check the records of a chunk; None where anything is or might be wrong.

    Args:
        database: The journal's file.
        journal_id: Its id.
        first: Position of the first record.
        last: Position of the last record.
        sizes: Positions in the chunk, in order, up to which the tree is wanted.
    """
    try:
        return _Chunk(database, journal_id).check(first, last, sizes)
    except _DOUBTS:
        return None


def other_streams(database: sqlite3.Connection, streams: Sequence[StreamSum]) -> list[str]:
    """The streams that, read as whoever folds them reads them, do not or might not give the records that were seen."""
    return [name for name, version, chain in streams if not _is_same(database, name, version, chain)]


def _is_same(database: sqlite3.Connection, name: str, version: int, chain: int) -> bool:
    last = seen = 0
    try:
        for last, leaf in database.execute(_BY_STREAM, (name, version)):
            seen = chain_of(seen, last, leaf)
    except _DOUBTS:
        return False
    return (last, seen) == (version, chain)


class _Doubt(ValueError):
    """Something might be wrong."""


class _Chunk:
    def __init__(self, database: sqlite3.Connection, journal_id: bytes) -> None:
        self._database = database
        self._journal_id = journal_id
        self._streams: dict[int, ChunkStream] = {}
        self._prefixes: dict[int, bytes] = {}
        self._kinds: dict[str, bytes] = {}
        self._frames: dict[_Around, bytes] = {}
        self._maps: set[bytes] = set()
        self._values: dict[bytes, None] = {}

    def check(self, first: int, last: int, sizes: Sequence[int]) -> GoodChunk:
        leaves: list[bytes] = []
        spans: list[Span] = []
        begun = first
        journal_id, streams, frames, kinds = self._journal_id, self._streams, self._frames, self._kinds
        maps, pack, number_of = self._maps, _HEADER.pack, int.from_bytes
        key_now: str | None = None
        around: _Around = (None, None, b"", None)
        behind = self._frame(around)
        expected = first
        for (
            at, stream_id, version, kind, schema, time, key, label, wake, key_id, meta, facts, content, leaf, large,
        ) in self._database.execute(_ROWS, (first, last)):  # fmt: skip
            if at != expected:
                raise _Doubt
            expected += 1
            if key != around[0] or label != around[1] or meta != around[2] or key_id != around[3]:
                around = (key, label, meta, key_id)
                behind = frames.get(around) or self._frame(around)
            stream = streams.get(stream_id)
            if stream is None:
                stream = self._begin(stream_id, version)
            elif version != stream.version + 1:
                raise _Doubt
            digest = _sha256(
                pack(0, FORMAT, journal_id, at, version, time, schema, wake is not None, 0 if wake is None else wake)
                + self._prefixes[stream_id]
                + (kinds.get(kind) or self._kind(kind))
                + behind
                + (_sha256(facts).digest() if facts or facts.__class__ is not bytes else _EMPTY)
                + (_sha256(content).digest() if content or content.__class__ is not bytes else _EMPTY)
            ).digest()
            if digest != leaf:
                raise _Doubt
            if facts and facts not in maps:
                self._map(facts)
            if content or large or large.__class__ is not int:
                self._content(key_id, content, large)
            leaves.append(leaf)
            stream.version = version
            stream.position = at
            stream.wake_at = wake
            if label is not None:
                stream.label = label
            # As `chain_of`, cut to its size in the end.
            stream.chain += number_of(leaf[:8], "big") * (2 * version + 1)
            if key != key_now:
                if key_now is not None:
                    spans.append((key_now, begun, at - 1))
                key_now, begun = key, at
        if expected != last + 1:
            raise _Doubt
        if key_now is not None:
            spans.append((key_now, begun, last))
        return self._good(first, last, sizes, leaves, spans)

    def _good(self, first: int, last: int, sizes: Sequence[int], leaves: list[bytes], spans: list[Span]) -> GoodChunk:
        for stream in self._streams.values():
            stream.chain &= CHAIN_MASK
        edges = [span for span in spans if span[1] == first or span[2] == last]
        for span in spans:
            if span[1] != first and span[2] != last:
                self._key(span)
        return GoodChunk(
            first,
            last,
            tree_of(leaves),
            [(size, tree_of(leaves[: size - first + 1])) for size in sizes],
            list(self._streams.values()),
            edges,
            list(self._values),
        )

    def _frame(self, around: _Around) -> bytes:
        key, label, meta, key_id = around
        unpack_map(meta)
        texts = b"".join(b"\0" if text is None else b"\1" + _named(text) for text in (key, label, key_id))
        behind = texts + (_sha256(meta).digest() if meta or meta.__class__ is not bytes else _EMPTY)
        if len(self._frames) > _KEPT:
            self._frames.clear()
        self._frames[around] = behind
        return behind

    def _begin(self, stream_id: int, version: int) -> ChunkStream:
        row = self._database.execute("SELECT name FROM streams WHERE id = ?", (stream_id,)).fetchone()
        if row is None:
            raise _Doubt
        (name,) = row
        self._prefixes[stream_id] = _named(name)
        self._streams[stream_id] = stream = ChunkStream(name, version, version - 1, 0, None, None, 0)
        return stream

    def _kind(self, kind: str) -> bytes:
        self._kinds[kind] = named = _named(kind)
        return named

    def _map(self, data: bytes) -> None:
        unpack_map(data)
        if len(self._maps) > _KEPT:
            self._maps.clear()
        self._maps.add(data)

    def _content(self, key_id: str | None, content: bytes, large: int) -> None:
        if large.__class__ is not int:
            raise _Doubt
        if key_id is not None:
            # Sealed: all that its bytes tell is which large values they need.
            found = listed_in(content, large)
        elif len(content) <= SALT_SIZE:
            raise _Doubt
        elif not large:
            unpack_map(content[SALT_SIZE:])
            return
        else:
            found = references(content[SALT_SIZE:])
        if len(found) != large:
            raise _Doubt
        for reference in found:
            if reference.digest in self._values:
                continue
            row = self._database.execute(
                "SELECT data FROM large WHERE digest = ? LIMIT 1", (reference.digest,)
            ).fetchone()
            if row is None or len(row[0]) != reference.size or _sha256(row[0]).digest() != reference.digest:
                raise _Doubt
            self._values[reference.digest] = None

    def _key(self, span: Span) -> None:
        row = self._database.execute("SELECT first, last FROM keys WHERE name = ?", (span[0],)).fetchone()
        if row != span[1:]:
            raise _Doubt


def tree_of(leaves: Sequence[bytes]) -> CompactRange:
    """The tree over these leaves; by whole levels where they are a power of two, which is half the work."""
    size = len(leaves)
    if not size or size & (size - 1):
        return EMPTY_RANGE.extend(leaves)
    level = list(leaves)
    while len(level) > 1:
        nodes: Iterator[bytes] = iter(level)
        level = [_sha256(b"\1" + left + right).digest() for left, right in zip(nodes, nodes, strict=True)]
    return CompactRange(size, tuple(level))


def _named(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(data)) + data
