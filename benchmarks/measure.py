"""What a measurement is: pairs of ours and a floor, taken alternately, and the ratio whose median counts.

The machine that runs this is busy with other things too. A pair is taken within a moment, so that both of its sides
see the same load, and the order within a pair alternates, so that neither side is always the first.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeAlias

from attrs import field, frozen


@frozen
class Pair:
    """Ours and the floor, taken one right after the other."""

    ours: float
    floor: float

    @property
    def ratio(self) -> float:
        return self.ours / self.floor


@frozen
class Key:
    """One number to be measured.

    Attributes:
        name: Its key in the JSON.
        unit: Unit of ours and of the floor.
        ours: What is measured.
        floor: What it is compared with.
        target: Bound of the ratio.
        good: Whether the ratio shall be at least, or at most, the target.
    """

    name: str
    unit: str
    ours: str
    floor: str
    target: float
    good: Literal["at_least", "at_most"]

    def met(self, ratio: float) -> bool:
        return ratio >= self.target if self.good == "at_least" else ratio <= self.target


@frozen
class Figures:
    """What was measured for a key.

    Attributes:
        pairs: In the order taken.
        extra: Further figures, for the JSON.
    """

    pairs: Sequence[Pair]
    extra: Mapping[str, float] = field(factory=dict)

    @property
    def ratio(self) -> float:
        return statistics.median(pair.ratio for pair in self.pairs)

    @property
    def ours(self) -> float:
        return statistics.median(pair.ours for pair in self.pairs)

    @property
    def floor(self) -> float:
        return statistics.median(pair.floor for pair in self.pairs)


@frozen
class Scale:
    """How much to measure, and where.

    Attributes:
        quick: Tiny sizes: the numbers mean nothing, but everything runs.
        folder: An empty folder for files; it should be on the disk whose speed matters.
        say: Tells how far a measurement has got.
    """

    quick: bool
    folder: Path
    say: Callable[[str], None]

    def of(self, full: int, quick: int) -> int:
        """A size."""
        return quick if self.quick else full

    def fresh(self, name: str) -> Path:
        """A folder of its own."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        return folder


Measured: TypeAlias = Mapping[str, Figures]


@frozen
class Group:
    """Keys that are measured together.

    Attributes:
        name: What ``--only`` may call it.
        keys: In the order of the table.
        measure: Gives the figures of each key.
    """

    name: str
    keys: Sequence[Key]
    measure: Callable[[Scale], Measured]


def alternate(rounds: int, ours: Callable[[], float], floor: Callable[[], float], scale: Scale) -> list[Pair]:
    """Take pairs, the first side in turn."""
    pairs: list[Pair] = []
    for number in range(rounds):
        scale.say(f"round {number + 1} of {rounds}")
        if number % 2:
            least = floor()
            pairs.append(Pair(ours(), least))
        else:
            most = ours()
            pairs.append(Pair(most, floor()))
    return pairs


async def alternate_async(
    rounds: int, ours: Callable[[], Awaitable[float]], floor: Callable[[], Awaitable[float]], scale: Scale
) -> list[Pair]:
    """Take pairs within one Trio run, the first side in turn."""
    pairs: list[Pair] = []
    for number in range(rounds):
        scale.say(f"round {number + 1} of {rounds}")
        if number % 2:
            least = await floor()
            pairs.append(Pair(await ours(), least))
        else:
            most = await ours()
            pairs.append(Pair(most, await floor()))
    return pairs


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """How long something takes."""
    begun = perf_counter()
    await work()
    return perf_counter() - begun
