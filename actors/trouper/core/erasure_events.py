"""Erasures, in the stream ``system/erasures``: who wanted content to be unreadable for ever, and that it was done."""

from __future__ import annotations

from attrs import frozen

from trouper.core.terms import Principal
from trouper_journal import Content, Plain, event


@event("erasure.ordered", schema=1)
@frozen(slots=False, repr=False, eq=False)
class ErasureOrdered(Plain):
    """Somebody wants what a run or a session holds to be unreadable; the keys are destroyed right after this.

    Attributes:
        domain: What is erased: ``run/<root>`` with all runs below it, or ``session/<id>`` with all of its runs.
        keys: Names of the data keys that are to be destroyed.
        runs: How many runs it is.
        records: How many records hold content that is sealed with those keys.
        plain: How many records hold content that was stored in plain, and stays readable.
    """

    domain: str
    keys: tuple[str, ...]
    runs: int
    records: int
    plain: int = 0
    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("erasure.carried_out", schema=1)
@frozen(slots=False, repr=False, eq=False)
class ErasureCarriedOut(Plain):
    """The data keys are destroyed: nobody can read what was sealed with them, in no copy of the journal.

    Attributes:
        domain: What is erased.
        keys: Names of the data keys.
    """

    domain: str
    keys: tuple[str, ...]


ERASURE_EVENTS: tuple[type, ...] = (ErasureOrdered, ErasureCarriedOut)
"""All of them, for the registry."""
