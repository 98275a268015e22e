"""Archiving: choose what is over, write and check the archive, record it, take it out, give the space back.

Nobody may drive the journal meanwhile: a runtime folds what it drives, and must not find it gone. Others may go on
reading and commanding; what they do is looked at again before anything is deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

import trio
from attrs import frozen

from trouper.audit.archivable import Refused, Selection, choose
from trouper.core.archive_events import ARCHIVES, ArchiveMade
from trouper.core.events import Principal
from trouper.runtime.restoring import kept_head
from trouper_journal import ArchiveRefused, Clock, Journal, Key, Plain, StorageBusy, SystemClock, plain_digest
from trouper_journal.archive import ArchiveCheck, check_archive, move_to_archive, open_archive, shrink, write_archive

Progress = Callable[[str, int, int], None]

_TRIES: Final = 20


@frozen(slots=False, repr=False, eq=False)
class ArchiveReport(Plain):
    """What was done.

    Attributes:
        archive: What the archive holds; None where there was nothing to archive.
        moved: How many records left the journal now.
        kept: Streams that are in the archive, and stay in the journal as well, because they may not leave any more.
        refused: What had to stay, and why.
        resumed: Whether the archive was there already, and only what was begun has been finished.
        before: Size of the journal's file and log in bytes, before.
        after: The same, afterwards.
        shrunk: Whether the space was given back; not where another process used the file just then.
    """

    archive: ArchiveCheck | None
    moved: int = 0
    kept: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    resumed: bool = False
    before: int = 0
    after: int = 0
    shrunk: bool = False


def _nobody(_what: str, _done: int, _total: int) -> None:
    """Where nobody wants to know."""


async def archive_finished(
    journal: Journal,
    target: str | os.PathLike[str],
    selection: Selection,
    *,
    by: Principal | None = None,
    reason: str | None = None,
    clock: Clock | None = None,
    random: Callable[[int], bytes] = os.urandom,
    progress: Progress = _nobody,
) -> ArchiveReport:
    """Move what is finished out to an archive.

    Killed or cancelled at any moment, nothing is lost: called again with the same archive it goes on where it was.

    Args:
        journal: The journal, opened with the runtime's events, for writing.
        target: The archive's file. If it is there, and is an archive of this journal, what it holds is taken out of
            the journal; nothing is added to it.
        selection: What to archive.
        by: Who wants it.
        reason: Why.
        clock: Source of time.
        random: Source of random bytes.
        progress: Called with what is done, how much of it, and of how much.

    Raises:
        JournalInUse: Somebody drives the journal.
        JournalRolledBack: It was put back to an older copy, and nobody has accepted that.
        ArchiveRefused: Something that is named must stay (the first reason is told), or the file does not fit.
        UnknownRun, UnknownSession: What is named is not there.
        RecordArchived: It was archived already.
        JournalError: The storage failed.
    """
    time = clock or SystemClock()
    async with journal.drive("archive") as fence, kept_head(journal):
        before = await trio.to_thread.run_sync(_size, journal.path)
        refused: tuple[Refused, ...] = ()
        resumed = await trio.Path(target).exists()
        if resumed:
            found = await check_archive(target, partial(progress, "checking"))
        else:
            choice = await choose(journal, selection)
            refused = choice.refused
            if reasons := [each.reason for each in refused if each.named]:
                raise ArchiveRefused("; ".join(dict.fromkeys(reasons)))
            if not choice.units:
                return ArchiveReport(None, refused=refused, before=before, after=before)
            told = partial(progress, "writing")
            found = await write_archive(journal, target, choice.units, new_id=random(16), now=time.now(), progress=told)
        await _record(journal, found, _made(found, target, by, reason), fence)
        moved, kept = await _move(journal, target, progress)
        shrunk = await shrink(journal)
        after = await trio.to_thread.run_sync(_size, journal.path)
    return ArchiveReport(found, moved, kept, refused, resumed, before, after, shrunk)


def _made(found: ArchiveCheck, target: str | os.PathLike[str], by: Principal | None, reason: str | None) -> ArchiveMade:
    info = found.info
    file = os.path.basename(os.fsdecode(target))
    return ArchiveMade(info.id.hex(), file, found.records, found.streams, info.size, info.root.hex(), by, reason)


async def _record(journal: Journal, found: ArchiveCheck, made: ArchiveMade, fence: int) -> None:
    """Say in the journal what is about to leave it, once for each archive. It is also what now stands last."""
    if found.info.journal_id != journal.id:
        raise ArchiveRefused(f"{made.file} is an archive of another journal ({found.info.journal_id.hex()})")
    key = Key(f"archive:{made.archive}", plain_digest(made.archive))
    await journal.append(ARCHIVES, [made], key=key, fence=fence)


async def _move(journal: Journal, target: str | os.PathLike[str], progress: Progress) -> tuple[int, tuple[str, ...]]:
    """Take out of the journal what the archive holds, as far as it may leave now, too."""
    selection = Selection(streams=await _streams_of(target))
    records = 0
    for _ in range(_TRIES):
        choice = await choose(journal, selection)
        moved = await move_to_archive(
            journal,
            target,
            at=choice.position,
            allowed=choice.streams.__contains__,
            progress=partial(progress, "moving"),
        )
        records += moved.records
        if not moved.stale:
            return records, moved.kept
    raise StorageBusy("others write to the journal all the time: give the same command again, when less is going on")


async def _streams_of(target: str | os.PathLike[str]) -> frozenset[str]:
    async with open_archive(target) as archive, Journal.over(archive) as journal:
        return frozenset([head.stream async for head in journal.streams()])


def _size(path: str | None) -> int:
    found = 0
    for name in () if path is None else (path, f"{path}-wal"):
        try:
            found += os.stat(name).st_size
        except OSError:
            continue
    return found
