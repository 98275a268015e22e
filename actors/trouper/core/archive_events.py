"""What is recorded of archives, in the stream ``system/archives``."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from trouper.core.terms import Principal
from trouper_journal import Content, Plain, event

ARCHIVES: Final = "system/archives"
"""The stream that says which archives were made of the journal."""


@event("archive.made", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ArchiveMade(Plain):
    """An archive was written and checked; its records are about to leave the journal.

    Attributes:
        archive: The archive's id, in hexadecimal.
        file: Name of its file.
        records: How many records it holds.
        streams: How many streams they form.
        size: How many records the journal had when it was written.
        root: The root of the journal's tree over those, in hexadecimal.
        by: Who wanted it.
        reason: Why.
    """

    archive: str
    file: str
    records: int
    streams: int
    size: int
    root: str
    by: Content[Principal | None] = None
    reason: Content[str | None] = None
