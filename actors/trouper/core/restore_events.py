"""Old copies that were put in the journal's place, in the stream ``system/restores``: who accepted that, and why."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from trouper.core.terms import Principal
from trouper_journal import Content, Plain, event

RESTORES: Final = "system/restores"
"""The stream that says when the journal was put back to an older copy."""


@event("journal.restored", schema=1)
@frozen(slots=False, repr=False, eq=False)
class JournalRestored(Plain):
    """Somebody accepts that records are gone: what was under way in this copy counts as unknown, and its runs go on.

    Attributes:
        lost: How many records the journal had when it was last left.
        lost_root: The root of its tree over those, in hexadecimal.
        found: How many it has now.
        root: The root of the tree over these, in hexadecimal.
        by: Who accepts it.
        reason: Why.
    """

    lost: int
    lost_root: str
    found: int
    root: str
    by: Content[Principal]
    reason: Content[str]


@event("restore.carried_out", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class RestoreCarriedOut(Plain):
    """Every write that was under way in the older copy is recorded as unknown.

    Attributes:
        position: Position of the ``journal.restored`` that this carries out.
        runs: How many runs had such a write.
        actions: How many there were.
    """

    position: int
    runs: int
    actions: int


RESTORE_EVENTS: tuple[type, ...] = (JournalRestored, RestoreCarriedOut)
"""All of them, for the registry."""
