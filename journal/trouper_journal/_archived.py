"""What stands in a record's place once it was moved out to an archive: enough for gapless numbers and for the tree."""

from __future__ import annotations

from typing import Final, TypeVar

import attrs

from trouper_journal._errors import JournalCorrupt, RecordArchived
from trouper_journal._records import Record
from trouper_journal._values import pack_map, unpack_map

T = TypeVar("T")

TYPE: Final = "(archived)"
"""In place of the event's name; no event can be called that."""


@attrs.frozen(slots=True, repr=False, eq=False)
class Archived(Record):
    """A record that was moved out to an archive: `position`, `stream`, `version`, `recorded_at` and `leaf` are its own.

    All else is not known here; ``file`` says where it went. It counts as an event that this release does not know:
    it can be listed, and is not folded past.
    """

    @property
    def file(self) -> str:
        """Name of the archive's file, as it was called when it was made."""
        return _named(self, "archive", str)

    @property
    def archive_id(self) -> bytes:
        """The 16 random bytes of that archive."""
        return _named(self, "id", bytes)


def marker(
    position: int, stream: str, version: int, recorded_at: int, leaf: bytes, file: str, archive_id: bytes
) -> Archived:
    """The marker for a record, from its tombstone."""
    meta = pack_map({"archive": file, "id": archive_id})
    return Archived(position, stream, version, TYPE, 0, recorded_at, None, None, None, None, meta, b"", b"", leaf)


def _named(record: Record, what: str, kind: type[T]) -> T:
    found = unpack_map(record.meta).get(what)
    if not isinstance(found, kind):
        raise JournalCorrupt("the marker of an archived record does not name its archive", record.position)
    return found


def refuse(record: Archived) -> RecordArchived:
    """The error for a record that is not here to be read."""
    return RecordArchived(record.position, record.stream, record.file)
