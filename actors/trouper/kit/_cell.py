"""The life of one actor: its task, its mailbox, its children.

Theory. A cell has one task, ``run``. It lives one incarnation after another (``_live``): make an instance, run its
``started`` hook, serve the mailbox until it is closed and empty, stop the children, run ``stopped``. An incarnation
ends early when its instance raises, when a task that it owns raises or a child escalates (``fail``, which cancels the
handler in progress), or when it is cancelled. What follows a failure is decided by the pure ``next_action``. However it
ends, the children and owned tasks have ended first, and ``_end`` answers every ask and tells the watchers.

The tasks of all actors run in one nursery, the system's; that children never outlive their supervisor is kept here
(``_end_dependants``). A nursery for each supervisor, with the task that it takes to hold it, would cost as much as the
two actors.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVarTuple

import attrs
import trio

from trouper._clock import Clock
from trouper.errors import ActorError, ActorFailed, ActorStopped
from trouper.kit._lifecycle import Incident, State, step
from trouper.kit._mailbox import Mailbox, Slot
from trouper.kit._messages import Reason, Terminated
from trouper.kit._owned import OwnedNursery, StartSoon
from trouper.kit._supervision import Action, Escalate, Restart, Supervision, next_action, recent
from trouper_journal import Plain, Printable

logger = logging.getLogger("trouper.kit")

Ts = TypeVarTuple("Ts")

# Messages handled before others get a turn, when no handler waits for anything. A checkpoint costs about 3 µs, a
# message about 0.5 µs: 32 keeps the price of fairness below a fifth of the work.
BURST: Final = 32


class Behaviour(Protocol):
    """What a cell needs of an actor's instance."""

    async def started(self) -> None:
        """Run before the first message."""
        ...

    async def receive(self, message: object, /) -> object:
        """Handle one message."""
        ...

    async def stopped(self) -> None:
        """Run after the last message, on an orderly stop."""
        ...


class Supervisor(Protocol):
    """A cell, or the system itself."""

    path: str
    children: dict[str, Cell]
    state: State

    def fail(self, error: Exception) -> None:
        """A child escalated."""
        ...


@attrs.define(repr=False)
class Counters(Printable):
    """What a system counts over all its actors."""

    spawned: int = 0
    failures: int = 0
    restarts: int = 0


@attrs.frozen(slots=False, repr=False, eq=False)
class Surroundings(Plain):
    """What all cells of a system share.

    Attributes:
        clock: Source of time.
        counters: What is counted.
        start: Starts a task in the system's nursery, in which all actors run. An actor ends its children before it
            ends itself, so that none is left without a supervisor; a nursery for each would cost as much as an actor.
    """

    clock: Clock
    counters: Counters
    start: StartSoon


class Cell:
    """One actor from its spawning to its end."""

    def __init__(
        self, name: str, parent: Supervisor, shared: Surroundings, *, capacity: int, policy: Supervision
    ) -> None:
        self.name = name
        self.path = f"{parent.path}/{name}"
        self.parent = parent
        self.children: dict[str, Cell] = {}
        self.shared = shared
        self.policy = policy
        self.mailbox = Mailbox(self.path, capacity)
        self.make: Callable[[], Behaviour] | None = None
        self.state = State.STARTING
        self.task: trio.lowlevel.Task | None = None
        self.slot: Slot | None = None
        self.later: set[Slot] = set()
        self.handled = 0
        self.failures = 0
        self.restarts = 0
        self.terminated: Terminated | None = None
        self._scope = trio.CancelScope()
        self._failure: Exception | None = None
        self._moments: tuple[int, ...] = ()
        self._cancelled = False
        # Set with a cancel of the scope: a reader that was woken before must not take what woke it.
        self._halted = False
        self._owned: OwnedNursery | None = None
        self._ended: trio.Event | None = None
        self.watchers: dict[Cell, None] | None = None
        self.watched: dict[Cell, None] | None = None

    def begin(self, make: Callable[[], Behaviour]) -> None:
        """Start the task and enter the tree.

        Raises:
            ActorStopped: The supervisor has ended.
        """
        if not self.parent.state.alive:
            raise ActorStopped(self.parent.path)
        self.make = make
        self.shared.start(self.run, name=self.path)
        self.parent.children[self.name] = self
        self.shared.counters.spawned += 1

    def start_soon(self, fn: Callable[[*Ts], Awaitable[None]], /, *args: *Ts, name: str) -> None:
        """Start a task in this cell's own nursery, opening it at first use."""
        if not self.state.alive:
            raise ActorStopped(self.path)
        if self._owned is None:
            self._owned = OwnedNursery(self.shared.start, self.path)
        self._owned.start_soon(fn, *args, name=name)

    def request_stop(self) -> None:
        """Close the mailbox; the task does the rest. May be repeated."""
        if self.state.alive:
            self.state = step(self.state, Incident.STOP)
            self.mailbox.close()

    def cancel(self) -> None:
        """End at the next checkpoint, handling nothing more."""
        self._cancelled = self._halted = True
        self._scope.cancel()

    def fail(self, error: Exception) -> None:
        """Fail from outside the handler: an owned task raised, or a child escalated. The first failure counts."""
        if self._failure is None:
            self._failure = error
            self._halted = True
            self._scope.cancel()

    async def wait_ended(self) -> Terminated:
        """Wait until nothing of the actor runs."""
        if self._ended is None:
            self._ended = trio.Event()
        while (terminated := self.terminated) is None:
            await self._ended.wait()
        await trio.lowlevel.checkpoint()
        return terminated

    def watch(self, other: Cell) -> None:
        """Have ``Terminated`` of ``other`` put into the own mailbox, at once if it has ended."""
        if other.terminated is not None:
            self.mailbox.put_news(other.terminated)
            return
        if other.watchers is None:
            other.watchers = {}
        if self.watched is None:
            self.watched = {}
        other.watchers[self] = None
        self.watched[other] = None

    def unwatch(self, other: Cell) -> None:
        """Undo ``watch``; news that is in the mailbox already stays."""
        for cells, cell in ((self.watched, other), (other.watchers, self)):
            if cells is not None:
                cells.pop(cell, None)

    def holds_task(self, task: trio.lowlevel.Task) -> bool:
        """Whether the task is this actor's or a descendant's."""
        return self.task is task or any(child.holds_task(task) for child in self.children.values())

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """The actor's task. Ctrl-C is for the main task, which stops the system in order."""
        self.task = self.mailbox.reader = trio.lowlevel.current_task()
        error: Exception | None = None
        in_order = False
        action: Action | None = None
        try:
            while (error := await self._live()) is not None:
                action = self._judge(error)
                if not isinstance(action, Restart):
                    break
                error = None
                await self._pause(action.delay)
                if self._cancelled or self.state is State.STOPPING:
                    break
                self.state = step(self.state, Incident.RESTARTED)
                self.restarts += 1
                self.shared.counters.restarts += 1
            in_order = not self._cancelled
        finally:
            self._end(error, in_order=in_order)
        if error is not None and isinstance(action, Escalate):
            self.parent.fail(ActorFailed(self.path, error))

    async def _live(self) -> Exception | None:
        """One incarnation. Returns what it failed with, None when it stopped in order or was cancelled."""
        try:
            with self._scope:
                await self.shelter(self._perform)
        finally:
            # A task that is being cancelled may start another, or a child: they are ended in their turn.
            while self._owned is not None or self.children:
                await self._end_dependants()
        failure = self._failure
        if failure is not None:
            self._settle_hands(ActorFailed(self.path, failure))
            self._failure = None
            self._halted = False
            self._scope = trio.CancelScope()
        return failure

    async def _end_dependants(self) -> None:
        """Cancel owned tasks and children and wait for them, as the end of a nursery would: not to be cancelled."""
        for child in self.children.values():
            child.cancel()
        if self._owned is not None:
            owned, self._owned = self._owned, None
            await owned.close()
        if self.children:
            with trio.CancelScope(shield=True):
                for child in list(self.children.values()):
                    await child.wait_ended()

    async def shelter(self, fn: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Run ``fn`` for this actor: what it raises is the actor's failure; a cancellation passes through."""
        try:
            await fn(*args)
        except Exception as error:  # noqa: BLE001 -- it becomes the actor's failure
            self.fail(error)
        except BaseExceptionGroup as group:
            # A nursery in the handler was cancelled while a task in it raised: the failure is ours, the rest is not.
            failures, rest = group.split(Exception)
            if failures is not None:
                self.fail(failures)
            if rest is not None:
                raise rest from None

    async def _perform(self) -> None:
        assert self.make is not None
        actor = self.make()
        await actor.started()
        self.state = step(self.state, Incident.STARTED)
        await self._serve(actor.receive)
        for child in reversed(list(self.children.values())):
            child.request_stop()
            await child.wait_ended()
        await actor.stopped()

    async def _serve(self, receive: Callable[[object], Awaitable[object]]) -> None:
        mailbox = self.mailbox
        queue = mailbox.queue
        left = BURST
        while True:
            if self._halted:
                await trio.lowlevel.checkpoint()
            if not queue:
                if mailbox.closed:
                    return
                await mailbox.wait()
                left = BURST
                continue
            item = queue.popleft()
            if mailbox.line:
                mailbox.admit()
            if type(item) is Slot:
                self.slot = item
                value = await receive(item.message)
                if self.slot is not None:
                    self.slot = None
                    item.answer(value)
            else:
                await receive(item)
            self.handled += 1
            left -= 1
            if not left:
                left = BURST
                await trio.lowlevel.checkpoint()

    def _judge(self, error: Exception) -> Action | None:
        now = self.shared.clock.now()
        self.failures += 1
        self.shared.counters.failures += 1
        self._moments = (*recent(self.policy, self._moments, now), now)
        action: Action | None = next_action(self.policy, self._moments, now)
        if isinstance(action, Restart):
            if self.state is State.STOPPING:
                action = None
            else:
                self.state = step(self.state, Incident.FAILED)
        # The message of the exception stays out: it may quote what the actor was told.
        verdict = "it was stopping" if action is None else action
        logger.warning("actor %s failed with %s: %s", self.path, type(error).__name__, verdict)
        return action

    async def _pause(self, delay: float) -> None:
        """Wait before a restart; a stop or a cancel ends the wait."""
        with self._scope, self.shared.clock.timeout(delay):
            while not self.mailbox.closed and not self._cancelled:
                await self.mailbox.wait()
        self._scope = trio.CancelScope()

    def _settle_hands(self, error: ActorError) -> None:
        """Fail the asks that the instance had taken."""
        if self.slot is not None:
            slot, self.slot = self.slot, None
            slot.fail(error)
        for slot in self.later:
            slot.fail(error)
        self.later.clear()

    def _end(self, error: Exception | None, *, in_order: bool) -> None:
        reason: Reason
        if error is not None:
            incident, reason = Incident.GAVE_UP, "failed"
        elif in_order:
            incident, reason = Incident.ENDED, "stopped"
        else:
            incident, reason = Incident.CANCELLED, "cancelled"
        self.state = step(self.state, incident)
        self.terminated = Terminated(self.path, reason, error)
        self.mailbox.close()
        self._settle_hands(ActorStopped(self.path))
        self.mailbox.drop()
        self.parent.children.pop(self.name, None)
        # A ref may be kept for long; what the actor held must not be.
        self.make = self.task = self.mailbox.reader = None
        if self._ended is not None:
            self._ended.set()
        for watcher in self.watchers or ():
            watcher.mailbox.put_news(self.terminated)
            if watcher.watched is not None:
                watcher.watched.pop(self, None)
        for other in self.watched or ():
            if other.watchers is not None:
                other.watchers.pop(self, None)
