"""News of commits: coalescing, never lost, also from other processes.

News says only "something was committed, read on". Commits of this journal announce themselves. Commits of
other processes are looked for, at the pace of the poll interval, as long as somebody waits.
"""

from __future__ import annotations

from typing import Final

import trio

from trouper_journal._clock import Clock
from trouper_journal._errors import JournalError, StorageBusy
from trouper_journal._store import Store

_IDLE_LOOKS: Final = 100
"""Every how many looks the store itself is asked, though its stamp has not changed."""


class NewsHub:
    """Knows how far the journal has got, and wakes whoever waits for more."""

    def __init__(self) -> None:
        self._position = 0
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
        return len(self._waiters)

    @property
    def closed(self) -> bool:
        """Whether the journal is being left."""
        return self._closed

    def announce(self, position: int) -> None:
        """Tell that the journal has got to ``position``."""
        if position > self._position:
            self._position = position
            self._waiters.unpark_all()

    def close(self) -> None:
        """Let all waiters go."""
        self._closed = True
        self._waiters.unpark_all()

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
        looks = 0
        stamp: object = None
        unsettled = True
        while True:
            if not self._waiters:
                await self._wanted.park()
                unsettled = True
            seen = store.stamp()
            looks += 1
            # One more look after a change: a second commit within the resolution of the stamp leaves it as it is.
            if unsettled or seen != stamp or looks >= _IDLE_LOOKS:
                unsettled = seen != stamp
                stamp = seen
                looks = 0
                await self._look(store)
            await clock.sleep_until(clock.now() + interval)

    async def _look(self, store: Store) -> None:
        try:
            self.announce(await store.position())
        except StorageBusy:
            # Nothing is lost: the next look asks again.
            return
        except JournalError as error:
            self._failure = error
            self.close()
            await trio.sleep_forever()
