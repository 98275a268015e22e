"""A turn in a long session, beside the same turn in a short one: it must go by the window, not by the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async
from benchmarks.sample import DONE, Answering
from trouper import Agent, History, Runtime

LONG = 1_000
SHORT = 50
_AT_ONCE = 20


async def _measure(folder: Path, long: int, short: int, rounds: int, scale: Scale) -> list[Pair]:
    agent = Agent("talker", model=Answering(), history=History(max_tokens=400))

    async def fill(path: Path, turns: int) -> None:
        async with Runtime.open(path, [agent]) as runtime:
            session = runtime.session("talker", "talk")
            for done in range(0, turns, _AT_ONCE):
                scale.say(f"{path.stem}: {done} of {turns} turns")
                sent = [
                    await session.send(f"Question {done + number}") for number in range(min(_AT_ONCE, turns - done))
                ]
                await sent[-1].wait()

    async def opened(path: Path) -> float:
        """Seconds from opening the journal to the answer to the next turn."""
        begun = perf_counter()
        async with Runtime.open(path, [agent]) as runtime:
            run = await runtime.session("talker", "talk").send("And now?")
            result = await run.wait()
            took = perf_counter() - begun
        assert result.output == DONE
        return took

    await fill(folder / "long.db", long)
    await fill(folder / "short.db", short)

    async def in_long() -> float:
        return await opened(folder / "long.db")

    async def in_short() -> float:
        return await opened(folder / "short.db")

    await in_long()
    await in_short()
    return await alternate_async(rounds, in_long, in_short, scale)


def measure_session(scale: Scale) -> Measured:
    """From opening the journal to the next answer, after a thousand turns and after fifty."""
    pairs = trio.run(_measure, scale.fresh("session"), scale.of(LONG, 6), scale.of(SHORT, 3), scale.of(15, 2), scale)
    return {"session_1000": Figures(pairs)}


GROUPS: Sequence[Group] = (
    Group(
        "session_1000",
        [
            Key(
                "session_1000",
                "s",
                "open and answer the next turn of a session of 1,000 runs",
                "of a session of 50 runs, with the same window",
                1.5,
                "at_most",
            )
        ],
        measure_session,
    ),
)
