"""A log to sign, its key and a witness's: the same in all tests of checkpoints and witnesses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import frozen

from trouper_journal import EventRegistry, Journal, SystemClock, event
from trouper_journal.signing import SignedCheckpoint, Witness, ask_witnesses, new_key, sign_head


@event("test.counted")
@frozen
class Counted:
    number: int


class Standing(SystemClock):
    """A clock that stands."""

    def now(self) -> int:
        return 1_700_000_000_000_000_000


REGISTRY = EventRegistry([Counted])
KEY = new_key("example.com/desk")
WITNESS = new_key("witness.example/w", witness=True)


@asynccontextmanager
async def journal_of(count: int, *, other_from: int = 10**9) -> AsyncIterator[Journal]:
    """A journal of so many records, always the same until a position from which on they are others."""
    async with Journal.open(registry=REGISTRY, clock=Standing(), random=bytes) as journal:
        for number in range(count):
            await journal.append("s", [Counted(number if number + 1 < other_from else -number)])
        yield journal


async def ask(witness: Witness, count: int, *, other_from: int = 10**9) -> tuple[SignedCheckpoint, str]:
    """The checkpoint of so many records with what the witness added, and what it refused for."""
    async with journal_of(count, other_from=other_from) as journal:
        found = await ask_witnesses(journal, await sign_head(journal, KEY), [witness])
    return found.checkpoint, "".join(why for _, why in found.refusals)
