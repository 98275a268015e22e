"""What stands in a record's place where what is stored there is not what was recorded, and how that is told."""

from __future__ import annotations

import struct
from typing import Final, Protocol, runtime_checkable

import attrs

from trouper_journal._archived import Archived
from trouper_journal._digest import leaf_digest
from trouper_journal._errors import JournalCorrupt, RecordDamaged
from trouper_journal._records import Record
from trouper_journal._values import pack_map

TYPE: Final = "(damaged)"
"""In place of the event's name; no event can be called that."""

_NOTHING: Final = pack_map({})
_SIZE: Final = 32


@attrs.frozen(slots=True, repr=False, eq=False)
class Damaged(Record):
    """A place of a journal whose record is missing, cannot be read, or is not the one that was recorded.

    It counts as an event that this release does not know: it can be listed, and is not folded past. `position` and
    `version` are those of the last record concerned, so that reading goes on behind it; 0 where they are not known,
    and `stream` is empty where that is not known. `recorded_at` is that of a record beside it, where it is missing.

    Attributes:
        first: Position of the first record concerned; 0 where that is not known.
        problem: What is wrong, in words.
        found: What is stored there, as far as it is a record at all; not to be believed.
    """

    first: int = 0
    problem: str = ""
    found: Record | None = None

    @property
    def told(self) -> str:
        """The problem, with the stream's version where no position is known that could be one."""
        known = self.first > 0 or not self.stream or "version" in self.problem
        return self.problem if known else f"version {self.version} of {self.stream}: {self.problem}"

    @property
    def error(self) -> JournalCorrupt:
        """The same for whoever does not want to read on."""
        return JournalCorrupt(self.told, self.first if self.first > 0 else None)


class Whole(list[Record]):
    """A page that comes short because the journal or the stream ends there, as was looked up."""


@runtime_checkable
class Marking(Protocol):
    """A store that can put a marker in the place of a damaged record."""

    def mark(self, record: Record, problem: str) -> Record:
        """The marker; raises JournalCorrupt where nobody wants to read on."""
        ...


def damaged(
    problem: str, *, stream: str, version: int, position: int, first: int, at: int = 0, found: Record | None = None
) -> Damaged:
    """A marker for one record, or for several that are missing in a row."""
    return Damaged(
        position=position,
        stream=stream,
        version=version,
        type=TYPE,
        schema=0,
        recorded_at=at if found is None else found.recorded_at,
        key=None,
        label=None,
        wake_at=None,
        key_id=None,
        meta=_NOTHING,
        facts=b"",
        content=b"",
        leaf=b"" if found is None else found.leaf,
        first=first,
        problem=problem,
        found=found,
    )


def damaged_record(record: Record, problem: str, stream: str = "", version: int = 0, at: int = 0) -> Damaged:
    """A marker for a record that is there, and not what was recorded; read as that of a stream, where that is known."""
    shaped = is_shaped(record)
    return damaged(
        problem,
        stream=stream or (record.stream if shaped else ""),
        version=version or (record.version if shaped else 0),
        position=record.position,
        first=record.position,
        at=at,
        found=record if shaped else None,
    )


def refuse(record: Damaged) -> RecordDamaged:
    """The error for a record that is not what was recorded."""
    return RecordDamaged(record.told, max(0, record.first), record.stream)


def is_shaped(record: Record) -> bool:
    """Whether all columns hold what a record can have there, where they may hold whatever somebody has written."""
    return (
        type(record.position) is type(record.version) is type(record.schema) is type(record.recorded_at) is int
        and type(record.stream) is type(record.type) is str
        and type(record.meta) is type(record.facts) is type(record.content) is type(record.leaf) is bytes
        and (record.key is None or type(record.key) is str)
        and (record.label is None or type(record.label) is str)
        and (record.key_id is None or type(record.key_id) is str)
        and (record.wake_at is None or type(record.wake_at) is int)
        and type(record.large) is int
        and record.version > 0 <= record.schema
        and record.large >= 0
    )


def problem_of(journal_id: bytes, record: Record) -> str | None:
    """What is wrong with a record's own columns; None where they have the digest that is stored with them."""
    if not is_shaped(record):
        return "a column holds what no record has there"
    if isinstance(record, Archived):
        return None if len(record.leaf) == _SIZE else "the tombstone of an archived record has no digest"
    try:
        leaf = leaf_digest(journal_id, record)
    except (struct.error, ValueError) as error:
        return f"a column has a value that cannot be hashed: {error}"
    return None if leaf == record.leaf else "the stored bytes do not have the recorded digest"
