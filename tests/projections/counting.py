"""A small journal and a projection of it; run as a program, it follows one, and can be told to die in the middle."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import trio
from attrs import field, frozen

from trouper_journal import EventRegistry, Journal, event
from trouper_journal.projections import Entry, Tables, open_projection


@event("counted.added")
@frozen
class Added:
    number: int


@event("counted.other")
@frozen
class Other:
    number: int


EVENTS = EventRegistry([Added, Other])


@frozen
class Counting:
    """Writes each position down once, and keeps a sum beside."""

    version: int = 1
    die_at: int = 0
    every: bool = False
    schema: Sequence[str] = (
        "CREATE TABLE projection_counting (position INTEGER PRIMARY KEY, number INTEGER)",
        "CREATE TABLE projection_counting_sum (one INTEGER PRIMARY KEY, total INTEGER)",
        "INSERT INTO projection_counting_sum VALUES (1, 0)",
    )
    types: Sequence[str] = field(default=("counted.added",))
    name: str = "counting"

    def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.record.position == self.die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            number = entry.event.number if isinstance(entry.event, Added) else 0
            # Taken in twice, this would be refused; and so would a gap, by whoever looks at the sum.
            tables.execute("INSERT INTO projection_counting VALUES (?, ?)", (entry.record.position, number))
            tables.execute("UPDATE projection_counting_sum SET total = total + ?", (number,))


async def append(journal: Journal, count: int, first: int = 0) -> None:
    """Numbers, every third of them of the other type."""
    for at in range(first, first + count, 50):
        numbers = range(at, min(at + 50, first + count))
        await journal.append("numbers", [Other(number) if number % 3 == 2 else Added(number) for number in numbers])


def total(first: int, last: int) -> int:
    """The sum of what counts among numbers from the first to before the last."""
    return sum(number for number in range(first, last) if number % 3 != 2)


async def main() -> None:
    path, until, die_at = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    async with (
        Journal.open(path, registry=EVENTS) as journal,
        open_projection(journal, Counting(die_at=die_at)) as projected,
        journal.news() as news,
    ):
        while await projected.catch_up() < until:
            await news.wait()


if __name__ == "__main__":
    trio.run(main)
