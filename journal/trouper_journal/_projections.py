"""Projections: tables computed from the records of a journal, each up to a position; as values, without any I/O.

A projection is a cache. It can be dropped and computed again at any time, and nothing that it holds is evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import attrs

from trouper_journal._errors import InvalidProjection
from trouper_journal._printable import Plain
from trouper_journal._records import Record

if TYPE_CHECKING:
    from trouper_journal._journal import Journal

Cell: TypeAlias = int | float | str | bytes | None

_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,39}")


@attrs.frozen(slots=True, repr=False, eq=False)
class Entry(Plain):
    """A record that a projection is given.

    Attributes:
        record: The record; its large values are attached where its event is given.
        event: Its event, where the projection names its type; else None.
    """

    record: Record
    event: object | None


class Tables(Protocol):
    """The projection's own tables, within a transaction."""

    def execute(self, sql: str, cells: Sequence[Cell] = ()) -> list[tuple[Cell, ...]]:
        """Run one statement that touches nothing but the projection's own tables, and give its rows.

        Raises:
            InvalidProjection: It touches something else.
        """
        ...


class Projection(Protocol):
    """Says which tables there are, and how records change them.

    It must rest on the records alone (no clock, no network), so that computing it again gives the same. It must not
    copy content of records into its tables: what was erased from the journal would live on there.
    """

    @property
    def name(self) -> str:
        """Small letters and digits; its tables are ``projection_<name>`` and ``projection_<name>_<anything>``."""
        ...

    @property
    def version(self) -> int:
        """Number of its code, from 1: with a higher one than stored, all is dropped and computed anew."""
        ...

    @property
    def schema(self) -> Sequence[str]:
        """The statements that create its tables and indexes."""
        ...

    @property
    def types(self) -> Collection[str]:
        """Types of events that it is given, decoded."""
        ...

    @property
    def every(self) -> bool:
        """Whether it is given the records of all other types, too, without their events."""
        ...

    def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
        """Go on by some records, which follow those of the last call; all or nothing of it is kept.

        Called in another thread than the event loop's, while nobody else can write: it should only compute.
        """
        ...


@runtime_checkable
class Choosy(Protocol):
    """A projection that says of each event, before it is given it, whether it counts at all.

    For what only the events before it can tell, as where the fold takes no notice of one.
    """

    async def counts(self, journal: Journal, record: Record, event: object) -> bool:
        """Whether an event is to be given.

        Must rest on the journal's records up to this one alone.

        Args:
            journal: The journal.
            record: The record.
            event: Its event.

        Raises:
            Exception: All before the record is taken in, and the error raised by whoever catches up.
        """
        ...


def checked(projection: Projection) -> None:
    """Refuse a projection that cannot be kept apart from others.

    Raises:
        InvalidProjection: Its name or version cannot be meant.
    """
    if not isinstance(projection.name, str) or _NAME.fullmatch(projection.name) is None:
        raise InvalidProjection(f"{projection.name!r} cannot name a projection: use up to 40 small letters and digits")
    if type(projection.version) is not int or projection.version < 1:
        raise InvalidProjection(f"projection {projection.name}: its version is {projection.version!r}, not 1 or more")


def owns(projection: Projection) -> Callable[[str], bool]:
    """Whether a table is the projection's own, by the table's name."""
    own = f"projection_{projection.name}"
    return lambda table: table == own or table.startswith(f"{own}_")
