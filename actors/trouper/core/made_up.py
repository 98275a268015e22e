"""Folding the records of a journal that somebody else kept, and may have made up."""

from __future__ import annotations

from trouper.core.evolve import evolve
from trouper.core.rules import Book, evolve_book
from trouper.core.state import RunState
from trouper_journal import JournalCorrupt, Record


def folded(state: RunState, record: Record, event: object) -> RunState:
    """The run after the event of a record of its stream.

    Raises:
        JournalCorrupt: The event cannot stand there, as no runtime has ever put it; names the position.
    """
    try:
        return evolve(state, event)
    except Exception as error:
        raise _misfit(record, error) from error


def folded_book(book: Book, record: Record, event: object) -> Book:
    """The standing rules after the event of a record of their stream; errors as for `folded`."""
    try:
        return evolve_book(book, event)
    except Exception as error:
        raise _misfit(record, error) from error


def _misfit(record: Record, error: Exception) -> JournalCorrupt:
    # Records that somebody made up can break any assumption of a fold.
    message = f"{record.type} cannot stand at version {record.version} of {record.stream}: {error!r}"
    return JournalCorrupt(message, record.position)
