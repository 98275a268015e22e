"""The standing rules of a journal, as they stand in it: read anew at each use, from where the last one ended."""

from __future__ import annotations

from typing import final

from trouper.core.events import RunSubmitted
from trouper.core.family import root_of
from trouper.core.made_up import folded_book
from trouper.core.rule_events import APPROVALS
from trouper.core.rules import Book
from trouper.core.state import RunState
from trouper_journal import Journal

_PAGE = 500


@final
class RuleBook:
    """Folds the stream of standing rules.

    Args:
        journal: The journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._book = Book()

    async def read(self) -> Book:
        """The rules as they stand now.

        Raises:
            UnknownEvent: One was written by a newer release.
            JournalError: The journal cannot be read.
        """
        book = self._book
        while True:
            page = await self._journal.read_page(APPROVALS, after=book.version, limit=_PAGE)
            for record in page:
                book = folded_book(book, record, self._journal.registry.decode(record))
            if len(page) < _PAGE:
                break
        # Two may read at the same time: what is known is never forgotten.
        if book.version > self._book.version:
            self._book = book
        return book

    async def session_of(self, state: RunState) -> str | None:
        """The session that a run belongs to by its root; None where there is none.

        Raises:
            JournalError: The root's stream cannot be read.
        """
        if state.turn is not None:
            return state.turn.place.session
        root = root_of(state.run)
        if root == state.run:
            return None
        for record in await self._journal.read_page(f"run/{root}", after=0, limit=1):
            submitted = self._journal.registry.decode(record)
            if isinstance(submitted, RunSubmitted) and submitted.turn is not None:
                return submitted.turn.session
        return None
