"""The standing rules of a journal, as they stand in it: read anew at each use, from where the last one ended."""

from __future__ import annotations

from typing import final

from trouper.core.rule_events import APPROVALS
from trouper.core.rules import Book, evolve_book
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
                book = evolve_book(book, self._journal.registry.decode(record))
            if len(page) < _PAGE:
                break
        # Two may read at the same time: what is known is never forgotten.
        if book.version > self._book.version:
            self._book = book
        return book
