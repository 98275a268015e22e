"""The handle through which everybody else speaks to an actor."""

from __future__ import annotations

from typing import Generic, Never, TypeVar, cast, final

import trio
from trio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled, current_task

from trouper.errors import SelfWait
from trouper.kit._cell import Cell
from trouper.kit._mailbox import Slot
from trouper.kit._messages import Request, Terminated
from trouper.kit._statistics import ActorStatistics

M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
T = TypeVar("T")


class NoPublicConstructor(type):
    """Metaclass of handles that only the kit hands out (after trio's)."""

    def __call__(cls, *_args: object, **_kwargs: object) -> None:
        """Refuse to make one."""
        raise TypeError(f"{cls.__qualname__} has no public constructor; the kit hands it out")


def construct(cls: type[T], *args: object) -> T:
    """Make an instance of a class that has no public constructor."""
    return cast("T", type.__call__(cls, *args))


@final
class Ref(Generic[M_contra], metaclass=NoPublicConstructor):
    """Address of an actor that understands messages of type ``M``.

    Refs come from ``spawn``, ``Context.ref`` and messages; they may be kept and passed around, and stay valid over
    restarts. When the actor has ended, telling and asking raise ``ActorStopped``.

    Messages are handled in the order in which their senders came. All methods must be called in the Trio run of the
    system.
    """

    __slots__ = ("_cell", "_mailbox")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._mailbox = cell.mailbox

    @property
    def name(self) -> str:
        """Path of the actor in the tree, such as ``"shop/desk/printer"``."""
        return self._cell.path

    async def tell(self, message: M_contra) -> None:
        """Put a message into the mailbox, waiting while it is full. Returning says that it was accepted, not handled.

        Always a checkpoint. When cancelled, the message was not accepted.

        Raises:
            ActorStopped: The actor has stopped or is stopping, now or while this waited for room.
            MailboxFull: An actor told itself while its own mailbox was full: it would wait for ever.
        """
        await checkpoint_if_cancelled()
        if self._mailbox.offer(message):
            await cancel_shielded_checkpoint()
            return
        slot = Slot(message)
        self._mailbox.stand_in_line(slot, ask=False)
        await slot.wait()

    def tell_nowait(self, message: M_contra) -> None:
        """Put a message into the mailbox at once.

        Raises:
            MailboxFull: There is no room; the message was not accepted.
            ActorStopped: The actor has stopped or is stopping.
        """
        if not self._mailbox.offer(message):
            raise self._mailbox.refusal()

    async def ask(self, request: Request[R]) -> R:
        """Send a request and wait for its answer: what the actor's ``receive`` returns for it, or a ``Reply`` gives.

        The answer is a value even if it is an instance of Exception. For a time limit use ``trio.fail_after``. Always a
        checkpoint. An ask that ends early (cancelled, or by an error below) does *not* say that the actor did nothing:
        what happened is unknown. A request that was accepted is handled even when nobody waits for its answer any more.

        Raises:
            ActorStopped: The actor has stopped, or stopped before it answered.
            ActorFailed: The actor raised while it had the request; ``cause`` is what it raised.
            SelfWait: The actor asked itself, from its own task: no answer could ever come.
        """
        if self._cell.task is current_task():
            raise SelfWait(self._cell.path, "it asked itself and would never answer; tell, or call the method")
        await checkpoint_if_cancelled()
        slot = Slot(request)
        if not self._mailbox.offer(slot):
            self._mailbox.stand_in_line(slot, ask=True)
        # The actor's author answers for the type; no type system of today ties it to the request here.
        return cast("R", await slot.wait())

    def statistics(self) -> ActorStatistics:
        """The actor at this moment; also after its end."""
        cell = self._cell
        return ActorStatistics(
            name=cell.path,
            state=cell.state,
            mailbox=len(cell.mailbox.queue),
            capacity=cell.mailbox.capacity,
            waiting_senders=len(cell.mailbox.line or ()),
            handled=cell.handled,
            unanswered=len(cell.later) + (cell.slot is not None),
            failures=cell.failures,
            restarts=cell.restarts,
            children=len(cell.children),
        )

    def request_stop(self) -> None:
        """Ask for an orderly stop and return at once; see ``stop``."""
        self._cell.request_stop()

    async def stop(self) -> Terminated:
        """Stop in order, and wait until nothing of the actor runs any more. May be repeated.

        From this moment tells and asks raise ``ActorStopped``, also those that wait for room. What the mailbox has
        accepted is handled first, so every accepted ask gets its answer. Then the children are stopped the same way,
        the last spawned first; then the ``stopped`` hook runs; then tasks that the actor still owns are cancelled.

        When cancelled, the actor goes on stopping. ``cancel`` ends it the hard way.

        Raises:
            SelfWait: Called by the actor itself or by a descendant: it would wait for its own end. Use
                ``request_stop``.
        """
        self._refuse_self("stop")
        self._cell.request_stop()
        return await self._cell.wait_ended()

    def cancel(self) -> None:
        """End the actor and its descendants at their next checkpoint: no message more, no ``stopped`` hook.

        Every ask that was accepted is answered with ``ActorStopped``.
        """
        self._cell.cancel()

    async def wait_stopped(self) -> Terminated:
        """Wait until nothing of the actor runs any more; at once, after a checkpoint, if that is so.

        Returns:
            How it ended.

        Raises:
            SelfWait: Called by the actor itself or by a descendant.
        """
        self._refuse_self("wait_stopped")
        return await self._cell.wait_ended()

    def __repr__(self) -> str:
        return f"<Ref {self._cell.path} {self._cell.state.value}>"

    def _refuse_self(self, verb: str) -> None:
        if self._cell.holds_task(trio.lowlevel.current_task()):
            raise SelfWait(self._cell.path, f"{verb} was awaited by the actor or a descendant; use request_stop")


def cell_of(ref: Ref[Never]) -> Cell:
    """The cell behind a ref, for the kit's own use."""
    return ref._cell  # noqa: SLF001 -- the one door; a Ref shows no cell to its users
