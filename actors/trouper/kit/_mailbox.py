"""A bounded mailbox with one reader, and the one-shot slot that an ask waits on.

Theory. One task reads (the actor's own); any task of the same Trio run writes. There are no locks: nothing here awaits
between looking and changing. Three facts hold between any two steps:

- while a writer waits in ``line`` the queue is full, because every take admits the first in line at once; so a newcomer
  that finds room overtakes nobody, and messages are taken in the order in which their senders came;
- ``idle`` is true only while the reader sleeps, and whoever wakes it clears the flag, so it is rescheduled once;
- a closed mailbox has ``limit`` 0 and an empty line: the writers' fast path needs one comparison for full and closed.

A reader that takes what is there without waiting, and lets others run only now and then, moves about 14 times as many
messages as one that awaits each; the loop that does so is in ``_cell``.
"""

from __future__ import annotations

from collections import OrderedDict, deque

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule, wait_task_rescheduled

from trouper.errors import ActorError, ActorStopped, MailboxFull


class Slot:
    """Where one answer goes: settled once, before or after its waiter comes; never blocks who settles it.

    The answer is kept here and not sent through ``reschedule``, so that one that comes first is not lost and one for a
    waiter that was cancelled harms nobody.
    """

    __slots__ = ("error", "line", "message", "settled", "value", "waiter")

    def __init__(self, message: object) -> None:
        self.message = message
        self.value: object = None
        self.error: ActorError | None = None
        self.settled = False
        self.waiter: Task | None = None
        self.line: OrderedDict[Slot, bool] | None = None

    def answer(self, value: object) -> bool:
        """Settle with a value. False if it was settled before."""
        if self.settled:
            return False
        self.value = value
        self._settle()
        return True

    def fail(self, error: ActorError) -> bool:
        """Settle with an error, raised in the waiter. False if it was settled before."""
        if self.settled:
            return False
        self.error = error
        self._settle()
        return True

    async def wait(self) -> object:
        """The answer. Always a checkpoint; a cancelled wait leaves the line for room, if it still stood there."""
        if self.settled:
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self.waiter = current_task()
            await wait_task_rescheduled(self._abort)
        if self.error is not None:
            raise self.error
        return self.value

    def _settle(self) -> None:
        self.settled = True
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            reschedule(waiter)

    def _abort(self, _raise_cancel: RaiseCancelT) -> Abort:
        self.waiter = None
        if self.line is not None:
            del self.line[self]
            self.line = None
        return Abort.SUCCEEDED


class Mailbox:
    """A first-in first-out queue of messages and asks (as ``Slot``), bounded, with one reader."""

    __slots__ = ("capacity", "closed", "idle", "limit", "line", "owner", "queue", "reader")

    def __init__(self, owner: str, capacity: int) -> None:
        self.owner = owner
        self.capacity = capacity
        self.limit = capacity
        self.closed = False
        self.queue: deque[object] = deque()
        # Who waits for room, first come first served; true marks an ask, which goes on waiting for its answer.
        self.line: OrderedDict[Slot, bool] | None = None
        self.reader: Task | None = None
        self.idle = False

    def offer(self, item: object) -> bool:
        """Take the item if there is room. False when full or closed."""
        queue = self.queue
        if len(queue) >= self.limit:
            return False
        queue.append(item)
        if self.idle:
            self.idle = False
            assert self.reader is not None
            reschedule(self.reader)
        return True

    def put_news(self, item: object) -> None:
        """Take news of the kit itself beyond the bound; a closed mailbox drops it."""
        if not self.closed:
            self.queue.append(item)
            self._wake()

    def refusal(self) -> ActorStopped | MailboxFull:
        """Why the last offer was refused."""
        return ActorStopped(self.owner) if self.closed else MailboxFull(self.owner, self.capacity)

    def stand_in_line(self, slot: Slot, *, ask: bool) -> None:
        """Let the slot wait for room.

        Raises:
            ActorStopped: The mailbox is closed.
            MailboxFull: The caller is the reader itself, who would wait for ever.
        """
        if self.closed or self.reader is current_task():
            raise self.refusal()
        if self.line is None:
            self.line = OrderedDict()
        self.line[slot] = ask
        slot.line = self.line

    def admit(self) -> None:
        """Give the place that a take has freed to the first in line."""
        if self.line and len(self.queue) < self.limit:
            slot, ask = self.line.popitem(last=False)
            slot.line = None
            if ask:
                self.queue.append(slot)
            else:
                self.queue.append(slot.message)
                slot.answer(None)

    def close(self) -> None:
        """Accept nothing more. Who waits for room gets ActorStopped; what was accepted stays. May be repeated."""
        self.closed = True
        self.limit = 0
        while self.line:
            slot, _ask = self.line.popitem(last=False)
            slot.line = None
            slot.fail(ActorStopped(self.owner))
        self._wake()

    def drop(self) -> None:
        """Throw away what is left; every ask in it is answered with ActorStopped."""
        while self.queue:
            item = self.queue.popleft()
            if type(item) is Slot:
                item.fail(ActorStopped(self.owner))

    async def wait(self) -> None:
        """Sleep until something arrives or the mailbox closes; may wake for nothing. The reader's alone."""
        self.idle = True
        await wait_task_rescheduled(self._abort)

    def _wake(self) -> None:
        if self.idle:
            self.idle = False
            assert self.reader is not None
            reschedule(self.reader)

    def _abort(self, _raise_cancel: RaiseCancelT) -> Abort:
        self.idle = False
        return Abort.SUCCEEDED
