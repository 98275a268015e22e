"""Who is on stage: which runs are in memory, who waits for them, and how they come and go.

A run is put on stage when it is submitted or becomes due (see `watch`), and leaves when it has nothing to do. There is
room for so many at a time: the others wait where they are safe, in the journal, and are found there when there is room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import final

import trio
from attrs import define, field, frozen

from trouper.core.family import parent_of
from trouper.core.state import RunState
from trouper.errors import ActorError, RuntimeStopped, TrouperError
from trouper.kit import Ref, TreeNode
from trouper.runtime.agent import AgentActor
from trouper.runtime.broods import Broods
from trouper.runtime.commands import Commands
from trouper.runtime.company import Company
from trouper.runtime.desk import Desk
from trouper.runtime.protocol import AgentMessage, Wake
from trouper.runtime.watch import Watch
from trouper_journal import Plain, Printable


@define(eq=False, repr=False)
class _Live(Printable):
    """A run in memory.

    Attributes:
        agent: Drives it.
        version: How far it is known to have read its stream.
        news: Word of news was sent to it, and it has not read its stream since.
        announced: It had ended, and who waited then was told; something of it may still be alive.
        alarm: When it has something to do though nothing comes (ns UTC).
    """

    agent: Ref[AgentMessage]
    version: int
    news: bool = False
    announced: bool = False
    alarm: int | None = None


@frozen(slots=False, repr=False, eq=False)
class _Stuck(Plain):
    """A run that this process could not drive, as of a version; news of a later one is another try."""

    error: Exception
    version: int


@define(eq=False, repr=False)
class _Waiter(Printable):
    done: trio.Event = field(factory=trio.Event)
    state: RunState | None = None
    error: Exception | None = None


@final
class Stage:
    """The runs in memory, and their audience.

    Args:
        room: How many runs may be in memory.
        drain: Seconds that what is under way has to end when the stage closes.
    """

    def __init__(self, room: int, drain: float) -> None:
        self._room = room
        self._drain = drain
        self._live: dict[str, _Live] = {}
        self._ended_alive = 0
        self._waiters: dict[str, list[_Waiter]] = {}
        self._stuck: dict[str, _Stuck] = {}
        self._broods = Broods()
        self._left_out = False
        self._freed = trio.Event()
        self.failure: TrouperError | None = None
        self._desk: Desk
        self._company: Company
        self._watch: Watch

    @property
    def active(self) -> int:
        """How many runs are in memory."""
        return len(self._live)

    def tree(self) -> TreeNode:
        """The living actors."""
        return self._company.system.tree()

    # ---- opening and closing

    @asynccontextmanager
    async def open(
        self,
        desk: Desk,
        *,
        grace: float,
        model_concurrency: int | None,
        beside: Sequence[Callable[[], Awaitable[None]]] = (),
        first: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[None]:
        """Keep the actors for the length of a block.

        Args:
            desk: What the actors share.
            grace: Seconds that a cancelled tool has to clean up.
            model_concurrency: How many calls of one model may be out at once; None for no limit.
            beside: Further tasks that run beside the actors.
            first: What must be over before any run is put on stage.
        """
        self._desk = desk
        self._company = Company(desk, drain=self._drain, grace=grace, model_concurrency=model_concurrency)
        self._watch = Watch(desk, self)

        async def put_on() -> None:
            if first is not None:
                await first()
            await self._watch.put_on()

        watchers = (self._watch.listen, self._watch.ring_alarms, put_on, *beside)
        async with self._company.open(watchers, self._bring_to_end, self._note_freed):
            yield

    async def _bring_to_end(self) -> None:
        """Begin nothing more; wait for what is under way, then cancel it, and wait for that too."""
        clock = self._desk.clock
        self._desk.draining = True
        for run in list(self._live):
            self._tell(run)
        with clock.timeout(self._drain):
            await self._emptied()
        if self._live:
            await self._company.cancel_work()
            with clock.timeout(self._drain):
                await self._emptied()
        self._desk.broadcast.close(self.failure or RuntimeStopped("the runtime stopped before the run had ended"))
        for run in list(self._waiters):
            self._answer(run, error=self.failure or RuntimeStopped(f"the runtime stopped before run {run} had ended"))

    async def _emptied(self) -> None:
        """Wait until no run is in memory, or no actor is left to bring one to its end."""
        while self._live and not self._company.gone.is_set():
            await self._freed.wait()

    # ---- coming and going

    @property
    def _full(self) -> bool:
        # A run that has ended and waits only for a thread to come back takes nobody's place.
        return len(self._live) - self._ended_alive >= self._room

    def on_stage(self, run: str) -> bool:
        """Whether the run is in memory."""
        return run in self._live

    def knows(self, run: str, version: int) -> bool:
        """Whether the run need not be told of that version of its stream, or will be when its children are through."""
        live = self._live.get(run)
        if live is not None:
            return version <= live.version
        if self._broods.postponed(run, version):
            return True
        stuck = self._stuck.get(run)
        return stuck is not None and version <= stuck.version

    def admit(self, run: str, known: RunState | None = None) -> None:
        """Put a run on stage, or tell it that there is news if it is there.

        Args:
            run: The run's id.
            known: Its state, where it was submitted just now.
        """
        if self._desk.draining or self.failure is not None or self._desk.parked is not None:
            return
        if run in self._live:
            self._tell(run)
        elif self._full:
            self._left_out = True
        else:
            self._put_on(run, known)

    async def admit_in_turn(self, run: str) -> None:
        """Put a run on stage when there is room, or tell it that there is news if it is there."""
        while self._full and run not in self._live:
            await self._freed.wait()
        self.admit(run)

    def _put_on(self, run: str, known: RunState | None) -> None:
        self._stuck.pop(run, None)
        if parent := parent_of(run):
            self._broods.add(parent, run)
        states = [known] if known is not None else []

        def make() -> AgentActor:
            return AgentActor(run, self._desk, states.pop() if states else None)

        agent = self._company.begin(run, make)
        self._live[run] = _Live(agent, known.version if known is not None else 0)

    def _tell(self, run: str) -> None:
        live = self._live.get(run)
        if live is None:
            return
        live.news = True
        try:
            live.agent.tell_nowait(Wake())
        except ActorError:
            # Full: word of news is in there already. Stopped: it reads the stream anew when it is next put on.
            return

    def _off(self, run: str) -> None:
        live = self._live.pop(run, None)
        if live is None:
            return
        if self._broods.leave(parent_of(run), run):
            self._wake(parent_of(run))
        if live.announced:
            self._ended_alive -= 1
        if live.alarm is not None:
            self._watch.alarm(live.alarm)
        self._make_room()

    def _note_freed(self) -> None:
        self._freed.set()
        self._freed = trio.Event()

    def _make_room(self) -> None:
        self._note_freed()
        if self._left_out and not self._full:
            self._left_out = False
            self._watch.call()

    # ---- alarms of runs in memory

    @property
    def next_alarm(self) -> int | None:
        """The earliest alarm of a run in memory, ns UTC."""
        return min((live.alarm for live in self._live.values() if live.alarm is not None), default=None)

    def ring(self, now: int) -> None:
        """Tell the runs in memory whose alarm has gone off."""
        for run, live in self._live.items():
            if live.alarm is not None and live.alarm <= now:
                live.alarm = None
                self._tell(run)

    # ---- the audience of the agents

    def ended(self, state: RunState) -> None:
        """The run is over, durably."""
        live = self._live.get(state.run)
        if live is not None and not live.announced:
            live.announced = True
            self._ended_alive += 1
            self._make_room()
        self._answer(state.run, state=state)

    def reading(self, run: str) -> None:
        """The run's agent is about to read its stream."""
        live = self._live.get(run)
        if live is not None:
            live.news = False

    def has_read(self, run: str, version: int) -> None:
        """The run's agent has read its stream up to this version."""
        live = self._live.get(run)
        if live is not None:
            live.version = max(live.version, version)

    def appended(self, run: str) -> None:
        """Another run's agent appended to this one's stream: it has something to do now."""
        if parent := parent_of(run):
            self._broods.add(parent, run)
        self._wake(run)

    def finished(self, child: str, parent: str, version: int) -> None:
        """A child has ended, and its parent knows by this version of its stream."""
        if self._broods.finished(parent, child, version) or parent in self._live:
            self._wake(parent)

    def ring_for(self, run: str) -> None:
        """What the run could not afford it may afford now."""
        self._wake(run)

    def _wake(self, run: str) -> None:
        if run in self._live:
            self._tell(run)
        else:
            self._watch.call_for(run)

    def left(self, run: str, version: int) -> bool:
        """The run has nothing to do now; False if it must stay because word of news is on its way to it."""
        live = self._live.get(run)
        if live is not None and live.news:
            return False
        self._off(run)
        # One that has an alarm must look then, too: what is due could not be told from that.
        self._broods.rests(run, version if live is None or live.alarm is None else None)
        return True

    def alarm(self, run: str, moment: int | None) -> None:
        """The run has something to do at this moment, or (None) only when something comes."""
        live = self._live.get(run)
        if live is None or live.alarm == moment:
            return
        live.alarm = moment
        if moment is not None:
            self._watch.alarms_changed()

    def stuck(self, run: str, error: Exception) -> None:
        """The run cannot be driven by this process."""
        live = self._live.get(run)
        self._stuck[run] = _Stuck(error, live.version if live is not None else 0)
        self._off(run)
        self._answer(run, error=error)

    def broken(self, error: Exception) -> None:
        """The journal cannot be written."""
        if self.failure is None:
            self.failure = error if isinstance(error, TrouperError) else TrouperError(str(error))
        self._desk.draining = True
        self._desk.broadcast.close(self.failure)
        for run in list(self._live):
            self._off(run)
        for run in list(self._waiters):
            self._answer(run, error=self.failure)

    # ---- waiting for runs

    async def wait_ended(self, run: str, commands: Commands) -> RunState:
        """Wait until a run has ended; its final state."""
        waiter = _Waiter()
        self._waiters.setdefault(run, []).append(waiter)
        try:
            live = self._live.get(run)
            if live is None or live.announced:
                state = await commands.state(run)
                if state.ended:
                    return state
                if run in self._stuck:
                    raise self._stuck[run].error
                if self._desk.parked is not None:
                    raise self._desk.parked
            if self.failure is not None:
                raise self.failure
            await waiter.done.wait()
        finally:
            self._forget(run, waiter)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.state is not None
        return waiter.state

    def _forget(self, run: str, waiter: _Waiter) -> None:
        waiting = self._waiters.get(run, [])
        if waiter in waiting:
            waiting.remove(waiter)
        if not waiting:
            self._waiters.pop(run, None)

    def _answer(self, run: str, *, state: RunState | None = None, error: Exception | None = None) -> None:
        for waiter in self._waiters.pop(run, []):
            waiter.state, waiter.error = state, error
            waiter.done.set()
