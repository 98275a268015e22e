"""Whether an old copy stands in a journal's place, by the file beside it, and whether somebody has accepted that."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from trouper.errors import UnknownEvent
from trouper.narration.text import count
from trouper.runtime.restoring import restored
from trouper_journal import Journal, JournalError, Plain
from trouper_journal.rollback import Comparison, check_log, compare_head

_STATES: Final = {
    "matches": "the journal is as it was left",
    "missing": "there is no file beside the journal that says how it was left: an old copy would not be noticed",
    "damaged": "the file beside the journal cannot be read: an old copy would not be noticed",
    "foreign": "the file beside the journal is of another journal: an old copy would not be noticed",
}


@frozen(slots=False, repr=False, eq=False)
class Standing(Plain):
    """How a journal stands to the file beside it.

    Attributes:
        found: The one held against the other.
        accepted: Position of the record by which somebody accepted that records are gone; None where nobody has, or
            none are.
    """

    found: Comparison
    accepted: int | None = None

    @property
    def bad(self) -> bool:
        """Whether records are gone, and nobody has accepted that."""
        return self.found.state == "rolled_back" and self.accepted is None

    @property
    def text(self) -> str:
        """What that is, in a sentence."""
        before = self.found.before
        if self.found.state != "rolled_back" or before is None:
            return _STATES[self.found.state]
        what = "an older copy stands in the journal's place, or its records were changed"
        had = f"had {count(before.size, 'record')} when it was last left (root {before.root})"
        return f"{what}: by the file beside it, it {had}, and has {self.found.now.size:,}"

    def to_json(self) -> dict[str, object]:
        """For programs; its names are those of ``restore --json``."""
        before = self.found.before
        return {
            "state": self.found.state,
            "accepted": self.accepted is not None,
            "known_records": None if before is None else before.size,
            "known_root": None if before is None else before.root,
        }


async def standing(journal: Journal) -> Standing:
    """Hold a journal in a file against the file beside it; changes nothing.

    Raises:
        ValueError: The journal is not in a file.
        StorageBusy, JournalBroken: It cannot be read.
        JournalCorrupt: What it would take is missing from it, or its log is not its own.
    """
    await check_log(journal)
    found = await compare_head(journal)
    if found.state != "rolled_back":
        return Standing(found)
    accepted = await restored(journal, found.before)
    return Standing(found, None if accepted is None else accepted.position)


async def standing_or_none(journal: Journal) -> Standing | None:
    """The same; None where that cannot be told of it: it is damaged, or in no file of its own."""
    if journal.path is None:
        return None
    try:
        return await standing(journal)
    except (JournalError, UnknownEvent):
        return None
