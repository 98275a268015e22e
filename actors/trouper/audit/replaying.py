"""Replays a journal: in this process, or spread over worker processes that each open the file themselves.

Streams are handed out in small lots, and what comes back is given on in the order of the streams, so that nothing
grows with the journal: neither here nor in a worker, which holds one run's state at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio
from attrs import define, field

from trouper.audit.elsewhere import Elsewhere
from trouper.audit.refold import RUN, Files, files_of, open_beside, refold
from trouper.audit.replay_report import StreamReplay, from_plain
from trouper.core.events import REGISTRY
from trouper.errors import UnknownRun
from trouper_journal import Journal
from trouper_journal._workers import Lots, cores, spread
from trouper_journal.archive import beside, open_archive

if TYPE_CHECKING:
    from trouper_journal.sealing import KeyStore

PREFIXES: Final = (RUN, "session/", "definition/", "system/")
"""Streams that are Trouper's own; others are their owner's to fold."""

Progress: TypeAlias = Callable[[int, int], None]

_LOT: Final = 2_000
"""Records in a lot: some tenths of a second of work."""

_WORTH: Final = 20_000
"""Records for which starting another process is worth the while."""

_WORKER: Final = "trouper.audit.replay_worker"


def _file(path: str | os.PathLike[str]) -> Path:
    found = Path(path)
    if not found.is_file():
        raise FileNotFoundError(f"there is no journal {found}")
    return found


async def replay_streams(
    path: str | os.PathLike[str],
    run: str | None = None,
    *,
    archives: Sequence[str | os.PathLike[str]] = (),
    keys: KeyStore | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> AsyncGenerator[StreamReplay, None]:
    """Fold streams again, and compare the runs among them with today's rules; one result for each, in their order.

    Needs the file alone: no agent, tool, provider or key. The journal may be in use meanwhile: each stream is folded
    up to where it stands when its turn comes. Use it in ``contextlib.aclosing`` where it may be left early.

    Args:
        path: The journal's file.
        run: Id of the one run to replay; None for the whole journal.
        archives: Archives of the journal that are at hand.
        keys: Opens content that is sealed, without which its runs are folded and not compared. With keys that are not
            in files this process works alone.
        jobs: How many processes work; 1 for this one alone. By default as many as there are cores, and this one alone
            where there is little to do.
        progress: Called with records done and in all.

    Raises:
        ArchiveRefused: An archive is not this journal's.
        UnknownRun: There is no such run.
        FileNotFoundError: There is no such file; none is created.
        JournalError: The file cannot be opened or read.
    """
    where = _file(path)
    async with AsyncExitStack() as stack:
        at_hand = [await stack.enter_async_context(open_archive(archive)) for archive in archives]
        wrap = beside(*at_hand) if at_hand else None
        opening = Journal.open(where, registry=REGISTRY, keys=keys, read_only=True, wrap=wrap)
        journal = await stack.enter_async_context(opening)
        results = await stack.enter_async_context(aclosing(replay_opened(journal, run, jobs=jobs, progress=progress)))
        async for each in results:
            yield each


async def replay_opened(
    journal: Journal,
    run: str | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> AsyncGenerator[StreamReplay, None]:
    """`replay_streams` of a journal in a file that is opened for reading only, with archives beside it or without."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs: {jobs} is less than 1")
    if run is not None and await journal.head(f"{RUN}{run}") is None:
        raise UnknownRun(f"there is no run {run} in this journal")
    records = await journal.position()
    files = files_of(journal)
    # Keys that are not in files cannot be handed to other processes.
    alone = run is not None or (journal.keys is not None and files.keys is None)
    number = 1 if alone else jobs or min(cores(), max(1, records // _WORTH))
    told = _Told(progress or (lambda _done, _total: None), records)
    lots = _lots(journal) if run is None else _one(f"{RUN}{run}")
    async with aclosing(_here(files, lots, journal.keys) if number == 1 else _there(files, lots, number)) as results:
        async for each in results:
            told.add(each.records)
            yield each
    told.done()


@define
class _Told:
    tell: Progress
    total: int
    records: int = field(default=0)

    def add(self, records: int) -> None:
        self.records += records
        self.tell(min(self.records, self.total), self.total)

    def done(self) -> None:
        self.tell(self.total, self.total)


async def _lots(journal: Journal) -> AsyncGenerator[Sequence[str], None]:
    """The streams in order of creation, in lots of about as many records."""
    lot: list[str] = []
    size = 0
    async for head in journal.streams():
        if not head.stream.startswith(PREFIXES):
            continue
        lot.append(head.stream)
        size += head.version
        if size >= _LOT:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot


async def _one(stream: str) -> AsyncGenerator[Sequence[str], None]:
    yield [stream]


async def _here(files: Files, lots: Lots, keys: KeyStore | None) -> AsyncGenerator[StreamReplay, None]:
    async with aclosing(lots), open_beside(files, keys) as journal:
        elsewhere = Elsewhere(journal)
        async for lot in lots:
            for stream in lot:
                yield await refold(journal, stream, elsewhere)
                await trio.lowlevel.checkpoint()


async def _there(files: Files, lots: Lots, number: int) -> AsyncGenerator[StreamReplay, None]:
    async with aclosing(spread(_WORKER, [json.dumps(attrs.asdict(files))], lots, number)) as answers:
        async for answer in answers:
            for told in answer:
                yield from_plain(told)
