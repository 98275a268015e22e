"""Appending to a journal and reading it back, beside raw SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from time import perf_counter

import msgpack
import trio
from attrs import frozen

from benchmarks.floor import RawTable
from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async, seconds
from benchmarks.sample import write_runs
from trouper import REGISTRY
from trouper.core.evolve import evolve
from trouper.core.state import RunState
from trouper_journal import Content, EventRegistry, Journal, event

BYTES = 300
CALLERS = 100
_AT_ONCE = 500


@event("bench.noted")
@frozen
class Noted:
    """An event that is 300 bytes long as stored, with its facts, its content and the content's random bytes."""

    number: int
    text: Content[str]


_EVENTS = EventRegistry([Noted])


def _event(number: int) -> Noted:
    return Noted(number, "x" * 257)


async def stored_bytes() -> int:
    """Bytes of one such event as stored."""
    async with Journal.open(registry=_EVENTS) as journal:
        record = (await journal.append("size", [_event(10_000)])).records[0]
        return len(record.facts) + len(record.content)


def _measure_append(callers: int, commits: int, rounds: int, scale: Scale) -> Figures:
    folder = scale.fresh(f"append-{callers}")
    data = b"x" * BYTES
    number = count()

    def raw(table: RawTable) -> float:
        begun = perf_counter()
        for version in islice(number, commits):
            table.commit([(f"caller/{caller}", version, data) for caller in range(callers)])
        return commits * callers / (perf_counter() - begun)

    async def main() -> list[Pair]:
        with closing(RawTable(folder / "floor.db")) as table:
            async with Journal.open(folder / "ours.db", registry=_EVENTS) as journal:
                versions = [0] * callers

                async def call(caller: int) -> None:
                    stream = f"caller/{caller}"
                    for _ in range(commits):
                        version = versions[caller]
                        await journal.append(stream, [_event(10_000 + version)], expected=version)
                        versions[caller] = version + 1

                async def ours() -> float:
                    begun = perf_counter()
                    async with trio.open_nursery() as nursery:
                        for caller in range(callers):
                            nursery.start_soon(call, caller)
                    return commits * callers / (perf_counter() - begun)

                async def floor() -> float:
                    return raw(table)

                # The first batch creates streams and prepares statements.
                await ours()
                await floor()
                return await alternate_async(rounds, ours, floor, scale)

    return Figures(trio.run(main))


def measure_append_1(scale: Scale) -> Measured:
    """One caller: every commit is a transaction of one event."""
    return {"append_1": _measure_append(1, scale.of(300, 3), scale.of(9, 2), scale)}


def measure_append_100(scale: Scale) -> Measured:
    """A hundred callers, each with one event in flight."""
    return {"append_100": _measure_append(CALLERS, scale.of(60, 2), scale.of(9, 2), scale)}


def measure_replay(scale: Scale) -> Measured:
    """Read a stream of 300-byte events, decode them through constructors, fold them; and beside it agents' runs."""
    folder = scale.fresh("replay")
    rounds = scale.of(9, 2)
    events = scale.of(20_000, 200)
    scale.say(f"writing {events} events")
    trio.run(write_events, folder / "events.db", events)
    pairs = trio.run(_replay, folder / "events.db", _EVENTS, _fold_notes, rounds, scale)
    runs = scale.of(1_000, 10)
    scale.say(f"writing {runs} runs")
    trio.run(write_runs, folder / "runs.db", runs)
    by_runs = Figures(trio.run(_replay, folder / "runs.db", REGISTRY, _fold_runs, rounds, scale))
    extra = {"runs_ours": by_runs.ours, "runs_floor": by_runs.floor, "runs_ratio": by_runs.ratio}
    return {"replay": Figures(pairs, extra)}


async def write_events(path: Path, events: int) -> None:
    """A journal of so many events in one stream."""
    async with Journal.open(path, registry=_EVENTS) as journal:
        for first in range(0, events, _AT_ONCE):
            await journal.append("caller/0", [_event(number) for number in range(first, min(first + _AT_ONCE, events))])


@frozen
class Notes:
    """The state that the 300-byte events fold to."""

    count: int = 0
    total: int = 0
    last: str = ""


async def _fold_notes(journal: Journal) -> None:
    state = Notes()
    decode = journal.registry.decode
    async for record in journal.read("caller/0"):
        event = decode(record)
        assert isinstance(event, Noted)
        state = Notes(state.count + 1, state.total + event.number, str(event.text))


async def _fold_runs(journal: Journal) -> None:
    states: dict[str, RunState] = {}
    decode = journal.registry.decode
    async for record in journal.read_all():
        run, event = record.stream, decode(record)
        if run.startswith("run/"):
            states[run] = evolve(states.get(run) or RunState(run), event)


async def _replay(
    path: Path, registry: EventRegistry, fold: Callable[[Journal], Awaitable[None]], rounds: int, scale: Scale
) -> list[Pair]:
    async with Journal.open(path, registry=registry) as journal:
        records = await journal.position()
        with closing(sqlite3.connect(path)) as database:

            async def ours() -> float:
                return records / await seconds(lambda: fold(journal))

            async def floor() -> float:
                begun = perf_counter()
                scan(database)
                return records / (perf_counter() - begun)

            await ours()
            await floor()
            return await alternate_async(rounds, ours, floor, scale)


def scan(database: sqlite3.Connection) -> None:
    """The journal's own table without the journal: every row, its two maps unpacked."""
    rows = database.execute("SELECT * FROM events ORDER BY position")
    names = [column[0] for column in rows.description]
    facts, said = names.index("facts"), names.index("content")
    for row in rows:
        if row[facts]:
            msgpack.unpackb(row[facts])
        if row[said]:
            msgpack.unpackb(row[said][16:])


def _key(name: str, unit: str, ours: str, floor: str, target: float) -> Key:
    return Key(name, unit, ours, floor, target, "at_least")


GROUPS: Sequence[Group] = (
    Group(
        "append_1",
        [_key("append_1", "events/s", "append 300-byte events, 1 caller", "sqlite3, commits of 1 row", 0.35)],
        measure_append_1,
    ),
    Group(
        "append_100",
        [_key("append_100", "events/s", "append 300-byte events, 100 callers", "sqlite3, commits of 100 rows", 0.25)],
        measure_append_100,
    ),
    Group(
        "replay",
        [_key("replay", "records/s", "read, decode and fold events", "sqlite3, scan of the same table, msgpack", 0.2)],
        measure_replay,
    ),
)
