"""Keeps a projection up with its journal: what is there, then what comes, exactly once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar, final

import trio

from trouper_journal._archived import Archived
from trouper_journal._attached import with_values
from trouper_journal._damaged import Damaged
from trouper_journal._errors import StorageReadOnly
from trouper_journal._journal import Journal
from trouper_journal._projection_tables import Mark, ProjectionTables
from trouper_journal._projections import Cell, Choosy, Entry, Projection, checked
from trouper_journal._records import Record
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore

T = TypeVar("T")

_IDLE_PAGES: Final = 20
"""Pages without anything for the projection, after which its position is stored all the same."""


@final
class Projected:
    """A projection over a journal; made by ``open_projection``. Its methods may be called from any task.

    Cancelling one of them loses nothing: a page is taken in whole or not at all, and is never taken in twice.
    """

    def __init__(self, journal: Journal, projection: Projection, tables: ProjectionTables) -> None:
        self._journal = journal
        self._projection = projection
        self._types = frozenset(projection.types)
        self._choosy = projection if isinstance(projection, Choosy) else None
        self._tables = tables
        # What is stored, and how far the records after it have been looked through in vain.
        self._stored = Mark()
        self._mark = Mark()
        self._turn = trio.Lock()
        self._begun = False
        self._idle = 0

    @property
    def position(self) -> int:
        """Position of the last record taken in, as far as this process knows."""
        return self._mark.position

    @property
    def missing(self) -> int:
        """How many records up to there had left the journal, for an archive, before they could be taken in."""
        return self._mark.missing

    async def catch_up(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Take in what the journal holds at this moment; the position that it has come to.

        Args:
            progress: Called after each page with records done and in all.

        Raises:
            UnknownEvent, JournalCorrupt: A record that the projection needs cannot be read; all before it is taken in.
            ProjectionOutdated: A newer version of the projection has taken its tables over.
            StorageBusy, StorageFull, StorageReadOnly: Nothing was written of the page.
        """
        async with self._turn:
            end = await self._journal.position()
            await self._begin_once()
            while self._mark.position < end:
                page = await self._journal.read_all_page(self._mark.position)
                if not page:
                    break
                await self._take(page)
                if progress is not None:
                    progress(min(self._mark.position, end), end)
            if self._mark.position != self._stored.position:
                await self._advance(self._mark, ())
            return self._mark.position

    async def _take(self, page: Sequence[Record]) -> None:
        entries, readable, error = await self._entries(page)
        if readable:
            after = _mark_after(self._mark, page[:readable])
            self._idle = 0 if entries else self._idle + 1
            if entries or self._idle == _IDLE_PAGES:
                self._idle = 0
                await self._advance(after, entries)
            else:
                self._mark = after
        if error is not None:
            raise error

    async def follow(self) -> None:
        """Catch up, and then take in what comes, here or from other processes, until the journal is left.

        Any number of processes may follow with the same projection: whichever is first takes a page in, the others
        go on behind it. Errors as for ``catch_up``.
        """
        async with self._journal.news() as news:
            await self.catch_up()
            while await news.wait():
                await self.catch_up()

    async def query(self, sql: str, cells: Sequence[Cell] = ()) -> list[tuple[Cell, ...]]:
        """Rows of a SELECT over the projection's own tables, as they stand: they may be behind the journal.

        Raises:
            InvalidProjection: The statement does something else.
            StorageBusy, JournalCorrupt: The tables cannot be read.
        """
        async with self._turn:
            await self._begin_once()
            return await _in_thread(partial(self._tables.query, sql, cells))

    async def _begin_once(self) -> None:
        if not self._begun:
            self._stored = self._mark = await self._begin()
            self._begun = True

    async def _begin(self) -> Mark:
        found = await _in_thread(self._tables.begin)
        while not await self._stands(found):
            found = await _in_thread(partial(self._tables.begin, found))
        return found

    async def _stands(self, mark: Mark) -> bool:
        """Whether it was made of this journal's records, and not of others, as before a backup was restored."""
        # Looked at after the mark was read: others may go on meanwhile, and the journal's end goes before theirs.
        if mark.position > await self._journal.position():
            return False
        page = [] if mark.position == 0 else await self._journal.read_all_page(mark.position - 1, 1)
        return all(record.leaf == mark.leaf for record in page if record.position == mark.position)

    async def _entries(self, page: Sequence[Record]) -> tuple[list[Entry], int, Exception | None]:
        """What the projection is given of a page, how many records of it can be read, and what became of the next."""
        entries: list[Entry] = []
        for number, record in enumerate(page):
            if isinstance(record, Archived | Damaged):
                continue
            if record.type in self._types:
                try:
                    whole = await with_values(self._journal.reading, record)
                    event = self._journal.registry.decode(whole)
                    if self._choosy is None or await self._choosy.counts(self._journal, whole, event):
                        entries.append(Entry(whole, event))
                except Exception as error:  # noqa: BLE001 -- raised by the caller, once all before it is taken in
                    return entries, number, error
            elif self._projection.every:
                entries.append(Entry(record, None))
        return entries, len(page), None

    async def _advance(self, after: Mark, entries: Sequence[Entry]) -> None:
        now = await _in_thread(partial(self._tables.advance, self._stored, after, entries))
        # Somebody has dropped the tables: they are made anew.
        self._stored = self._mark = await self._begin() if now is None else now


@asynccontextmanager
async def open_projection(
    journal: Journal, projection: Projection, *, in_memory: bool = False
) -> AsyncIterator[Projected]:
    """A projection over a journal, for the length of an ``async with`` block; nothing is read or written yet.

    Its tables are kept in the journal's file, where the next process finds them, or in memory, where they are gone
    when the block is left. A journal in memory, or opened for reading only, takes ``in_memory``.

    Args:
        journal: An open journal, with a registry of the events that the projection names.
        projection: The projection.
        in_memory: Write nothing to the journal's file.

    Raises:
        InvalidProjection: It cannot be meant.
        StorageReadOnly: The journal was opened for reading only, or is in memory, and ``in_memory`` is not asked for.
    """
    checked(projection)
    if not in_memory and (journal.path is None or isinstance(journal.store, ReadOnlySQLiteStore)):
        raise StorageReadOnly(f"the tables of projection {projection.name} can only be kept in memory here: ask for it")
    path = None if in_memory else os.fspath(str(journal.path))
    tables = await _in_thread(partial(ProjectionTables, projection, path))
    try:
        yield Projected(journal, projection, tables)
    finally:
        with trio.CancelScope(shield=True):
            await _in_thread(tables.close)


def _mark_after(mark: Mark, page: Sequence[Record]) -> Mark:
    last = page[-1]
    # Markers of archived records, and of damaged ones, stand in their places; one may stand for many.
    missing = last.position - mark.position - sum(not isinstance(record, Archived | Damaged) for record in page)
    return Mark(last.position, last.leaf, mark.missing + missing)


async def _in_thread(work: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(work)
