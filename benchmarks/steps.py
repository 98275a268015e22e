"""Whether long runs cost what short ones do, step for step: in time and in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async, seconds
from benchmarks.sample import QUESTION, desk, size
from trouper import Runtime

SHORT = 10
LONG = 200


def measure_steps(scale: Scale) -> Measured:
    """A step is a reply that calls a tool, and the call; after the last of them the model answers."""
    folder = scale.fresh("steps")
    long = scale.of(LONG, 20)
    pairs, sizes = trio.run(_measure, folder, long, scale)
    linear = long / SHORT
    return {
        "steps_time": Figures(pairs, {"linear": linear}),
        "steps_bytes": Figures([sizes], {"linear": linear}),
    }


async def _measure(folder: Path, long: int, scale: Scale) -> tuple[list[Pair], Pair]:
    async with (
        Runtime.open(folder / "short.db", [desk(SHORT)]) as short_runtime,
        Runtime.open(folder / "long.db", [desk(long)]) as long_runtime,
    ):
        together = long // SHORT

        async def run_long() -> float:
            return await seconds(lambda: _run(long_runtime))

        async def run_short() -> float:
            # As many as make one long run: both sides then see the same weather.
            return sum([await seconds(lambda: _run(short_runtime)) for _ in range(together)]) / together

        await run_long()
        await run_short()
        pairs = await alternate_async(scale.of(7, 2), run_long, run_short, scale)
    scale.say("bytes")
    grown_long = await _growth(folder / "long.db", long, scale.of(3, 1))
    grown_short = await _growth(folder / "short.db", SHORT, scale.of(40, 20))
    return pairs, Pair(grown_long, grown_short)


async def _run(runtime: Runtime) -> None:
    await (await runtime.submit("desk", QUESTION)).wait()


async def _growth(path: Path, turns: int, runs: int) -> float:
    """Bytes by which a journal's file grows with each run."""
    before = size(path)
    async with Runtime.open(path, [desk(turns)]) as runtime:
        for _ in range(runs):
            await _run(runtime)
    return (size(path) - before) / runs


GROUPS: Sequence[Group] = (
    Group(
        "steps",
        [
            Key("steps_time", "s", "a run of 200 steps", "a run of 10 steps", 25, "at_most"),
            Key("steps_bytes", "bytes", "a run of 200 steps", "a run of 10 steps", 22, "at_most"),
        ],
        measure_steps,
    ),
)
