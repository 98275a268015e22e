"""What a run rests on that stands elsewhere in its journal: its definition, standing rules, the history before it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from attrs import define, field

from trouper.audit.definitions import Document, read_document
from trouper.audit.kinship import Calls, calls_of
from trouper.audit.promises import Plan, breach
from trouper.core.rule_events import APPROVALS
from trouper.core.rules import Book, evolve_book
from trouper.core.state import RunState
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.runtime.histories import Histories
from trouper_journal import Archived, Journal, Printable
from trouper_journal.archive import ArchiveStore

_KEPT: Final = 200


@define(eq=False, repr=False)
class Elsewhere(Printable):
    """Reads what runs rest on, and keeps it for the next run.

    Attributes:
        journal: The journal.
        histories: Reads the histories that runs begin with.
    """

    journal: Journal
    histories: Histories = field(init=False)
    _documents: OrderedDict[str, Document] = field(factory=OrderedDict, init=False)
    _book: Book = field(factory=Book, init=False)
    _before: int = field(default=0, init=False)
    _calls: OrderedDict[str, Calls] = field(factory=OrderedDict, init=False)

    @property
    def partial(self) -> bool:
        """Whether only a part of a journal is at hand: an archive holds runs and sessions, and all else stays."""
        return isinstance(self.journal.store, ArchiveStore)

    def __attrs_post_init__(self) -> None:
        self.histories = Histories(self.journal)

    async def document(self, digest: str) -> Document:
        """A definition document.

        Raises:
            JournalError: The journal cannot be read.
        """
        found = self._documents.get(digest)
        if found is None:
            found = self._documents[digest] = await read_document(self.journal, digest)
            if len(self._documents) > _KEPT:
                self._documents.popitem(last=False)
        return found

    async def calls(self, run: str, *, anew: bool = False) -> Calls:
        """What a run's stream says of the runs that it began.

        Args:
            run: The run.
            anew: Whether what was read before is not enough, because somebody may have gone on writing.

        Raises:
            RecordArchived: It is in an archive that is not at hand.
            JournalError: The journal cannot be read.
        """
        found = self._calls.get(run)
        if found is None or anew:
            found = self._calls[run] = await calls_of(self.journal, run)
            if len(self._calls) > _KEPT:
                self._calls.popitem(last=False)
        return found

    async def book(self, position: int) -> Book | None:
        """The standing rules as they stood before a position; None where they cannot be read here.

        Raises:
            JournalError: The journal cannot be read.
        """
        if position < self._before:
            self._book = Book()
        self._before = position
        try:
            async for record in self.journal.read(APPROVALS, after=self._book.version):
                if isinstance(record, Archived):
                    return None
                if record.position >= position:
                    break
                self._book = evolve_book(self._book, self.journal.registry.decode(record))
        except (UnknownEvent, JournalCorrupt, TypeError):
            # Their own stream's replay tells of that.
            return None
        return self._book


async def broken(elsewhere: Elsewhere, state: RunState, plan: Plan, position: int) -> str | None:
    """What a plan of a call contradicts in its run's definition, or in the standing rules; None where nothing.

    A document that has not its own digest, or cannot be read here, contradicts nothing: its own stream tells of that.
    Of an archive by itself nothing is known: definitions and standing rules stay in the journal.

    Args:
        elsewhere: Reads definitions and rules.
        state: The run before the plan.
        plan: The plan.
        position: The plan's position.

    Raises:
        JournalError: The journal cannot be read.
    """
    document = await elsewhere.document(state.definition)
    if document.standing == "missing" and not elsewhere.partial:
        return f"the definition {state.definition} is not in the journal"
    if document.definition is None or document.standing != "matches" or elsewhere.partial:
        return None
    book = await elsewhere.book(position) if plan.grounds.rules else Book()
    return None if book is None else breach(document.definition.contract, book, state, plan)
