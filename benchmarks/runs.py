"""Whole durable runs, beside a hand-written loop that appends as many bytes in as many commits."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from itertools import count, groupby
from pathlib import Path

import trio

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


def _stored(record: Record) -> int:
    """Bytes of all columns of a record but those that find it; an integer counts as 8."""
    texts = len(record.type) + len(record.label or "") + len(record.key or "")
    numbers = 8 * (2 + (record.wake_at is not None))
    return texts + numbers + len(record.meta) + len(record.facts) + len(record.content) + len(record.leaf)


def commits_of(records: Sequence[Record]) -> list[list[bytes]]:
    """Random rows of the same number and lengths, commit by commit (a commit's records share their time)."""
    return [
        [os.urandom(_stored(record)) for record in group]
        for _, group in groupby(records, key=lambda record: record.recorded_at)
    ]


class ByHand:
    """The same run, written down: what is asked is durable before the model is, and so on to the answer."""

    def __init__(self, writer: GroupCommit, commits: Sequence[Sequence[bytes]]) -> None:
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

    def rows(self, data: Sequence[bytes]) -> list[Row]:
        first = self._version + 1
        self._version += len(data)
        return [(self._run, version, one) for version, one in enumerate(data, start=first)]


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
    pairs = trio.run(_pairs, scale.fresh("run-1"), scale.of(60, 2), 1, scale.of(9, 2), scale)
    return {"run_1": Figures(pairs)}


def measure_run_100(scale: Scale) -> Measured:
    """A hundred runs at a time."""
    callers = scale.of(CALLERS, 4)
    pairs = trio.run(_pairs, scale.fresh("run-100"), scale.of(400, 8), callers, scale.of(9, 2), scale)
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


GROUPS: Sequence[Group] = (
    Group(
        "run_1",
        [Key("run_1", "runs/s", "durable runs, 1 at a time", "hand-written loop, same commits", 0.3, "at_least")],
        measure_run_1,
    ),
    Group(
        "run_100",
        [Key("run_100", "runs/s", "durable runs, 100 at a time", "hand-written loop, same commits", 0.1, "at_least")],
        measure_run_100,
    ),
    Group(
        "run_bytes",
        [Key("run_bytes", "bytes/run", "growth of the file", "what was said, as JSON", 12, "at_most")],
        measure_run_bytes,
    ),
)
