"""Who is on stage: which runs are in memory, who waits for them, and how they come and go.

A run is put on stage when it is submitted, when somebody appended to its stream, when its alarm goes off, or at the
start because it had not ended; it leaves when it has nothing to do. There is room for so many at a time: the others
wait where they are safe, in the journal, and are found there again when there is room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final

import trio
from attrs import define, field

from trouper.core.state import RunState
from trouper.core.status import AT_ONCE, DRIFTED
from trouper.errors import ActorError, RuntimeStopped, TrouperError
from trouper.kit import ActorSystem, Ref, TreeNode, open_system
from trouper.runtime.agent import AgentActor
from trouper.runtime.approver import PeopleApprover
from trouper.runtime.commands import Commands
from trouper.runtime.desk import Desk
from trouper.runtime.executor import Executor
from trouper.runtime.model import ModelActor
from trouper.runtime.protocol import AbandonAll, AbortAll, ModelMessage, TreeMessage, Wake
from trouper.runtime.tree import Tree


@define(eq=False)
class _Live:
    """A run in memory, put there as of some version; ``tree`` comes a moment after the decision to do so.

    Attributes:
        news: Word of news was sent to it, and it has not read its stream since.
        announced: It had ended, and who waited then was told; something of it may still be alive.
    """

    version: int
    tree: Ref[TreeMessage] | None = None
    news: bool = False
    announced: bool = False


@define(eq=False)
class _Waiter:
    done: trio.Event = field(factory=trio.Event)
    state: RunState | None = None
    error: Exception | None = None


@final
class Stage:
    """The runs in memory, and their audience.

    Args:
        room: How many runs may be in memory.
        drain: Seconds that what is under way has to end.
    """

    def __init__(self, room: int, drain: float) -> None:
        self._room = room
        self._drain = drain
        self._live: dict[str, _Live] = {}
        self._waiters: dict[str, list[_Waiter]] = {}
        self._stuck: dict[str, Exception] = {}
        self._left_out = False
        self._empty = trio.Event()
        self._gone = trio.Event()
        self._kick = trio.Event()
        self._alarm: int | None = None
        self._alarm_changed = trio.Event()
        self._activations = 0
        self.failure: TrouperError | None = None
        self._desk: Desk
        self._system: ActorSystem | None = None

    @property
    def active(self) -> int:
        """How many runs are in memory."""
        return len(self._live)

    def tree(self) -> TreeNode:
        """The living actors."""
        assert self._system is not None
        return self._system.tree()

    # ---- opening and closing

    @asynccontextmanager
    async def open(self, desk: Desk, *, grace: float, model_concurrency: int | None) -> AsyncIterator[None]:
        """Keep the actors for the length of a block.

        They live in a task of their own that outer cancellation does not reach: what is under way when the block is
        cancelled is first brought to a recorded end, in bounded time.
        """
        self._desk = desk
        manager = trio.open_nursery()
        nursery = await manager.__aenter__()
        stop = trio.Event()
        try:
            await nursery.start(self._host, grace, model_concurrency, stop)
            yield
        except BaseException as error:
            await self._close(nursery, stop)
            if nursery.cancel_scope.cancel_called:
                # One of our own tasks has crashed, which is a defect: its error must come out, in the nursery's way.
                if await manager.__aexit__(type(error), error, error.__traceback__):
                    return
                raise
            # What the block raised is the caller's: it leaves as it is, not in a group.
            await manager.__aexit__(None, None, None)
            raise
        await self._close(nursery, stop)
        await manager.__aexit__(None, None, None)

    async def _close(self, nursery: trio.Nursery, stop: trio.Event) -> None:
        """Empty the nursery, so that leaving it waits for nothing that an outer cancel could come between."""
        with trio.CancelScope(shield=True):
            if self._system is not None:
                await self._bring_to_end()
            stop.set()
            await self._gone.wait()
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()

    async def _host(
        self,
        grace: float,
        model_concurrency: int | None,
        stop: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await self._keep_system(grace, model_concurrency, stop, task_status)
        finally:
            self._gone.set()

    async def _keep_system(
        self, grace: float, model_concurrency: int | None, stop: trio.Event, task_status: trio.TaskStatus[None]
    ) -> None:
        with trio.CancelScope(shield=True):
            async with open_system(name="trouper", clock=self._desk.clock) as system:
                self._system = system
                await self._hire(system, grace, model_concurrency)
                async with trio.open_nursery() as watchers:
                    watchers.start_soon(self._listen)
                    watchers.start_soon(self._ring_alarms)
                    watchers.start_soon(self._put_on)
                    task_status.started()
                    await stop.wait()
                    watchers.cancel_scope.cancel()
                with self._desk.clock.timeout(self._drain) as limit:
                    await system.stop()
                if limit.cancelled_caught:
                    system.cancel()

    async def _hire(self, system: ActorSystem, grace: float, model_concurrency: int | None) -> None:
        desk = self._desk
        desk.approver = await system.spawn(PeopleApprover(), name="approver")
        hired: dict[int, Ref[ModelMessage]] = {}
        for agent in desk.agents.values():
            if id(agent.model) not in hired:
                name = f"model-{len(hired) + 1}"
                ref = await system.spawn(ModelActor(agent.model, model_concurrency), name=name, mailbox=1000)
                hired[id(agent.model)] = ref
            desk.models[agent.name] = hired[id(agent.model)]
            for tool in agent.tools:
                executor = Executor(tool, desk.secrets, desk.clock, grace)
                desk.executors[agent.name, tool.name] = await system.spawn(
                    executor, name=f"executor-{agent.name}-{tool.name}", mailbox=1000
                )

    async def _bring_to_end(self) -> None:
        """Begin nothing more; wait for what is under way, then cancel it, and wait for that too."""
        clock = self._desk.clock
        self._desk.draining = True
        self._kick.set()
        for run in list(self._live):
            self._tell(run)
        with clock.timeout(self._drain):
            await self._emptied()
        if self._live:
            for executor in self._desk.executors.values():
                await executor.tell(AbortAll())
            for model in set(self._desk.models.values()):
                await model.tell(AbandonAll())
            with clock.timeout(self._drain):
                await self._emptied()
        for run in list(self._waiters):
            self._answer(run, error=self.failure or RuntimeStopped(f"the runtime stopped before run {run} had ended"))

    async def _emptied(self) -> None:
        while self._live:
            self._empty = trio.Event()
            await self._empty.wait()

    # ---- coming and going

    async def admit(self, run: str, known: RunState | None = None) -> None:
        """Put a run on stage, or tell it that there is news if it is there.

        Args:
            run: The run's id.
            known: Its state, where it was submitted just now.
        """
        if self._desk.draining or self.failure is not None or self._system is None:
            return
        live = self._live.get(run)
        if live is not None:
            self._tell(run)
            return
        if len(self._live) >= self._room:
            self._left_out = True
            return
        self._stuck.pop(run, None)
        live = self._live[run] = _Live(known.version if known is not None else 0)
        self._activations += 1
        states = [known] if known is not None else []

        def make() -> AgentActor:
            return AgentActor(run, self._desk, states.pop() if states else None)

        tree = Tree(run, make, lambda error: self.stuck(run, error))
        try:
            live.tree = await self._system.spawn(tree, name=f"run-{run}-{self._activations}", mailbox=8)
        except BaseException:
            if self._live.get(run) is live:
                self._off(run)
            raise
        if live.news:
            self._tell(run)

    def _tell(self, run: str) -> None:
        live = self._live.get(run)
        if live is None:
            return
        live.news = True
        if live.tree is None:
            return
        try:
            live.tree.tell_nowait(Wake())
        except ActorError:
            # Full: word of news is in there already. Stopped: it reads the stream anew when it is next put on.
            return

    def _off(self, run: str) -> None:
        self._live.pop(run, None)
        if not self._live:
            self._empty.set()
        # Not for each free place: every look at the journal passes over those that are in memory.
        if self._left_out and len(self._live) <= self._room * 3 // 4:
            self._kick.set()

    # ---- the audience of the agents

    def ended(self, state: RunState) -> None:
        """The run is over, durably."""
        live = self._live.get(state.run)
        if live is not None:
            live.announced = True
        self._answer(state.run, state=state)

    def reading(self, run: str) -> None:
        """The run's agent is about to read its stream."""
        live = self._live.get(run)
        if live is not None:
            live.news = False

    def left(self, run: str) -> bool:
        """The run has nothing to do now; False if it must stay because word of news is on its way to it."""
        live = self._live.get(run)
        if live is not None and live.news:
            return False
        self._off(run)
        return True

    def alarm(self, moment: int) -> None:
        """A run has something to do at this moment."""
        if self._alarm is None or moment < self._alarm:
            self._alarm = moment
            self._alarm_changed.set()

    def stuck(self, run: str, error: Exception) -> None:
        """The run cannot be driven by this process."""
        self._stuck[run] = error
        self._off(run)
        self._answer(run, error=error)

    def broken(self, error: Exception) -> None:
        """The journal cannot be written."""
        if self.failure is None:
            failure = error if isinstance(error, TrouperError) else TrouperError(str(error))
            self.failure = failure
        self._live.clear()
        self._empty.set()
        self._desk.draining = True
        for run in list(self._waiters):
            self._answer(run, error=self.failure)

    def revive(self, run: str) -> None:
        """Forget that a run could not be driven."""
        self._stuck.pop(run, None)

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
                    raise self._stuck[run]
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

    # ---- watching the journal

    async def _listen(self) -> None:
        """Others append too: what they append to is due."""
        async with self._desk.journal.arrivals() as arrivals:
            while (arrival := await arrivals.wait()) is not None:
                # Whoever submitted in this process puts the run on in this very moment, and knows its state.
                await trio.lowlevel.checkpoint()
                for stream, version in arrival.streams.items():
                    await self._appended(stream, version)
                if arrival.elsewhere:
                    self._kick.set()

    async def _appended(self, stream: str, version: int) -> None:
        run = stream.removeprefix("run/")
        live = self._live.get(run)
        if run != stream and run not in self._stuck and (live is None or version > live.version):
            await self.admit(run)

    async def _ring_alarms(self) -> None:
        while True:
            self._alarm_changed = trio.Event()
            if self._alarm is None:
                await self._alarm_changed.wait()
                continue
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._cancel_on_change, scope)
                    await self._desk.clock.sleep_until(self._alarm)
                    self._alarm = None
                    self._kick.set()
                    scope.cancel()

    async def _cancel_on_change(self, scope: trio.CancelScope) -> None:
        await self._alarm_changed.wait()
        scope.cancel()

    async def _put_on(self) -> None:
        """Put on stage whatever is due: at first all that had not ended, and from then on what becomes due."""
        await self._scan(label=DRIFTED)
        while True:
            self._kick = trio.Event()
            self._left_out = False
            await self._scan()
            await self._kick.wait()

    async def _scan(self, label: str | None = None) -> None:
        journal, now = self._desk.journal, self._desk.clock.now()
        async for head in journal.streams(label=label, prefix="run/", wake_before=None if label else now):
            run = head.stream.removeprefix("run/")
            under_way = run in self._live and head.wake_at in {None, AT_ONCE}
            if run not in self._stuck and not under_way:
                await self.admit(run)
            if self._left_out or self._desk.draining:
                break
        moment = await journal.next_wake(after=now)
        if moment is not None:
            self.alarm(moment)
