"""Where lives end, and what outlasts them: points at which a process dies, and files beside the journal."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import trio

from trouper.core.conversation import Value
from trouper_journal import Store
from trouper_journal.testing import FaultyStore

Point: TypeAlias = Literal["before", "after", "replied", "entered", "applied", "hooked"]
"""Where a process can die: before or after a commit; with a reply that is not journaled (K2); in a tool before its
effect (K4); in a tool after its effect (K5); in a hook, whose outcome is not journaled."""


@attrs.frozen
class Kill:
    """Where a life ends: at the nth time that it comes to a point, from 1.

    Attributes:
        times: At how many times in a row the signal is sent, where the process can survive it for a while.
    """

    point: Point
    nth: int
    signal: int = signal.SIGKILL
    times: int = 1


@attrs.define
class Fate:
    """Ends the process, really, where it is told to."""

    kill: Kill | None = None
    passed: Counter[str] = attrs.Factory(Counter)
    committed: trio.Event = attrs.Factory(trio.Event)

    def reach(self, point: Point) -> None:
        """Come to a point, and maybe no further."""
        self.passed[point] += 1
        if self.kill is None or self.kill.point != point:
            return
        if self.kill.nth <= self.passed[point] < self.kill.nth + self.kill.times:
            os.kill(os.getpid(), self.kill.signal)


def fateful(fate: Fate) -> Callable[[Store], Store]:
    """What makes a store end the process before or after a transaction."""

    async def before(_: object) -> None:
        fate.reach("before")

    async def after(_: object) -> None:
        fate.reach("after")
        fate.committed.set()
        fate.committed = trio.Event()

    return lambda store: FaultyStore(store, before_write=before, after_write=after)


@attrs.frozen
class Ledger:
    """A file outside of the journal, to which each effect, or each request, adds a line."""

    path: Path

    def add(self, **entry: Value) -> None:
        # One write to a file opened for appending: whole lines only, and a killed process takes none back.
        line = json.dumps(entry, sort_keys=True).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)

    def lines(self) -> list[dict[str, Value]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def kills_at(passed: Mapping[str, int], paces: Mapping[Point, int], *, first_commit: int = 1) -> list[Kill]:
    """Deaths at each time that a life came to these points, or at every so many of them, as a life without one counted.

    Args:
        passed: How often it came to each point.
        paces: The points, and whether each time (1) or every so many times.
        first_commit: The first commit to die at; before the second there is only the driver's name in the journal.
    """
    return [
        Kill(point, nth)
        for point, pace in paces.items()
        for nth in range(first_commit if point in {"before", "after"} else 1, passed.get(point, 0) + 1, pace)
    ]


def check_deaths(signals: Iterable[int]) -> None:
    """First lives die where they are told to, but for some of the last, because commits may coalesce."""
    died = [signal != 0 for signal in signals]
    assert died
    assert sum(died) >= 0.8 * len(died), died
    assert all(died[: len(died) // 2]), died
