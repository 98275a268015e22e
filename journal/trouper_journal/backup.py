"""Copies of a journal that is in use: consistent, and verified before they get their name."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import attrs
import trio

from trouper_journal._errors import JournalCorrupt, StorageFull, StorageReadOnly
from trouper_journal._journal import Journal
from trouper_journal._opening import real_path
from trouper_journal._printable import Plain
from trouper_journal._sqlite_connection import translating
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal._sqlite_rows import read_head
from trouper_journal._whole_file import give_name, sync_file, sync_folder, unfinished

Progress = Callable[[str, int, int], None]

_STEP: Final = 256
"""Pages copied at a time: one megabyte, between two looks whether to stop."""


@attrs.frozen(slots=False, repr=False, eq=False)
class Backup(Plain):
    """A copy that was made.

    Attributes:
        path: Where it is.
        journal_id: The journal's id in hexadecimal.
        records: How many records it holds, all of them verified.
        root: The Merkle root over them, in hexadecimal.
        size: Bytes of the file.
    """

    path: str
    journal_id: str
    records: int
    root: str
    size: int


async def back_up(
    journal: str | os.PathLike[str], to: str | os.PathLike[str], *, progress: Progress | None = None
) -> Backup:
    """Copy a journal's file as it stands at one moment, also while it is written to, and verify the copy.

    Nobody is held up, and nothing is written to the original. While the copy is made, the log beside a journal that is
    written to cannot shrink. The copy has its name once it is whole, verified and on disk; until then, and where this
    is cancelled or fails, there is nothing of that name.

    Args:
        journal: The journal's file.
        to: Where the copy goes: a file that is not there yet.
        progress: Called with what goes on (``copying``, ``verifying``), how much of it is done, and of how much.

    Raises:
        FileExistsError: There is something of that name; nothing is overwritten.
        JournalCorrupt: The copy does not verify, so that the journal itself is damaged.
        StorageReadOnly, StorageFull: The copy cannot be written.
        NotAJournal, StorageUnreadable, StorageBusy, JournalBroken: The journal cannot be read.
    """
    source = real_path(journal)
    target = _absolute(to)
    _refuse_what_is_there(target)
    told: Progress = progress or (lambda _what, _done, _total: None)
    with ExitStack() as stack:
        part = _begun(stack, target)
        await trio.to_thread.run_sync(_copy, source, part, told)
        async with Journal.open(part, read_only=True) as copy:
            found = await copy.verify(partial(told, "verifying"))
        if not found.ok:
            first = found.problems[0]
            raise JournalCorrupt(
                f"the copy of {source} does not verify ({first.message}), so the journal is damaged: "
                "see what `trouper verify` finds, and keep its files as they are",
                first.position,
            )
        size = os.stat(part).st_size
        give_name(part, target)
        sync_folder(target)
    return Backup(target, found.journal_id, found.records, found.root, size)


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fsdecode(path))


def _begun(stack: ExitStack, target: str) -> str:
    """The name that the copy has until it is whole."""
    try:
        # Whoever may not read the journal may not read the copy either, not even for a moment.
        return stack.enter_context(unfinished(target, mode=0o600))
    except OSError as error:
        folder = os.path.dirname(target)
        raise StorageReadOnly(f"the copy cannot be written to {folder}: {error.strerror}") from error


def _refuse_what_is_there(target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already: nothing is overwritten")
    for ending in ("-wal", "-journal"):
        if os.path.lexists(f"{target}{ending}"):
            raise FileExistsError(f"{target}{ending} is there already, and would be taken for the copy's: remove it")


def _copy(source: str, part: str, told: Progress) -> None:
    with ReadOnlyFile(source) as file:
        file.open()
        file.read(lambda database: _copy_database(database, part, told))
    try:
        # Whoever may read the journal may read the copy; its owner can write to it, also where the journal is evidence.
        os.chmod(part, stat.S_IMODE(os.stat(source).st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        sync_file(part)
    except OSError as error:
        raise StorageFull(f"the copy {part} could not be brought to disk: {error.strerror}") from error


def _copy_database(database: sqlite3.Connection, part: str, told: Progress) -> None:
    def step(_status: int, remaining: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        told("copying", total - remaining, total)

    # One view for all steps: without it, each commit meanwhile would begin the copy anew.
    database.execute("BEGIN")
    try:
        read_head(database)
        target = sqlite3.connect(part, isolation_level=None)
        try:
            translating(lambda: database.backup(target, pages=_STEP, progress=step, sleep=0), part)
        finally:
            target.close()
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")
