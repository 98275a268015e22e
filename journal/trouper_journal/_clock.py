"""The port through which time enters the journal: wall-clock nanoseconds, UTC."""

from __future__ import annotations

import time
from typing import Protocol

import trio


class Clock(Protocol):
    """Source of the times that are recorded and of the pace at which other processes' commits are looked for."""

    def now(self) -> int:
        """Wall-clock time in nanoseconds since the Unix epoch, UTC."""
        ...

    async def sleep_until(self, moment: int) -> None:
        """Wait until wall-clock ``moment`` (ns UTC); returns at once, after a checkpoint, if it has passed."""
        ...


class SystemClock:
    """The machine's clocks."""

    # A long wait is taken in slices so that a wall clock that is set forward is noticed.
    _SLICE = 60.0

    def now(self) -> int:
        """Wall-clock time in nanoseconds since the Unix epoch, UTC."""
        return time.time_ns()

    async def sleep_until(self, moment: int) -> None:
        """Wait until wall-clock ``moment`` (ns UTC)."""
        while (left := (moment - self.now()) / 1e9) > 0:  # noqa: ASYNC110 -- it is time that is awaited
            await trio.sleep(min(left, self._SLICE))
        await trio.lowlevel.checkpoint()
