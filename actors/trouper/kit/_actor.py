"""What users write: actors; and what an actor sees of its surroundings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Never, Protocol, TypeVar, TypeVarTuple, cast, final, overload

import attrs
import trio
from trio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled, current_task

from trouper.errors import ActorFailed, NameTaken
from trouper.kit._cell import Behaviour, Cell, Supervisor, Surroundings
from trouper.kit._mailbox import Slot
from trouper.kit._messages import Request
from trouper.kit._ref import NoPublicConstructor, Ref, cell_of, construct
from trouper.kit._statistics import SystemStatistics, TreeNode
from trouper.kit._supervision import ESCALATE, Supervision

M = TypeVar("M")
C = TypeVar("C")
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
Ts = TypeVarTuple("Ts")


class Actor(Generic[M_contra]):
    """Base of actors; override ``receive`` and, where needed, the two hooks.

    An actor handles one message at a time, in its own task. It needs no locks for what is its own. It may wait for
    whatever it likes; meanwhile messages queue.
    """

    _context: Context[M_contra] | None = None

    @property
    def context(self) -> Context[M_contra]:
        """The actor's surroundings.

        Raises:
            RuntimeError: The actor was not spawned yet (``__init__`` is too early; use ``started``).
        """
        if self._context is None:
            raise RuntimeError(f"{type(self).__name__} has a context only once it is spawned; use it from started() on")
        return self._context

    async def started(self) -> None:
        """Run before the first message, after each restart too. Raising counts as a failure."""

    async def receive(self, message: M_contra) -> object:
        """Handle one message.

        Returns:
            The answer, if the message was asked; ignored if it was told.

        Raises:
            Exception: Any exception is a failure of the actor and goes to its supervision. An asker gets
                ``ActorFailed``. The message is not delivered again.
        """
        raise NotImplementedError

    async def stopped(self) -> None:
        """Run on an orderly stop: after the last message, when all children have stopped. Not run after a failure."""


class System(Protocol):
    """What an actor may do with its system; see ``ActorSystem``."""

    @property
    def name(self) -> str:
        """The first part of all paths."""
        ...

    async def spawn(
        self,
        actor: Actor[C] | Callable[[], Actor[C]],
        *,
        name: str | None = None,
        mailbox: int = 100,
        supervision: Supervision = ESCALATE,
    ) -> Ref[C]:
        """Spawn an actor under the system itself, which outlives the spawning one."""
        ...

    def tree(self) -> TreeNode:
        """All living actors."""
        ...

    def statistics(self) -> SystemStatistics:
        """Sums over all living actors, and what was counted so far."""
        ...


@attrs.frozen
class Shared(Surroundings):
    """What all actors of a system share."""

    system: System


@final
class Reply(Generic[R_contra], metaclass=NoPublicConstructor):
    """The place where the answer of one ask goes, taken from the handler with ``Context.reply_later``."""

    __slots__ = ("_cell", "_slot")

    def __init__(self, cell: Cell, slot: Slot | None) -> None:
        self._cell = cell
        self._slot = slot

    def send(self, value: R_contra) -> bool:
        """Answer; never blocks.

        Returns:
            False if it was answered before (or the actor failed or stopped meanwhile): then nothing changes.
        """
        return self._slot is not None and self._slot.answer(value) and self._forget()

    def fail(self, cause: Exception) -> bool:
        """Let the ask raise ``ActorFailed`` with this cause; never blocks. The actor itself does not fail.

        Returns:
            False if it was answered before: then nothing changes.
        """
        return self._slot is not None and self._slot.fail(ActorFailed(self._cell.path, cause)) and self._forget()

    def _forget(self) -> bool:
        if self._slot is not None:
            self._cell.later.discard(self._slot)
        return True


@final
class Context(Generic[M_contra], metaclass=NoPublicConstructor):
    """An actor's surroundings. It stays the same over restarts; only the actor's own tasks should use it."""

    __slots__ = ("_cell", "_shared", "ref")

    def __init__(self, cell: Cell, shared: Shared, ref: Ref[M_contra]) -> None:
        self._cell = cell
        self._shared = shared
        self.ref = ref

    @property
    def name(self) -> str:
        """The actor's path in the tree."""
        return self._cell.path

    @property
    def system(self) -> System:
        """The system that the actor lives in."""
        return self._shared.system

    async def spawn(
        self,
        actor: Actor[C] | Callable[[], Actor[C]],
        *,
        name: str | None = None,
        mailbox: int = 100,
        supervision: Supervision = ESCALATE,
    ) -> Ref[C]:
        """Spawn a child of this actor; see ``ActorSystem.spawn``.

        It ends before this actor ends, and before this actor restarts.
        """
        return await spawn(self._cell, self._shared, actor, name=name, mailbox=mailbox, supervision=supervision)

    def start_task(self, fn: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> trio.CancelScope:
        """Run ``fn(*args)`` in a task that this actor owns, beside its handling of messages.

        If it raises, the actor fails with that exception: its handler is cancelled and its supervision decides. When
        the actor fails, restarts or ends, the task is cancelled and waited for.

        Returns:
            The scope that the task runs in; cancel it to end this task alone.

        Raises:
            ActorStopped: The actor has ended.
        """
        scope = trio.CancelScope()
        cell = self._cell
        cell.start_soon(_owned, scope, cell, fn, args, name=f"{cell.path} {getattr(fn, '__qualname__', fn)}")
        return scope

    @overload
    def reply_later(self) -> Reply[object]: ...
    @overload
    def reply_later(self, request: Request[R]) -> Reply[R]: ...
    def reply_later(self, request: Request[R] | None = None) -> Reply[R] | Reply[object]:  # noqa: ARG002 -- its type
        """Take the place of the answer to the message in hand; what ``receive`` returns is then ignored.

        Answer it from any task, later; until then the ask waits. Asks that are still open when the actor fails are
        answered with ``ActorFailed``, and when it stops with ``ActorStopped``. For a message that was told (and for one
        whose reply was taken before) the reply goes nowhere.

        Args:
            request: The request in hand; gives the reply its type, and is not otherwise used.

        Raises:
            RuntimeError: Called from another task than the handler's.
        """
        cell = self._cell
        if cell.task is not current_task():
            raise RuntimeError(f"actor {cell.path}: reply_later must be called by the handler itself, in its own task")
        slot, cell.slot = cell.slot, None
        if slot is not None:
            cell.later.add(slot)
        reply: Reply[object] = construct(Reply, cell, slot)
        return reply

    def watch(self, ref: Ref[Never]) -> None:
        """Get ``Terminated`` as a message when that actor ends, at once if it has ended.

        It is put into the mailbox beyond its bound, once for each watched actor however often it is watched. A watch
        outlasts restarts of either side.
        """
        self._cell.watch(cell_of(ref))

    def unwatch(self, ref: Ref[Never]) -> None:
        """Stop watching; news that is in the mailbox already stays there."""
        self._cell.unwatch(cell_of(ref))

    def stop(self) -> None:
        """Ask for the own orderly stop, as ``Ref.request_stop``: the handler goes on to its end."""
        self._cell.request_stop()


@trio.lowlevel.enable_ki_protection
async def _owned(scope: trio.CancelScope, cell: Cell, fn: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]) -> None:
    with scope:
        await cell.shelter(fn, *args)


async def spawn(
    parent: Supervisor,
    shared: Shared,
    actor: Actor[C] | Callable[[], Actor[C]],
    *,
    name: str | None,
    mailbox: int,
    supervision: Supervision,
) -> Ref[C]:
    """Start an actor under ``parent``; see ``ActorSystem.spawn``."""
    await checkpoint_if_cancelled()
    ref = spawn_nowait(parent, shared, actor, name=name, mailbox=mailbox, supervision=supervision)
    await cancel_shielded_checkpoint()
    return ref


def spawn_nowait(
    parent: Supervisor,
    shared: Shared,
    actor: Actor[C] | Callable[[], Actor[C]],
    *,
    name: str | None,
    mailbox: int,
    supervision: Supervision,
) -> Ref[C]:
    """Start an actor under ``parent``; see ``ActorSystem.spawn_nowait``."""
    if mailbox < 1:
        raise ValueError(f"mailbox must hold at least 1 message, not {mailbox}")
    if name is None:
        kind = actor if isinstance(actor, type) else type(actor) if isinstance(actor, Actor) else Actor
        name = f"{kind.__name__.lower()}-{shared.counters.spawned + 1}"
    elif not name or "/" in name:
        raise ValueError(f"an actor's name must not be empty or contain '/': {name!r}")
    if name in parent.children:
        raise NameTaken(f"{parent.path}/{name}")
    cell = Cell(name, parent, shared, capacity=mailbox, policy=supervision)
    ref: Ref[C] = construct(Ref, cell)
    context: Context[C] = construct(Context, cell, shared, ref)
    cell.begin(_factory(actor, context, supervision))
    return ref


def _factory(
    actor: Actor[C] | Callable[[], Actor[C]], context: Context[C], supervision: Supervision
) -> Callable[[], Behaviour]:
    if isinstance(actor, Actor):
        if supervision.on_failure == "restart":
            raise ValueError(f"restart needs a factory: spawn {type(actor).__name__} or a function, not an instance")
        behaviour = _place(actor, context)
        return lambda: behaviour
    make = actor
    return lambda: _place(make(), context)


def _place(actor: Actor[C], context: Context[C]) -> Behaviour:
    if actor._context is not None:  # noqa: SLF001 -- this module is the actor's own
        raise ValueError(f"this {type(actor).__name__} was spawned before; a spawn or restart takes a new instance")
    actor._context = context  # noqa: SLF001
    # What reaches a mailbox was checked against M when it was sent.
    return cast("Behaviour", actor)
