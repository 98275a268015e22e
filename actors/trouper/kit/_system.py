"""The system: the root of a tree of actors, and the block that owns them all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TypeVar, final

import trio

from trouper._clock import Clock, SystemClock
from trouper.errors import ActorStopped, SelfWait
from trouper.kit._actor import Actor, Shared, spawn, spawn_nowait
from trouper.kit._cell import Cell, Counters
from trouper.kit._lifecycle import State
from trouper.kit._ref import NoPublicConstructor, Ref, construct
from trouper.kit._statistics import SystemStatistics, TreeNode
from trouper.kit._supervision import ESCALATE, Supervision

M = TypeVar("M")


class Root:
    """The supervisor of the first actors; what escalates to it is raised out of the system's block."""

    nursery: trio.Nursery

    def __init__(self, path: str) -> None:
        self.path = path
        self.children: dict[str, Cell] = {}
        self.state = State.RUNNING

    def start_soon(self, fn: Callable[[], Awaitable[None]], /, *, name: str) -> None:
        """Start a task in the system's nursery."""
        self.nursery.start_soon(fn, name=name)

    def fail(self, error: Exception) -> None:
        """Let it out: this runs in the child's task, and the nursery does the rest."""
        raise error

    def cancel(self) -> None:
        """Cancel everything."""
        self.nursery.cancel_scope.cancel()


@final
class ActorSystem(metaclass=NoPublicConstructor):
    """A running tree of actors; made by ``open_system``."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._shared = Shared(clock, Counters(), root.start_soon, self)

    @property
    def name(self) -> str:
        """The first part of all paths."""
        return self._root.path

    async def spawn(
        self,
        actor: Actor[M] | Callable[[], Actor[M]],
        *,
        name: str | None = None,
        mailbox: int = 100,
        supervision: Supervision = ESCALATE,
    ) -> Ref[M]:
        """Start an actor. Its messages queue from now on; ``started`` runs in its own task.

        Always a checkpoint. When cancelled, nothing was spawned.

        Args:
            actor: An instance; or, so that it can be restarted, a class or function that makes a new one each time.
            name: Unique among living siblings, without ``/``. Default: the class and a number.
            mailbox: How many messages may wait.
            supervision: What follows a failure. By default it escalates, as an exception in a Trio task does.

        Raises:
            NameTaken: A living sibling has that name.
            ValueError: A bad name or bound, a restart without a factory, or an instance that was spawned before.
            ActorStopped: The system has stopped or is stopping.
        """
        if self._root.state is not State.RUNNING:
            raise ActorStopped(self._root.path)
        return await spawn(self._root, self._shared, actor, name=name, mailbox=mailbox, supervision=supervision)

    def spawn_nowait(
        self,
        actor: Actor[M] | Callable[[], Actor[M]],
        *,
        name: str | None = None,
        mailbox: int = 100,
        supervision: Supervision = ESCALATE,
    ) -> Ref[M]:
        """Start an actor as `spawn` does, without a checkpoint."""
        if self._root.state is not State.RUNNING:
            raise ActorStopped(self._root.path)
        return spawn_nowait(self._root, self._shared, actor, name=name, mailbox=mailbox, supervision=supervision)

    async def stop(self) -> None:
        """Stop all actors in order, children before their supervisors, the last spawned first. May be repeated.

        Leaving the system's block does this too. When cancelled, the actor that is stopping goes on. To bound it:
        ``with trio.move_on_after(seconds): await system.stop()``, then ``system.cancel()``.

        Raises:
            SelfWait: Called by one of the actors. Use ``Ref.request_stop``, or end the block.
        """
        root = self._root
        task = trio.lowlevel.current_task()
        if any(child.holds_task(task) for child in root.children.values()):
            raise SelfWait(root.path, "stop was awaited by one of its actors")
        if root.state is State.RUNNING:
            root.state = State.STOPPING
        while root.children:
            child = next(reversed(root.children.values()))
            child.request_stop()
            await child.wait_ended()
        root.state = State.STOPPED
        await trio.lowlevel.checkpoint()

    def cancel(self) -> None:
        """End all actors at their next checkpoint, and cancel the body of the system's block with them."""
        self._root.cancel()

    def tree(self) -> TreeNode:
        """All living actors, with states and mailbox depths."""
        root = self._root
        return TreeNode(
            name=root.path,
            path=root.path,
            state=root.state,
            mailbox=0,
            capacity=0,
            children=tuple(map(_node, root.children.values())),
        )

    def statistics(self) -> SystemStatistics:
        """Sums over all living actors, and what was counted so far."""
        cells = list(_walk(self._root.children.values()))
        counters = self._shared.counters
        return SystemStatistics(
            actors=len(cells),
            mailbox=sum(len(cell.mailbox.queue) for cell in cells),
            waiting_senders=sum(len(cell.mailbox.line or ()) for cell in cells),
            spawned=counters.spawned,
            failures=counters.failures,
            restarts=counters.restarts,
        )

    def __repr__(self) -> str:
        return f"<ActorSystem {self._root.path} {self._root.state.value}>"


def _node(cell: Cell) -> TreeNode:
    return TreeNode(
        name=cell.name,
        path=cell.path,
        state=cell.state,
        mailbox=len(cell.mailbox.queue),
        capacity=cell.mailbox.capacity,
        children=tuple(map(_node, cell.children.values())),
    )


def _walk(cells: Iterable[Cell]) -> Iterator[Cell]:
    for cell in cells:
        yield cell
        yield from _walk(cell.children.values())


@asynccontextmanager
async def open_system(*, name: str = "system", clock: Clock | None = None) -> AsyncGenerator[ActorSystem, None]:
    """Open the block in which a system of actors lives.

    When the block ends, all actors are stopped in order (``ActorSystem.stop``) and waited for. When it raises or is
    cancelled, and when a failure escalates to the system, all are cancelled and waited for. No task outlives the block.

    Args:
        name: First part of all paths.
        clock: Source of time for restarts; the machine's by default.

    Raises:
        ExceptionGroup: With an ``ActorFailed`` for a failure that escalated, as from any Trio nursery.
        ValueError: An empty name or one with ``/``.
    """
    if not name or "/" in name:
        raise ValueError(f"a system's name must not be empty or contain '/': {name!r}")
    root = Root(name)
    system = construct(ActorSystem, root, clock or SystemClock())
    try:
        async with trio.open_nursery() as root.nursery:
            try:
                yield system
            finally:
                root.state = State.STOPPING
            await system.stop()
    finally:
        root.state = State.STOPPED
