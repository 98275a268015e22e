"""What a driver does about a journal that was put back to an older copy, and how it lets that be noticed later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio
from attrs import frozen

from trouper.core.events import ActionStarted, Principal
from trouper.core.evolve import evolve
from trouper.core.restore_events import RESTORES, JournalRestored, RestoreCarriedOut
from trouper.core.restoring import unknown_since
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import JournalCorrupt, JournalError, JournalRolledBack, UnknownEvent, VersionConflict
from trouper.runtime.desk import Desk
from trouper.runtime.domains import domain_of, is_withheld
from trouper_journal import Journal, Key, News, Plain, StreamHead, Write
from trouper_journal.rollback import Comparison, KnownHead, compare_head, write_head

_EVERY: Final = 5
"""Seconds between two writings of the side file, at least."""

_CLOSING: Final = 2.0
_OVER: Final = frozenset({"succeeded", "failed", "cancelled"})


@frozen(slots=False, repr=False, eq=False)
class Restored(Plain):
    """That somebody accepted an older copy.

    Attributes:
        position: Position of the record that says so.
        carried_out: Whether what was under way in it is recorded as unknown.
    """

    position: int
    carried_out: bool


async def restored(journal: Journal, lost: KnownHead | None = None) -> Restored | None:
    """The last time that an older copy was accepted; None where none was.

    Args:
        journal: The journal.
        lost: Only in place of what stood here.
    """
    found: Restored | None = None
    done: set[int] = set()
    async for record in journal.read(RESTORES):
        event = journal.registry.decode(record)
        if isinstance(event, RestoreCarriedOut):
            done.add(event.position)
        elif isinstance(event, JournalRestored) and (
            lost is None or (event.lost, event.lost_root) == (lost.size, lost.root)
        ):
            found = Restored(record.position, carried_out=False)
    return None if found is None else Restored(found.position, carried_out=found.position in done)


async def accept(journal: Journal, found: Comparison, *, by: Principal, reason: str) -> bool:
    """Record that somebody accepts an older copy; False where that was recorded before.

    Raises:
        ValueError: The journal was not put back.
        JournalError: It cannot be written.
    """
    lost = found.before
    if found.state != "rolled_back" or lost is None:
        raise ValueError("the journal was not put back to an older copy")
    event = JournalRestored(lost.size, lost.root, found.now.size, found.now.root, by, reason)
    if await restored(journal, lost) is not None:
        return False
    key = Key(f"restore:{lost.size}:{lost.root}", bytes.fromhex(lost.root))
    await journal.append(RESTORES, [event], key=key)
    return True


class HeadKeeper:
    """Notices an older copy when a driver begins, parks its runs, and keeps the side file while it drives.

    Args:
        journal: A journal in a file, which this process drives.
        found: How it stood to its side file before anything was added to it.
    """

    def __init__(self, journal: Journal, found: Comparison) -> None:
        self._journal = journal
        self._found = found
        self._known = -1

    @classmethod
    async def begin(cls, journal: Journal) -> HeadKeeper:
        """Look how a journal stands to its side file; before the driver's first commit."""
        return cls(journal, await compare_head(journal))

    async def refusal(self) -> JournalRolledBack | None:
        """Why nothing may be driven: an older copy that nobody has accepted; None where there is no such reason."""
        found = self._found
        if found.state != "rolled_back" or found.before is None:
            return None
        if await restored(self._journal, found.before) is not None:
            return None
        return JournalRolledBack(self._journal.path or "", found.before.size, found.now.size)

    async def settle(self, fence: int) -> JournalRolledBack | None:
        """The same; where an older copy was accepted, what was under way in it is first recorded as unknown."""
        refusal = await self.refusal()
        if refusal is not None:
            return refusal
        last = await restored(self._journal)
        if last is not None and not last.carried_out:
            await carry_out(self._journal, last.position, fence)
        return None

    @trio.lowlevel.enable_ki_protection
    async def release(self, desk: Desk) -> None:
        """Wait until nothing holds the runs any more."""
        if desk.parked is None:
            return
        async with self._journal.arrivals() as arrivals:
            while await self.settle(desk.fence) is not None:
                if await arrivals.wait() is None:
                    return
        desk.parked = None

    @trio.lowlevel.enable_ki_protection
    async def keep(self, desk: Desk) -> None:
        """Write the side file, and again some seconds after something was committed."""
        async with self._journal.news() as news:
            while True:
                if desk.parked is None:
                    await self._write()
                # Not by the runtime's clock, which is that of the runs. Nothing that is recorded depends on this pace;
                # where somebody sets that clock, for a test or for a simulation of a year, the file must neither
                # stand still with it nor be written as often as it jumps.
                await trio.sleep(_EVERY)
                if not await _more(news):
                    return

    async def end(self) -> None:
        """Write the side file a last time, in bounded time."""
        with trio.move_on_after(_CLOSING) as scope:
            scope.shield = True
            await self._write()

    async def _write(self) -> None:
        # Where it cannot be written, an older copy will not be noticed: no reason to hold anybody up.
        with suppress(OSError, JournalError):
            if self._known != await self._journal.position():
                self._known = (await write_head(self._journal)).size


@asynccontextmanager
async def kept_head(journal: Journal) -> AsyncIterator[None]:
    """The side file of a journal that is driven without a runtime, for a while: it is written at the end.

    Raises:
        JournalRolledBack: The journal was put back to an older copy, and nobody has accepted that.
        JournalError: It cannot be read.
    """
    if journal.path is None:
        yield
        return
    keeper = await HeadKeeper.begin(journal)
    refusal = await keeper.refusal()
    if refusal is not None:
        raise refusal
    try:
        yield
    finally:
        await keeper.end()


async def _more(news: News) -> bool:
    """Wait for a commit; False where none can come. What broke the journal is for those to tell who write to it."""
    try:
        return await news.wait()
    except JournalError:
        return False


async def runs_not_over(journal: Journal) -> AsyncIterator[StreamHead]:
    """The streams of the runs that have not ended, by the index."""
    async for head in journal.streams(prefix="run/"):
        if (head.label or "").partition("-")[0] not in _OVER:
            yield head


async def carry_out(journal: Journal, position: int, fence: int) -> None:
    """Record as unknown what was under way in an older copy; what was done of it before is not done again."""
    runs = actions = 0
    whole = True
    async for head in runs_not_over(journal):
        try:
            found = await _mark(journal, head.stream, position, fence)
        except (UnknownEvent, JournalCorrupt):
            found = None
        if found is None:
            # Nobody can drive it here; whoever can finds this not carried out, and does it.
            whole = False
            continue
        runs, actions = runs + (found > 0), actions + found
    if whole:
        await journal.append(RESTORES, [RestoreCarriedOut(position, runs, actions)], fence=fence, meta={"epoch": fence})


async def _mark(journal: Journal, stream: str, position: int, fence: int) -> int | None:
    """Record as unknown what was under way in a run: how many writes; None where it cannot be read here."""
    while True:
        state = RunState(stream.removeprefix("run/"))
        started: dict[str, int] = {}
        async for record in journal.read(stream):
            if is_withheld(record):
                return None
            event = journal.registry.decode(record)
            if isinstance(event, ActionStarted):
                started[event.action] = record.position
            state = evolve(state, event)
        events = unknown_since(state, started, position)
        if not events:
            return 0
        expected = state.version
        for each in events:
            state = evolve(state, each)
        told = status(state)
        write = Write(
            stream, events, expected=expected, label=told.label, wake_at=told.wake_at, domain=domain_of(state)
        )
        try:
            await journal.commit([write], fence=fence, meta={"epoch": fence})
        except VersionConflict:
            continue
        return len(events)
