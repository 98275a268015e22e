"""A clock that a test moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from attrs import define, field

from trouper_journal import Printable

_START = 1_767_225_600_000_000_000
_SECOND = 1_000_000_000


@define(eq=False, repr=False)
class _Limit(Printable):
    moment: int | float
    scope: trio.CancelScope


@define(eq=False, repr=False)
class ManualClock(Printable):
    """Time that stands still until `advance` moves it: a `trouper.Clock` for tests of what happens later.

    Wall clock and monotonic clock are one here. A journal opened with this clock looks for other processes' commits
    only as time is moved; its own commits are noticed at once, as ever.

    Attributes:
        moment: Where it stands (ns UTC); at first the beginning of 2026.
    """

    moment: int = _START
    _sleepers: dict[trio.Event, int] = field(factory=dict, init=False)
    _limits: list[_Limit] = field(factory=list, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    def now(self) -> int:
        """Where it stands (ns UTC)."""
        return self.moment

    async def sleep_until(self, moment: int) -> None:
        """Wait until the clock has been moved to ``moment`` (ns UTC); at once, after a checkpoint, if it has been."""
        await trio.lowlevel.checkpoint()
        if moment <= self.moment:
            return
        woken = trio.Event()
        self._sleepers[woken] = moment
        self._note()
        try:
            await woken.wait()
        finally:
            self._sleepers.pop(woken, None)

    @contextmanager
    def timeout(self, seconds: float) -> Iterator[trio.CancelScope]:
        """A cancel scope that is cancelled once the clock has been moved by ``seconds``."""
        # Not as a float: 64 bits do not hold a moment to the nanosecond.
        moment = self.moment + round(seconds * _SECOND) if math.isfinite(seconds) else math.inf
        limit = _Limit(moment, trio.CancelScope())
        if seconds <= 0:
            limit.scope.cancel()
        self._limits.append(limit)
        self._note()
        try:
            with limit.scope:
                yield limit.scope
        finally:
            self._limits.remove(limit)

    def advance(self, seconds: float) -> None:
        """Move it: wake whoever slept until then, cancel whose time is up."""
        self.moment += round(seconds * _SECOND)
        for woken, moment in list(self._sleepers.items()):
            if moment <= self.moment:
                woken.set()
        for limit in self._limits:
            if limit.moment <= self.moment:
                limit.scope.cancel()

    @property
    def waiting(self) -> tuple[int, ...]:
        """The moments that somebody waits for, sleepers and time limits, soonest first (ns UTC)."""
        limits = [limit.moment for limit in self._limits if isinstance(limit.moment, int)]
        return tuple(sorted([*self._sleepers.values(), *limits]))

    async def wait_waiting(self, seconds: float) -> None:
        """Wait until somebody waits for the moment ``seconds`` from now: the time to `advance` by them."""
        while self.moment + round(seconds * _SECOND) not in self.waiting:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
