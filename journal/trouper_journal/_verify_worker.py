"""A worker process of ``verify``: reads from standard input what to check, and writes what it found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from trouper_journal._merkle import CompactRange
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal._verify_fast import ChunkStream, GoodChunk, check_chunk, other_streams
from trouper_journal._worker_side import begin, send, serve

CHUNK_OF: Final = "chunk"
"""Begins a lot that names the first and last position of a chunk, and positions up to which the tree is wanted."""

STREAMS_OF: Final = "streams"
"""Begins a lot that names streams, each with its version and chain."""


def main() -> None:
    """Serve until standard input ends."""
    begin()
    try:
        with ReadOnlyFile(sys.argv[1]) as file:
            journal_id = file.open()
            serve(lambda lot: _found(file, journal_id, lot))
    except Exception as error:  # noqa: BLE001 -- the edge of this process: the other one tells what went wrong
        send({"failed": f"{error}" or repr(error)})


def chunk_to_plain(chunk: GoodChunk) -> list[object]:
    """A chunk as JSON can hold it."""
    return [
        chunk.first,
        chunk.last,
        chunk.tree.to_bytes().hex(),
        [[size, tree.to_bytes().hex()] for size, tree in chunk.roots],
        [[each.name, each.first, each.version, each.position, each.label, each.wake_at, each.chain]
         for each in chunk.streams],
        chunk.edges,
        [value.hex() for value in chunk.values],
    ]  # fmt: skip


def chunk_from_plain(found: Sequence[object]) -> GoodChunk:
    """A chunk from what `chunk_to_plain` made of it."""
    first, last, tree, roots, streams, edges, values = found
    assert isinstance(first, int)
    assert isinstance(last, int)
    assert isinstance(roots, list)
    assert isinstance(streams, list)
    assert isinstance(edges, list)
    assert isinstance(values, list)
    return GoodChunk(
        first,
        last,
        _tree(tree),
        [(size, _tree(data)) for size, data in roots],
        [ChunkStream(*each) for each in streams],
        [(name, start, stop) for name, start, stop in edges],
        [bytes.fromhex(value) for value in values],
    )


def _tree(data: object) -> CompactRange:
    assert isinstance(data, str)
    return CompactRange.from_bytes(bytes.fromhex(data))


def _found(file: ReadOnlyFile, journal_id: bytes, lot: Sequence[str]) -> list[object]:
    what, *rest = lot
    if what == STREAMS_OF:
        streams = [(rest[at], int(rest[at + 1]), int(rest[at + 2])) for at in range(0, len(rest), 3)]
        return list(file.read(lambda database: other_streams(database, streams)))
    first, last, *sizes = map(int, rest)
    found = file.read(lambda database: check_chunk(database, journal_id, first, last, sizes))
    return [] if found is None else chunk_to_plain(found)
