"""Archives: finished streams leave a journal for a file of their own, and the proof of them stays.

What is left in the journal is a tombstone for each record: its position, stream, version, time and digest. Readers get
an `Archived` marker in its place, positions stay gapless, the Merkle tree stays what it was, and command keys keep
working. The archive holds the records as they were, with a proof that they are the ones that the journal's tree has at
their positions. With it at hand (`open_archive`, `beside`) the journal reads as before.

What may leave is the caller's to know: whole streams, in units that leave together, such as a tree of runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import partial

import attrs
import trio

from trouper_journal import _archive_file, _archive_move, _archive_write
from trouper_journal._archive_file import ArchiveCheck as ArchiveCheck
from trouper_journal._archive_file import ArchiveInfo as ArchiveInfo
from trouper_journal._archive_file import is_archive as is_archive
from trouper_journal._archive_move import Moved as Moved
from trouper_journal._archive_rows import count_archived
from trouper_journal._archive_store import ArchivedStore as ArchivedStore
from trouper_journal._archive_store import ArchiveStore as ArchiveStore
from trouper_journal._archive_store import beside as beside
from trouper_journal._archive_store import open_archive as open_archive
from trouper_journal._archived import Archived as Archived
from trouper_journal._archived import refuse
from trouper_journal._errors import ArchiveRefused
from trouper_journal._journal import Journal
from trouper_journal._opening import real_path
from trouper_journal._printable import Plain
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore

Progress = Callable[[int, int], None]


def _nobody(_done: int, _total: int) -> None:
    """Where nobody wants to know."""


async def write_archive(
    journal: Journal,
    target: str | os.PathLike[str],
    units: Sequence[Collection[str]],
    *,
    new_id: bytes,
    now: int,
    progress: Progress = _nobody,
) -> ArchiveCheck:
    """Copy streams of a journal into a new archive and check it. Nothing is taken out of the journal yet.

    The archive appears under its name only once it is whole, checked and on disk. Cancelled, nothing is left of it.

    Args:
        journal: The journal; anybody may go on using it.
        target: The archive's file, which must not be there.
        units: Names of streams. Those of a unit leave together or not at all: streams of one erasure domain must be in
            one unit.
        new_id: 16 random bytes.
        now: Time of creation, ns UTC.
        progress: Called with positions passed and their total.

    Raises:
        ArchiveRefused: The journal is not in a file; there is something at ``target``; a stream does not exist, or is
            archived already.
        JournalCorrupt: The journal does not agree with its own root.
        JournalError: The storage failed.
        OSError: The archive cannot be written.
    """
    path, where = _path_of(journal), real_path(target)
    told = _from_thread(progress)
    write = partial(_archive_write.write_archive, path, where, units, new_id=new_id, now=now, told=told)
    await trio.to_thread.run_sync(write)
    return await check_archive(where)


async def check_archive(path: str | os.PathLike[str], progress: Progress = _nobody) -> ArchiveCheck:
    """Check an archive by itself: every record's digest and numbers, every large value, and all against its root.

    That the root is the journal's at that size, the journal tells, or a checkpoint of it.

    Args:
        path: The archive.
        progress: Called with the records checked and their total.

    Raises:
        NotAJournal: It is something else, or of a newer layout or format.
        JournalCorrupt: Something in it is not as it was; names the position.
        StorageUnreadable: It is not there, or cannot be read by this user.
    """
    told = _from_thread(progress)
    return await trio.to_thread.run_sync(_archive_file.check, real_path(path), told)


async def move_to_archive(
    journal: Journal,
    archive: str | os.PathLike[str],
    *,
    at: int,
    allowed: Callable[[str], bool],
    progress: Progress = _nobody,
) -> Moved:
    """Delete from a journal, unit by unit, what an archive holds, and leave tombstones.

    May be repeated at any time, also after the process died within it: what was moved is left alone. Nobody must
    drive the journal otherwise: do it in ``async with journal.drive(...)``. Cancelled, units that were moved stay so.

    Args:
        journal: The journal.
        archive: The archive; it is checked first.
        at: The journal's last position as far as it was looked whether streams may leave. Once it has moved on, nothing
            more is deleted (``Moved.stale``): look again.
        allowed: Whether a stream may leave; called in another thread. A unit leaves if all of its streams may.
        progress: Called with the records moved and their total.

    Raises:
        ArchiveRefused: The archive is of another journal, its records are not those of this one, or one of them is
            the journal's last, which stays: append something first.
        JournalCorrupt: The archive is damaged; nothing was deleted.
        StorageBusy, StorageFull, StorageReadOnly: Nothing more was deleted.
        JournalBroken: Whether the last unit was moved is not known: repeat it.
    """
    path, where = _path_of(journal), real_path(archive)
    await check_archive(where)
    told = _from_thread(progress)
    return await trio.to_thread.run_sync(_archive_move.move, path, where, at, allowed, told)


async def shrink(journal: Journal) -> bool:
    """Give the space of deleted records back to the file system; False where another process uses the file just now.

    It writes the whole file anew, beside itself, so it needs that much room for a while. Others may read meanwhile,
    and wait to write.

    Raises:
        StorageFull, StorageReadOnly, JournalError: It could not; the journal is as it was.
    """
    return await trio.to_thread.run_sync(_archive_move.shrink, _path_of(journal))


async def refuse_archived(journal: Journal, *streams: str) -> None:
    """Go on only if these streams can be read here. Streams that do not exist are no concern of it.

    Raises:
        RecordArchived: One of them was archived, and its archive is not at hand; the first is named.
    """
    for stream in streams:
        for record in await journal.read_page(stream, limit=1):
            if isinstance(record, Archived):
                raise refuse(record)


@attrs.frozen(slots=False, repr=False, eq=False)
class LeftOut(Plain):
    """What of a journal is in archives that are not at hand.

    Attributes:
        records: How many records.
        streams: How many streams, of those that were asked for.
    """

    records: int = 0
    streams: int = 0


async def left_out(journal: Journal, *, prefix: str = "", after: int = 0) -> LeftOut:
    """What whoever reads all of a journal does not see, because it is in archives that are not at hand.

    Args:
        journal: The journal, opened with ``read_only=True``. Of an archive by itself nothing is left out.
        prefix: How the names of the streams begin that are counted.
        after: Only records behind this position.

    Raises:
        StorageBusy, JournalCorrupt, JournalBroken: It cannot be read.
    """
    store = journal.store
    at_hand: frozenset[bytes] = frozenset()
    if isinstance(store, ArchivedStore):
        at_hand = frozenset(archive.info.id for archive in store.archives)
        store = store.inner
    if not isinstance(store, ReadOnlySQLiteStore):
        await trio.lowlevel.checkpoint()
        return LeftOut()
    rows = await store.query(partial(count_archived, prefix=prefix, after=after))
    missing = [(records, streams) for archive, records, streams in rows if archive not in at_hand]
    return LeftOut(sum(records for records, _ in missing), sum(streams for _, streams in missing))


def _from_thread(progress: Progress) -> Progress:
    """Call it in Trio's thread; there a cancelled caller ends the work at the next call."""

    def told(done: int, total: int) -> None:
        trio.from_thread.run_sync(progress, done, total)

    return told


def _path_of(journal: Journal) -> str:
    if journal.path is None:
        raise ArchiveRefused("only a journal in a file can be archived")
    return journal.path
