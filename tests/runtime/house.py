"""A house for runtimes under test: one journal for several lives, time that stands still, and agents that stumble.

What must hold of every run is checked when the house closes: the journal verifies, replay finds no difference, and no
call of an ended run is left without its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import cast

import trio
import trio.testing
from attrs import define, evolve, field
from tests.core.shell import unanswered

from trouper import REGISTRY, Agent, Commands, DriftPolicy, Runtime, RuntimeOptions
from trouper._clock import Clock
from trouper._ids import SystemEntropy
from trouper.core.events import RunSubmitted
from trouper.core.replay import check
from trouper.testing import ManualClock
from trouper_journal import Committed, Journal, Key, Record, Value, Write
from trouper_journal.testing import FaultyStore

LONGEST = 30  # seconds, so that a test that hangs fails instead
PAUSE = 0.1  # seconds between the first crash of an agent and its next life


class Stumble(RuntimeError):
    """What an agent crashes with: no error of the journal's, and so nothing that it is prepared for."""


class Time(ManualClock):
    """Time that a test moves; once the test has failed, all time limits are up at once, so that nothing hangs."""

    over = False

    @contextmanager
    def timeout(self, seconds: float) -> Iterator[trio.CancelScope]:
        with super().timeout(0 if self.over else seconds) as scope:
            yield scope

    def end(self) -> None:
        """Let all time limits be up, those that run and those to come."""
        self.over = True
        self.advance(10**6)

    async def passing(self) -> None:
        """Move on to the next moment that anybody waits for whenever nothing else can happen, for ever."""
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if self.waiting:
                self.moment = max(self.moment, self.waiting[0])
                self.advance(0)
            else:
                await self._changed.wait()


@define(eq=False)
class Hold:
    """An agent's read that waits: ``reached``, and let go on by ``go``."""

    reached: trio.Event = field(factory=trio.Event)
    go: trio.Event = field(factory=trio.Event)


@define(eq=False)
class Stage:
    """Stands before a journal and trips up the agents that use it; all others are left alone."""

    journal: Journal
    stumbles: int = 0
    _on_read: bool = False
    _after: type | None = None
    _always: str = ""
    _holds: deque[Hold] = field(factory=deque)

    def __getattr__(self, name: str) -> object:
        return getattr(self.journal, name)

    def stumble_on_read(self) -> None:
        """The next read of an agent is its last act."""
        self._on_read = True

    def stumble_after(self, kind: type) -> None:
        """The next commit of an event of this class is its agent's last act; it is durable."""
        self._after = kind

    def stumble_always(self, run: str) -> None:
        """No agent of this run gets further than to read."""
        self._always = run

    def hold(self, count: int) -> Sequence[Hold]:
        """Hold the next reads of agents, so many."""
        holds = [Hold() for _ in range(count)]
        self._holds.extend(holds)
        return holds

    async def read_page(self, stream: str, after: int = 0, limit: int = 500) -> Sequence[Record]:
        if _is_agent():
            if self._on_read or stream == f"run/{self._always}":
                self._on_read = False
                self._stumble()
            if self._holds:
                hold = self._holds.popleft()
                hold.reached.set()
                await hold.go.wait()
        return await self.journal.read_page(stream, after, limit)

    async def commit(
        self,
        writes: Sequence[Write],
        *,
        require: Mapping[str, int] | None = None,
        key: Key | None = None,
        fence: int | None = None,
        meta: Mapping[str, Value] | None = None,
    ) -> Committed:
        done = await self.journal.commit(writes, require=require, key=key, fence=fence, meta=meta)
        kind = self._after
        if (
            kind is not None
            and _is_agent()
            and any(isinstance(event, kind) for each in writes for event in each.events)
        ):
            self._after = None
            self._stumble()
        return done

    def _stumble(self) -> None:
        self.stumbles += 1
        raise Stumble


def _is_agent() -> bool:
    return trio.lowlevel.current_task().name.startswith("trouper/run:")


@define(eq=False)
class House:
    """What a test works with.

    Attributes:
        journal: The journal, over all lives.
        stage: The same journal, as the agents have it.
        store: The storage behind it, to interfere with.
        clock: Time.
    """

    journal: Journal
    stage: Stage
    store: FaultyStore
    clock: Time

    @asynccontextmanager
    async def open(
        self,
        *agents: Agent,
        options: RuntimeOptions | None = None,
        drift: DriftPolicy | None = None,
        secrets: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        patient: bool = False,
    ) -> AsyncIterator[Runtime]:
        """A life of the runtime over the journal; leave it and open another, as a restart does.

        Args:
            agents: Whom it knows.
            options: Its options.
            drift: Its policy, instead of that of the options.
            secrets: Its secrets.
            clock: Another clock.
            patient: Whether time stands still as ever when the block raises; by default it is over then.
        """
        options = options or RuntimeOptions()
        if drift is not None:
            options = evolve(options, drift=drift)
        stage = cast("Journal", self.stage)
        async with Runtime.over(stage, agents, secrets=secrets, clock=clock or self.clock, options=options) as runtime:
            try:
                yield runtime
            except BaseException:
                if not patient:
                    self.clock.end()
                raise

    @property
    def commands(self) -> Commands:
        """Commands on the journal, as a process without the agent's code has them."""
        return Commands(self.journal, self.clock, SystemEntropy())

    def revive(self) -> None:
        """Let an agent that has crashed begin its next life."""
        self.clock.advance(PAUSE)

    async def crashed(self) -> None:
        """Wait until an agent is between two lives."""
        await self.clock.wait_waiting(PAUSE)

    @asynccontextmanager
    async def time_passing(self) -> AsyncIterator[None]:
        """Let time pass by itself for the length of a block; only where nothing leaves the event loop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.clock.passing)
            yield
            nursery.cancel_scope.cancel()

    async def check(self) -> None:
        """What holds of every run."""
        found = await self.journal.verify()
        assert found.ok, found.problems
        async for head in self.journal.streams(prefix="run/"):
            events = [self.journal.registry.decode(record) async for record in self.journal.read(head.stream)]
            state, difference = check(head.stream.removeprefix("run/"), events)
            assert difference is None, difference
            if state.ended:
                submitted = events[0]
                assert isinstance(submitted, RunSubmitted)
                assert isinstance(submitted.input, tuple)
                assert unanswered(state.messages[len(submitted.input) :]) == []


@asynccontextmanager
async def house(path: Path | None = None) -> AsyncIterator[House]:
    """Open a house.

    Args:
        path: The journal's file; None for one in memory.
    """
    clock = Time()
    stores: list[FaultyStore] = []

    def wrap(store: object) -> FaultyStore:
        stores.append(FaultyStore(store))  # type: ignore[arg-type]  # it is one
        return stores[0]

    with trio.fail_after(LONGEST):
        async with Journal.open(path, registry=REGISTRY, clock=clock, wrap=wrap) as journal:
            place = House(journal, Stage(journal), stores[0], clock)
            try:
                yield place
            except BaseException:
                clock.end()
                raise
            await place.check()
