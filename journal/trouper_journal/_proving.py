"""Proofs and checkpoints of an opened journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from trouper_journal._checkpoints import Checkpoint, SignedCheckpoint, sign_checkpoint
from trouper_journal._errors import CheckpointMismatch, JournalCorrupt
from trouper_journal._journal import Journal
from trouper_journal._leaves import leaves_of
from trouper_journal._notes import SignerKey
from trouper_journal._printable import Plain
from trouper_journal._proofs import HASH_SIZE, NodeCollector, consistency_spans, inclusion_spans
from trouper_journal._verify_chunks import Scanned

PAGE = 1024
"""Records read at a time."""

LEAVES = 8192
"""Leaves read at a time, where they can be read alone."""

_LEAVES = "SELECT leaf FROM events WHERE position > ? AND position <= ? ORDER BY position"

Progress = Callable[[int, int], None]


@attrs.frozen(slots=False, repr=False, eq=False)
class Inclusion(Plain):
    """Proofs that records are in a journal.

    Attributes:
        size: Number of records of the tree.
        root: The tree's root.
        leaves: The records' leaves, by position.
        paths: The proofs, by position; a record's index in the tree is its position less one.
    """

    size: int
    root: bytes
    leaves: Mapping[int, bytes]
    paths: Mapping[int, tuple[bytes, ...]]


@attrs.frozen(slots=False, repr=False, eq=False)
class Growth(Plain):
    """A proof that a journal grew from one size to another.

    Attributes:
        old: The smaller number of records.
        new: The larger number of records.
        old_root: Root of the tree over the fewer records.
        new_root: Root of the tree over the more records.
        path: The proof.
    """

    old: int
    new: int
    old_root: bytes
    new_root: bytes
    path: tuple[bytes, ...]


async def prove_inclusion(
    journal: Journal, positions: Iterable[int], *, size: int | None = None, progress: Progress | None = None
) -> Inclusion:
    """Prove that records are in the tree over a journal's first ``size`` records.

    One pass over the leaves as they are stored, however many records are asked for; whether they are those of the
    records is for ``verify`` to find, and for whoever checks the proof.

    Args:
        journal: The opened journal.
        positions: The records.
        size: How many records the tree is over; by default all that there are now.
        progress: Called after each page with the leaves read and their total.

    Raises:
        ValueError: The tree has no record at one of the positions, or the journal has fewer records.
        JournalCorrupt: A leaf is missing.
    """
    size = await _size(journal, size)
    wanted = sorted(set(positions))
    spans = {position: inclusion_spans(position - 1, size) for position in wanted}
    own = [(position - 1, position) for position in wanted]
    collector = NodeCollector([*own, *(span for each in spans.values() for span in each)])
    await _feed(journal, collector, size, progress)
    return Inclusion(
        size,
        collector.root(),
        {position: collector.nodes([(position - 1, position)])[0] for position in wanted},
        {position: collector.nodes(each) for position, each in spans.items()},
    )


async def prove_growth(
    journal: Journal, old: int, new: int | None = None, *, progress: Progress | None = None
) -> Growth:
    """Prove that the tree over a journal's first ``old`` records is the beginning of that over ``new`` records.

    Args:
        journal: The opened journal.
        old: The smaller number of records.
        new: The larger number; by default all that there are now.
        progress: Called after each page with the leaves read and their total.

    Raises:
        ValueError: The journal does not have so many records.
        JournalCorrupt: A leaf is missing.
    """
    new = await _size(journal, new)
    spans = consistency_spans(old, new)
    collector = NodeCollector(spans)
    await _feed(journal, collector, old, progress)
    old_root = collector.root()
    await _feed(journal, collector, new, progress)
    return Growth(old, new, old_root, collector.root(), collector.nodes(spans))


async def sign_head(
    journal: Journal,
    key: SignerKey,
    earlier: Sequence[Checkpoint] = (),
    *,
    progress: Progress | None = None,
    jobs: int = 1,
) -> SignedCheckpoint:
    """Sign where a journal stands, having verified it, and that it still contains all that was signed before.

    All of it is verified, not only what is new: a signature under damaged records would vouch for them.

    Args:
        journal: The opened journal.
        key: The journal's key; its name becomes the origin.
        earlier: The checkpoints that were signed before.
        progress: Called with the records checked and their total.
        jobs: As for ``Journal.verify``.

    Raises:
        JournalCorrupt: The journal does not verify; nothing is signed. The position is the first bad one.
        CheckpointMismatch: The journal contradicts an earlier checkpoint; nothing is signed.
        StorageBusy, JournalBroken: The journal could not be read.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    found = await journal.verify(progress, sizes=[each.size for each in earlier], jobs=jobs)
    if not found.ok:
        first = next((each for each in found.problems if each.position is not None), found.problems[0])
        raise JournalCorrupt(f"{first.message}: nothing was signed, `trouper verify` tells more", first.position)
    check_grown(earlier, found.records, {size: bytes.fromhex(root) for size, root in found.roots.items()})
    return sign_checkpoint(Checkpoint(key.name, found.records, bytes.fromhex(found.root)), key)


def check_grown(earlier: Sequence[Checkpoint], size: int, roots: Mapping[int, bytes]) -> None:
    """Check that a journal of this size, with these roots, contains all earlier checkpoints.

    Raises:
        CheckpointMismatch: It does not.
    """
    for checkpoint in earlier:
        if checkpoint.size > size:
            message = f"{checkpoint.size} records were signed, the journal has {size}: it is an old copy, or was cut"
            raise CheckpointMismatch(message, checkpoint.size)
        if roots[checkpoint.size] != checkpoint.root:
            message = f"the first {checkpoint.size} records are not those that were signed: they were changed"
            raise CheckpointMismatch(message, checkpoint.size)


async def roots_at(journal: Journal, sizes: Iterable[int], *, progress: Progress | None = None) -> dict[int, bytes]:
    """The roots of the trees over a journal's first so many records, from the leaves as stored.

    Sizes beyond the journal's are left out.

    Raises:
        JournalCorrupt: A leaf is missing.
    """
    position = await journal.position()
    collector = NodeCollector(())
    roots: dict[int, bytes] = {}
    for size in sorted(size for size in set(sizes) if size <= position):
        await _feed(journal, collector, size, progress)
        roots[size] = collector.root()
    return roots


async def _size(journal: Journal, size: int | None) -> int:
    position = await journal.position()
    if size is not None and not 0 <= size <= position:
        raise ValueError(f"the journal has {position} records, not {size}")
    return position if size is None else size


async def _rows(journal: Journal, after: int, count: int) -> list[bytes]:
    """The leaves of so many records from a file's rows as they are; none where one of them is not there as a row."""
    if not isinstance(journal.store, Scanned):
        return []

    def scan(database: sqlite3.Connection) -> list[bytes]:
        rows = database.execute(_LEAVES, (after, after + count)).fetchall()
        good = len(rows) == count and all(type(leaf) is bytes and len(leaf) == HASH_SIZE for (leaf,) in rows)
        return [leaf for (leaf,) in rows] if good else []

    return await journal.store.scan(scan)


async def _feed(journal: Journal, collector: NodeCollector, size: int, progress: Progress | None) -> None:
    while collector.size < size:
        if leaves := await _rows(journal, collector.size, min(LEAVES, size - collector.size)):
            collector.extend(leaves)
            if progress is not None:
                progress(collector.size, size)
            continue
        page = await journal.store.read_all(collector.size, min(PAGE, size - collector.size))
        collector.extend(leaves_of(page, collector.size))
        if progress is not None:
            progress(collector.size, size)
