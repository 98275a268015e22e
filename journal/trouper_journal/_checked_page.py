"""A page of evidence in the making: what is good of it, and what stands in the place of the rest."""

from __future__ import annotations

from collections.abc import Callable

from trouper_journal._damaged import Damaged, damaged_record
from trouper_journal._records import Record


class CheckedPage:
    """A page as it is given: what is good, and markers.

    Args:
        told: Tells of a marker and gives it back, or raises JournalCorrupt.
        marks: Whether reading goes on behind markers.
        after: Number behind which it begins.
        limit: How many records it holds at most.
        stream: Whose records they are; empty for all.
    """

    def __init__(
        self, told: Callable[[Damaged], Damaged], marks: bool, after: int, limit: int, stream: str = ""
    ) -> None:
        self._told = told
        self._marks = marks
        self._stream = stream
        self._limit = limit
        self.last = after
        """Number of the last record, by which reading goes on."""
        self.given: list[Record] = []

    @property
    def position(self) -> int:
        """Position of the last record that is given."""
        return self.given[-1].position if self.given else 0

    @property
    def at(self) -> int:
        """When the last record that is given was made."""
        return self.given[-1].recorded_at if self.given else 0

    def good(self, record: Record, number: int) -> None:
        """Give a record of which nothing is wrong."""
        self.given.append(record)
        self.last = number

    def take(self, record: Record, number: int, problem: str | None) -> bool:
        """Give a record, or its marker; whether the page is full, or ends here."""
        if problem is None:
            self.given.append(record)
        elif self.stop(damaged_record(record, problem, self._stream, number if self._stream else 0, self.at)):
            return True
        self.last = number
        return len(self.given) >= self._limit

    def stop(self, marker: Damaged) -> bool:
        """Put a marker where a damaged place is; whether the page ends here. What is good before it is given first."""
        if self.given and not self._marks:
            return True
        self.given.append(self._told(marker))
        return len(self.given) >= self._limit
