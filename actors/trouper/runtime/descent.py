"""Who is below a run, from the journal's index."""

from __future__ import annotations

from attrs import frozen

from trouper.core.events import RunSubmitted
from trouper.core.family import parent_of
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper_journal import Journal, Plain


@frozen(slots=False, repr=False, eq=False)
class ChildRun(Plain):
    """A run that a sub-agent's call began, at any depth.

    Attributes:
        run: Its id.
        path: Names of the agents from the root of its tree to its own.
        status: Its label, such as ``awaiting_approval`` or ``succeeded``.
    """

    run: str
    path: tuple[str, ...]
    status: str

    @property
    def agent(self) -> str:
        """Its agent's name."""
        return self.path[-1] if self.path else "?"

    @property
    def parent(self) -> str:
        """The run whose call began it."""
        return parent_of(self.run)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.status.partition("-")[0] in {"succeeded", "failed", "cancelled"}


async def descendants(journal: Journal, run: str) -> list[ChildRun]:
    """All runs below a run, in the order in which they began."""
    found: list[ChildRun] = []
    async for head in journal.streams(prefix=f"run/{run}~"):
        page = await journal.read_page(head.stream, after=0, limit=1)
        if not page:
            raise JournalCorrupt(f"{head.stream} is listed and has no records")
        first = page[0]
        try:
            event = journal.registry.decode(first)
        except (UnknownEvent, JournalCorrupt):
            event = None
        path = event.path if isinstance(event, RunSubmitted) else ()
        found.append(ChildRun(head.stream.removeprefix("run/"), path, head.label or "?"))
    return found
