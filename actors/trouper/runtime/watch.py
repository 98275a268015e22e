"""The watch: notices which runs have become due, and has them put on stage as there is room.

Three things make a run due: somebody appended to its stream, its alarm went off, or it was under way when the last
driver stopped. All three stand in the journal; what is in memory here is only where to look next.
"""

from __future__ import annotations

from typing import Protocol, final

import trio

from trouper.core.status import AT_ONCE, AT_START
from trouper.runtime.desk import Desk


class Doorkeeper(Protocol):
    """Who lets runs on stage."""

    @property
    def next_alarm(self) -> int | None:
        """The earliest alarm of a run in memory, ns UTC."""
        ...

    def knows(self, run: str, version: int) -> bool:
        """Whether the run need not be told of that version of its stream: it wrote it, or cannot be driven here."""
        ...

    def on_stage(self, run: str) -> bool:
        """Whether the run is in memory."""
        ...

    def admit(self, run: str) -> None:
        """Put a run on stage, or tell it that there is news; where there is no room the watch is called again."""
        ...

    async def admit_in_turn(self, run: str) -> None:
        """The same, after waiting for room."""
        ...

    def ring(self, now: int) -> None:
        """Tell the runs in memory whose alarm has gone off."""
        ...


@final
class Watch:
    """Looks for runs that are due.

    Args:
        desk: What the actors share.
        doorkeeper: Who lets runs on stage.
    """

    def __init__(self, desk: Desk, doorkeeper: Doorkeeper) -> None:
        self._desk = desk
        self._doorkeeper = doorkeeper
        self._called = trio.Event()
        self._everything = True
        self._wanted: dict[str, None] = {}
        self._stored_alarm: int | None = None
        self._alarm_changed = trio.Event()

    def call(self) -> None:
        """Have the journal looked through for runs that are due."""
        self._everything = True
        self._called.set()

    def call_for(self, run: str) -> None:
        """Have one run put on stage that is known to be due."""
        self._wanted[run] = None
        self._called.set()

    def alarm(self, moment: int) -> None:
        """A run that is no longer in memory has something to do at this moment (ns UTC)."""
        if self._stored_alarm is None or moment < self._stored_alarm:
            self._stored_alarm = moment
            self.alarms_changed()

    def alarms_changed(self) -> None:
        """The earliest alarm may have become another one."""
        self._alarm_changed.set()

    @trio.lowlevel.enable_ki_protection
    async def listen(self) -> None:
        """Others append too: what they append to is due."""
        async with self._desk.journal.arrivals() as arrivals:
            while (arrival := await arrivals.wait()) is not None:
                # Whoever submitted in this process puts the run on in this very moment, and knows its state.
                await trio.lowlevel.checkpoint()
                for stream, version in arrival.streams.items():
                    run = stream.removeprefix("run/")
                    if run != stream and not self._doorkeeper.knows(run, version):
                        self._doorkeeper.admit(run)
                        await trio.lowlevel.checkpoint()
                if arrival.elsewhere:
                    self.call()

    @trio.lowlevel.enable_ki_protection
    async def ring_alarms(self) -> None:
        """Wake for the earliest alarm, of a run in memory or not."""
        clock = self._desk.clock
        while True:
            self._alarm_changed = trio.Event()
            moments = [moment for moment in (self._stored_alarm, self._doorkeeper.next_alarm) if moment is not None]
            if not moments:
                await self._alarm_changed.wait()
                continue
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_on_change, nursery.cancel_scope)
                await clock.sleep_until(min(moments))
                nursery.cancel_scope.cancel()
            now = clock.now()
            if self._stored_alarm is not None and self._stored_alarm <= now:
                self._stored_alarm = None
                self.call()
            self._doorkeeper.ring(now)

    @trio.lowlevel.enable_ki_protection
    async def _cancel_on_change(self, scope: trio.CancelScope) -> None:
        await self._alarm_changed.wait()
        scope.cancel()

    @trio.lowlevel.enable_ki_protection
    async def put_on(self) -> None:
        """Put on stage whatever is due: at first all that had not ended, and from then on what becomes due."""
        at_start = True
        while True:
            self._called = trio.Event()
            wanted, self._wanted = self._wanted, {}
            for run in wanted:
                # Where there is no room it is found in the journal later.
                self._doorkeeper.admit(run)
                await trio.lowlevel.checkpoint()
            if self._everything:
                self._everything = False
                await self._look_through(at_start=at_start)
                at_start = False
            await self._called.wait()

    async def _look_through(self, *, at_start: bool) -> None:
        """Go through the due streams, oldest first; wait where there is no room, so that none is passed over."""
        journal, now = self._desk.journal, self._desk.clock.now()
        async for head in journal.streams(prefix="run/", wake_before=now):
            run = head.stream.removeprefix("run/")
            # A run under way is due only while nobody has it; one that waits for another definition, at a start.
            if head.wake_at == AT_ONCE and self._doorkeeper.on_stage(run):
                continue
            if head.wake_at == AT_START and not at_start:
                continue
            if not self._doorkeeper.knows(run, head.version):
                await self._doorkeeper.admit_in_turn(run)
        moment = await journal.next_wake(after=now)
        if moment is not None:
            self.alarm(moment)
