"""The events that these tests write, and small helpers."""

from __future__ import annotations

import attrs
import trio

from trouper_journal import Batch, Content, EventRegistry, Journal, Record, event


@event("note.added")
@attrs.frozen
class Note:
    """Anybody's."""

    number: int
    text: Content[str] = ""


@event("step.taken", driver=True)
@attrs.frozen
class Step:
    """The driver's."""

    number: int


REGISTRY = EventRegistry([Note, Step])


async def numbers(journal: Journal, stream: str) -> list[int]:
    """What was written to a stream."""
    return [decode(journal, record).number async for record in journal.read(stream)]


def decode(journal: Journal, record: Record) -> Note:
    """A record that is known to be a note."""
    note = journal.registry.decode(record)
    assert isinstance(note, Note)
    return note


async def positions(journal: Journal) -> list[int]:
    """The positions of all records."""
    return [record.position async for record in journal.read_all()]


class Gate:
    """A hook that holds batches until told to let them go."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self.open = trio.Event()

    async def __call__(self, _: Batch) -> None:
        self.reached.set()
        await self.open.wait()
