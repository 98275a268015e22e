"""Whole durable runs, beside a hand-written loop that appends as many bytes in as many commits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import count, groupby
from pathlib import Path

import msgpack
import trio
from attrs import frozen

from benchmarks.floor import GroupCommit, Row, group_commit
from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async, seconds
from benchmarks.sample import QUESTION, as_json, desk, read_ticket, size
from trouper import Human, Message, Runtime, System, ToolMessage
from trouper_journal import Record

CALLERS = 100


async def _shared(runs: int, callers: int, one: Callable[[], Awaitable[None]]) -> float:
    """Runs per second, so many at a time."""

    async def caller() -> None:
        for _ in range(runs // callers):
            await one()

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(caller)

    return runs / await seconds(work)


@frozen
class Fact:
    """What a hand-written loop writes of one event: its fields as plain data, and how many bytes ours took."""

    fields: dict[str, object]
    size: int

    def pack(self) -> bytes:
        return bytes(msgpack.packb(self.fields)).ljust(self.size, b"\0")


def _fact(record: Record) -> Fact:
    """Counts all columns of a record but those that find it; an integer as 8 bytes."""
    texts = len(record.type) + len(record.label or "") + len(record.key or "")
    numbers = 8 * (2 + (record.wake_at is not None))
    blobs = len(record.meta) + len(record.facts) + len(record.content) + len(record.leaf)
    fields: dict[str, object] = {"type": record.type}
    for part in (record.facts, record.content[16:]):
        if part:
            fields |= msgpack.unpackb(part)
    return Fact(fields, texts + numbers + blobs)


def commits_of(records: Sequence[Record]) -> list[list[Fact]]:
    """What was written, commit by commit (a commit's records share their time)."""
    return [[_fact(record) for record in group] for _, group in groupby(records, key=lambda record: record.recorded_at)]


class ByHand:
    """The same run, written down: what is asked is durable before the model is, and so on to the answer."""

    def __init__(self, writer: GroupCommit, commits: Sequence[Sequence[Fact]]) -> None:
        self._writer = writer
        self._commits = commits
        self._agent = desk()
        self._runs = count()

    async def run(self) -> None:
        """One run."""
        agent = self._agent
        place = _Place(f"01JZZZZZZZ{next(self._runs):016d}")
        submitted, requested, planned, receipted, answered = self._commits
        conversation: list[Message] = [System("instructions", agent.instructions), Human("input", QUESTION)]
        await self._writer.append(place.rows(submitted))
        await self._writer.append(place.rows(requested))
        reply = await agent.model.agenerate(conversation, agent.specs, agent.config)
        await self._writer.append(place.rows(planned))
        result = json.dumps(await read_ticket(**json.loads(reply.message.tool_calls[0].arguments)))
        conversation += [reply.message, ToolMessage("result", "call", "lookup", result)]
        await self._writer.append(place.rows(receipted))
        await agent.model.agenerate(conversation, agent.specs, agent.config)
        await self._writer.append(place.rows(answered))


class _Place:
    """Where the next row of a run goes."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._version = 0

    def rows(self, facts: Sequence[Fact]) -> list[Row]:
        first = self._version + 1
        self._version += len(facts)
        return [(self._run, version, fact.pack()) for version, fact in enumerate(facts, start=first)]


async def _pairs(folder: Path, runs: int, callers: int, rounds: int, scale: Scale) -> list[Pair]:
    async with (
        Runtime.open(folder / "ours.db", [desk()]) as runtime,
        group_commit(folder / "floor.db") as writer,
    ):
        await (await runtime.submit("desk", QUESTION)).wait()
        # The first run also records the definition; the second is like all the others.
        second = await runtime.submit("desk", QUESTION)
        await second.wait()
        commits = commits_of([record for record, _ in await second.events()])

        by_hand = ByHand(writer, commits)

        async def one_of_ours() -> None:
            run = await runtime.submit("desk", QUESTION)
            result = await run.wait()
            assert result.steps == 3

        async def ours() -> float:
            return await _shared(runs, callers, one_of_ours)

        async def floor() -> float:
            return await _shared(runs, callers, by_hand.run)

        await ours()
        await floor()
        return await alternate_async(rounds, ours, floor, scale)


def measure_run_1(scale: Scale) -> Measured:
    """One run at a time."""
    pairs = trio.run(_pairs, scale.fresh("run-1"), scale.of(40, 2), 1, scale.of(15, 2), scale)
    return {"run_1": Figures(pairs)}


def measure_run_100(scale: Scale) -> Measured:
    """A hundred runs at a time."""
    callers = scale.of(CALLERS, 4)
    pairs = trio.run(_pairs, scale.fresh("run-100"), scale.of(400, 8), callers, scale.of(15, 2), scale)
    return {"run_100": Figures(pairs)}


def measure_run_bytes(scale: Scale) -> Measured:
    """The growth of the file by a thousand runs, per run, over what was said in one."""
    folder = scale.fresh("run-bytes")
    runs = scale.of(1_000, 10)

    async def main() -> Pair:
        async with Runtime.open(folder / "empty.db", [desk()]):
            pass
        async with Runtime.open(folder / "ours.db", [desk()]) as runtime:

            async def one() -> None:
                await (await runtime.submit("desk", QUESTION)).wait()

            scale.say(f"{runs} runs")
            await _shared(runs, scale.of(CALLERS, 5), one)
            result = await (await runtime.submit("desk", QUESTION)).wait()
        # Leaving has folded the write-ahead log into the file.
        grown = size(folder / "ours.db") - size(folder / "empty.db")
        return Pair(grown / (runs + 1), len(as_json(result.messages)))

    return {"run_bytes": Figures([trio.run(main)])}


_FLOOR = "hand-written loop, same commits and bytes"

GROUPS: Sequence[Group] = (
    Group(
        "run_1",
        [
            Key(
                "run_1",
                "runs/s",
                "durable runs, 1 at a time",
                "hand-written loop, same commits and bytes",
                0.3,
                "at_least",
            )
        ],
        measure_run_1,
    ),
    Group(
        "run_100",
        [
            Key(
                "run_100",
                "runs/s",
                "durable runs, 100 at a time",
                "hand-written loop, same commits and bytes",
                0.1,
                "at_least",
            )
        ],
        measure_run_100,
    ),
    Group(
        "run_bytes",
        [Key("run_bytes", "bytes/run", "growth of the file", "what was said, as JSON", 12, "at_most")],
        measure_run_bytes,
    ),
)
