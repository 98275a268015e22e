"""Two hundred sub-agents at once under one parent, beside as many runs that have no parent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async
from benchmarks.sample import Answering
from trouper import Agent, Limits, Runtime

CHILDREN = 200


async def _measure(folder: Path, children: int, rounds: int, scale: Scale) -> list[Pair]:
    helper = Agent("helper", model=Answering())
    # A shared budget is what makes a ledger of the whole tree necessary.
    limits = Limits(max_model_calls=children + 2)
    boss = Agent("boss", tools=[helper.as_tool()], model=Answering(children), limits=limits)
    async with Runtime.open(folder / "ours.db", [boss]) as runtime:

        async def tree() -> float:
            begun = perf_counter()
            result = await (await runtime.submit("boss", "Split it.")).wait()
            took = perf_counter() - begun
            assert result.spent.model_calls == children + 2, result.spent
            assert result.spent.tokens == 140 * (children + 2), result.spent
            return children / took

        async def alone() -> float:
            begun = perf_counter()
            async with trio.open_nursery() as nursery:
                for number in range(children):
                    nursery.start_soon(one, number)
            return children / (perf_counter() - begun)

        async def one(number: int) -> None:
            await (await runtime.submit("helper", f"Part {number}")).wait()

        await tree()
        await alone()
        return await alternate_async(rounds, tree, alone, scale)


def measure_tree_200(scale: Scale) -> Measured:
    """Sub-agents per second under one parent with a shared budget; what the tree has spent must be exact."""
    pairs = trio.run(_measure, scale.fresh("tree"), scale.of(CHILDREN, 5), scale.of(9, 2), scale)
    return {"tree_200": Figures(pairs)}


GROUPS: Sequence[Group] = (
    Group(
        "tree_200",
        [
            Key(
                "tree_200",
                "runs/s",
                "200 sub-agents at once under one parent and budget",
                "200 runs at once without a parent",
                0.25,
                "at_least",
            )
        ],
        measure_tree_200,
    ),
)
