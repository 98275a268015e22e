"""News of commits: coalescing, never lost, also from other processes.

News says only "something was committed, read on". Commits of this journal announce themselves. Commits of
other processes are looked for, at the pace of the poll interval, as long as somebody waits and this process
itself does not write: a writer finds out by itself that the journal has moved under it.

Each commit of another process is followed by a write of our own, which finds it, or by an interval without one,
which has a look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from trouper_journal._clock import Clock
from trouper_journal._errors import JournalClosed, JournalError, StorageBusy
from trouper_journal._printable import Plain
from trouper_journal._store import Store

_IDLE_LOOKS: Final = 100
"""Every how many intervals the store itself is asked, though its stamp has not changed."""

_LONGEST_PAUSE: Final = 1.0
"""Most seconds between two looks by a clock that is not set, where the interval is shorter."""


_NAMED: Final = 10_000
"""How many streams an arrival names at most."""


@attrs.frozen(slots=True, repr=False, eq=False)
class Arrival(Plain):
    """What was appended by others than the driver.

    Attributes:
        streams: Streams that this process appended to without a fence, with the versions that they got.
        elsewhere: Whether another process appended too (or this one to more streams than are named): a look at the
            streams that are due tells to which.
    """

    streams: Mapping[str, int]
    elsewhere: bool


class Inbox:
    """Collects arrivals for one subscriber, in bounded memory."""

    def __init__(self) -> None:
        self.seen = 0
        self._streams: dict[str, int] = {}
        self._elsewhere = False
        self._reader = trio.lowlevel.ParkingLot()

    @property
    def waiting(self) -> int:
        """How many tasks wait for an arrival: one, or none."""
        return len(self._reader)

    def note(self, streams: Mapping[str, int]) -> None:
        """Own appends without a fence."""
        self._streams.update(streams)
        if len(self._streams) > _NAMED:
            self._streams.clear()
            self._elsewhere = True
        self.wake()

    def note_elsewhere(self, position: int) -> None:
        """Another process has got the journal to ``position``."""
        if position > self.seen:
            self.seen = position
            self._elsewhere = True
            self.wake()

    def wake(self) -> None:
        """Let the reader look."""
        self._reader.unpark_all()

    def take(self) -> Arrival | None:
        """What has arrived, once."""
        if not self._streams and not self._elsewhere:
            return None
        arrival = Arrival(self._streams, self._elsewhere)
        self._streams, self._elsewhere = {}, False
        return arrival

    async def park(self) -> None:
        """Sleep until something arrives."""
        await self._reader.park()


class NewsHub:
    """Knows how far the journal has got, and wakes whoever waits for more.

    Attributes:
        writing: Whether a batch of this process is on its way to the storage.
    """

    def __init__(self) -> None:
        self.writing = False
        self._position = 0
        self._writes = 0
        self._inboxes: set[Inbox] = set()
        self._waiters = trio.lowlevel.ParkingLot()
        self._wanted = trio.lowlevel.ParkingLot()
        self._closed = False
        self._failure: JournalError | None = None

    @property
    def position(self) -> int:
        """The last position heard of."""
        return self._position

    @property
    def waiting(self) -> int:
        """How many tasks wait for news."""
        return len(self._waiters) + sum(inbox.waiting for inbox in self._inboxes)

    @property
    def subscribed(self) -> bool:
        """Whether anybody wants to know which streams are appended to."""
        return bool(self._inboxes)

    @property
    def closed(self) -> bool:
        """Whether the journal is being left."""
        return self._closed

    def check(self) -> None:
        """Refuse to go on with a journal that is being left, or can no longer be read.

        Raises:
            JournalClosed: It is being left.
            JournalError: What made it unreadable.
        """
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise JournalClosed

    def heard(self, position: int) -> None:
        """Tell that the storage holds records up to ``position``, which are not all our own."""
        if position > self._position:
            self._position = position
            self._waiters.unpark_all()
            for inbox in self._inboxes:
                inbox.note_elsewhere(position)

    def wrote(self, base: int, position: int, streams: Mapping[str, int]) -> None:
        """Tell that this process has written.

        Args:
            base: Where the journal stood before.
            position: Where it stands now.
            streams: What was appended to without a fence, with the versions now; may be empty if nobody subscribed.
        """
        self.heard(base)
        self._writes += 1
        self._position = max(self._position, position)
        self._waiters.unpark_all()
        for inbox in self._inboxes:
            inbox.seen = max(inbox.seen, position)
            if streams:
                inbox.note(streams)

    def close(self) -> None:
        """Let all waiters go."""
        self._closed = True
        self._waiters.unpark_all()
        for inbox in self._inboxes:
            inbox.wake()

    def subscribe(self, inbox: Inbox) -> None:
        """Have arrivals put into an inbox."""
        self._inboxes.add(inbox)

    def unsubscribe(self, inbox: Inbox) -> None:
        """Put nothing more into it."""
        self._inboxes.discard(inbox)

    async def arrival(self, inbox: Inbox) -> Arrival | None:
        """Wait until something is in the inbox, and take it; None once the journal is being left.

        Raises:
            JournalError: The storage can no longer be read.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while (found := inbox.take()) is None and not self._closed:
            self._wanted.unpark_all()
            await inbox.park()
        if self._failure is not None:
            raise self._failure
        return found

    async def beyond(self, position: int) -> bool:
        """Wait until the journal is known to be beyond ``position``; False once the journal is being left.

        Raises:
            JournalError: The storage can no longer be read.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._position <= position and not self._closed:
            self._wanted.unpark_all()
            await self._waiters.park()
        if self._failure is not None:
            raise self._failure
        return not self._closed

    async def watch(self, store: Store, clock: Clock, interval: int) -> None:
        """Look for commits of other processes for ever, while somebody waits."""
        if store.stamp() is None:
            return
        pause = max(_LONGEST_PAUSE, 2e-9 * interval)
        quiet = 0
        writes = self._writes
        stamp: object = None
        while True:
            if not self.waiting:
                await self._wanted.park()
                quiet = 0
            if self.writing or self._writes != writes:
                writes = self._writes
                quiet = 0
            else:
                seen = store.stamp()
                if seen != stamp:
                    stamp = seen
                    quiet = 0
                # A commit changes the stamp before its way to the disk, and is seen after it: looks at growing
                # distances see it at most about as long afterwards as that took, on any disk.
                if quiet & (quiet - 1) == 0 or quiet % _IDLE_LOOKS == 0:
                    await self._look(store)
                quiet += 1
            # The wall clock may be set back while this waits for it.
            with trio.move_on_after(pause):
                await clock.sleep_until(clock.now() + interval)

    async def _look(self, store: Store) -> None:
        try:
            self.heard(await store.position())
        except StorageBusy:
            # Nothing is lost: the next look asks again.
            return
        except JournalError as error:
            self._failure = error
            self.close()
            await trio.sleep_forever()
