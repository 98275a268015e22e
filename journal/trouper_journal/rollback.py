"""The side file beside a journal that lets a restored old copy be noticed.

``<journal>.head`` says of which journal it is, how many records that had, and the Merkle tree over them (its compact
range, as in the journal itself). A journal that has these records, whatever came after them, is as it was left; one
that has fewer, or others, was put back to an earlier state. The file proves nothing to others: a signed checkpoint
does.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import attrs
import trio

from trouper_journal._errors import JournalCorrupt
from trouper_journal._journal import Journal
from trouper_journal._leaves import leaves_of
from trouper_journal._merkle import CompactRange
from trouper_journal._printable import Plain
from trouper_journal._sqlite_log import refuse_foreign_log

HeadState: TypeAlias = Literal["matches", "missing", "damaged", "foreign", "rolled_back"]
"""How a journal stands to its side file; only ``rolled_back`` holds anybody up."""

_FORMAT: Final = 1
_PAGE: Final = 1024
_LARGEST: Final = 16_384


@attrs.frozen(slots=False, repr=False, eq=False)
class KnownHead(Plain):
    """Where a journal stood.

    Attributes:
        journal_id: The journal's id.
        tree: The compact range over all of its records.
    """

    journal_id: bytes
    tree: CompactRange

    @property
    def size(self) -> int:
        """How many records it had."""
        return self.tree.size

    @property
    def root(self) -> str:
        """The root of its Merkle tree, in hexadecimal."""
        return self.tree.root().hex()


@attrs.frozen(slots=False, repr=False, eq=False)
class Comparison(Plain):
    """A journal held against its side file.

    Attributes:
        state: How it stands to it.
        now: Where the journal stands.
        before: Where it stood by the side file; None where that cannot be read.
    """

    state: HeadState
    now: KnownHead
    before: KnownHead | None = None


def head_path(journal: str) -> str:
    """Name of the side file of a journal's file."""
    return f"{journal}.head"


def encode_head(head: KnownHead) -> bytes:
    """The bytes of a side file."""
    told = {
        "format": _FORMAT,
        "journal": head.journal_id.hex(),
        "size": head.size,
        "root": head.root,
        "tree": [each.hex() for each in head.tree.hashes],
    }
    return json.dumps(told).encode() + b"\n"


def decode_head(data: bytes) -> KnownHead | None:
    """What a side file says; None where it is damaged: its root is not that of its own tree, for example."""
    try:
        told = json.loads(data)
        size, hashes = told["size"], tuple(bytes.fromhex(each) for each in told["tree"])
        if told["format"] != _FORMAT or type(size) is not int or size < 0:
            return None
        tree = CompactRange.from_bytes(CompactRange(size, hashes).to_bytes() if size or hashes else b"")
        head = KnownHead(bytes.fromhex(told["journal"]), tree)
        sound = len(head.journal_id) == 16 and all(len(each) == 32 for each in hashes) and head.root == told["root"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, JournalCorrupt):
        return None
    return head if sound else None


async def compare_head(journal: Journal) -> Comparison:
    """Hold a journal in a file against its side file; reads the records that came since, and changes nothing.

    Raises:
        ValueError: The journal is not in a file.
        StorageBusy, JournalBroken: It cannot be read.
        JournalCorrupt: A record is missing from it.
    """
    if journal.path is None:
        raise ValueError("a journal that is not in a file has no side file")
    # In this order: beside a driver that writes both meanwhile, the journal is never behind what is read of it here.
    data = await trio.to_thread.run_sync(_read, head_path(journal.path))
    now = await head_of(journal)
    if data is None:
        return Comparison("missing", now)
    before = decode_head(data)
    if before is None:
        return Comparison("damaged", now)
    if before.journal_id != now.journal_id:
        return Comparison("foreign", now, before)
    same = before.size <= now.size and await _grown(journal, before.tree, now.size) == now.tree.root()
    return Comparison("matches" if same else "rolled_back", now, before)


async def check_log(journal: Journal) -> None:
    """Look whether the log beside a journal's file is that of this file, and not of one that it replaced.

    Whoever opens a journal for writing is refused where it is not; for those that only read.

    Raises:
        JournalCorrupt: Records that the log builds on are not there.
        StorageUnreadable, StorageBusy, JournalBroken: It cannot be read.
    """
    if journal.path is not None:
        await trio.to_thread.run_sync(refuse_foreign_log, journal.path)


async def head_of(journal: Journal) -> KnownHead:
    """Where a journal stands, durably.

    Raises:
        StorageBusy, JournalBroken: It cannot be read.
        JournalCorrupt: Its tree is none.
    """
    return KnownHead(journal.id, CompactRange.from_bytes((await journal.store.load((), ())).head.range))


async def write_head(journal: Journal) -> KnownHead:
    """Write down beside a journal's file where it stands; the side file is replaced at once, or stays as it was.

    For whoever drives the journal, and so for one at a time. A side file that is damaged, or of another journal, is
    kept aside as ``<journal>.head.old``.

    Raises:
        ValueError: The journal is not in a file.
        OSError: The side file cannot be written.
        StorageBusy, JournalBroken: The journal cannot be read.
    """
    if journal.path is None:
        raise ValueError("a journal that is not in a file has no side file")
    head = await head_of(journal)
    await trio.to_thread.run_sync(_write, head_path(journal.path), head)
    return head


async def _grown(journal: Journal, tree: CompactRange, size: int) -> bytes:
    """The root of a tree with the journal's further records up to a size."""
    while tree.size < size:
        page = await journal.store.read_all(tree.size, min(_PAGE, size - tree.size))
        tree = tree.extend(leaves_of(page, tree.size))
    return tree.root()


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError:
        # A folder, or no permission: something is there, and it tells nothing.
        return b""


def _write(path: str, head: KnownHead) -> None:
    there = _read(path)
    if there is not None:
        known = decode_head(there)
        if known is None or known.journal_id != head.journal_id:
            with suppress(OSError):
                os.replace(path, f"{path}.old")
    # What a killed process left of it is written over.
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            file.write(encode_head(head))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise
