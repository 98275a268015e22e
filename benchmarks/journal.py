"""Appending to a journal and reading it back, beside raw SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import count, islice
from time import perf_counter

import msgpack
import trio
from attrs import frozen

from benchmarks.floor import RawTable, Row
from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async
from benchmarks.sample import write_runs
from trouper import REGISTRY
from trouper.core.evolve import evolve
from trouper.core.state import RunState
from trouper_journal import Content, EventRegistry, Journal, content, event

BYTES = 300
CALLERS = 100


@event("bench.noted")
@frozen
class Noted:
    """An event that is 300 bytes long as stored, with its facts, its content and the content's random bytes."""

    number: int
    text: Content[str] = content()


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
    """Read all records of a thousand agent runs, decode them through constructors, and fold each run's state."""
    folder = scale.fresh("replay")
    runs = scale.of(1_500, 10)

    async def main() -> list[Pair]:
        await write_runs(folder / "ours.db", runs)
        with closing(RawTable(folder / "floor.db")) as table:
            async with Journal.open(folder / "ours.db", registry=REGISTRY) as journal:
                records = await _fill_floor(journal, table)

                async def ours() -> float:
                    states: dict[str, RunState] = {}
                    decode = journal.registry.decode
                    begun = perf_counter()
                    async for record in journal.read_all():
                        run = record.stream
                        states[run] = evolve(states.get(run) or RunState(run), decode(record))
                    return records / (perf_counter() - begun)

                async def floor() -> float:
                    begun = perf_counter()
                    for row in table.scan():
                        msgpack.unpackb(row[0])
                    return records / (perf_counter() - begun)

                return await alternate_async(scale.of(9, 2), ours, floor, scale)

    return {"replay": Figures(trio.run(main))}


async def _fill_floor(journal: Journal, table: RawTable) -> int:
    """The same fields, packed once, in one column; how many rows that are."""
    rows: list[Row] = []
    async for record in journal.read_all():
        facts = msgpack.unpackb(record.facts) if record.facts else {}
        said = msgpack.unpackb(record.content[16:]) if record.content else {}
        rows.append((record.stream, record.version, msgpack.packb({**facts, **said})))
    table.commit(rows)
    return len(rows)


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
        [_key("replay", "records/s", "read, decode and fold agent runs", "sqlite3 table scan, msgpack", 0.2)],
        measure_replay,
    ),
)
