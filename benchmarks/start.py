"""Starting: importing the package, and opening a journal in which runs wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate, alternate_async
from benchmarks.sample import QUESTION, guarded_desk, write_waiting
from trouper import Runtime

MANY = 10_000
FEW = 100


def import_seconds(names: str) -> float:
    """How long an import takes in a fresh process, the start of Python not counted."""
    program = f"import time; begun = time.perf_counter(); import {names}; print(time.perf_counter() - begun)"
    # Compiled files are part of an installed program; whoever measures may have turned them off.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def measure_import(scale: Scale) -> Measured:
    """Fresh processes, files in the cache."""

    def ours() -> float:
        return import_seconds("trouper")

    def floor() -> float:
        return import_seconds("trio, attrs, cattrs, msgpack")

    ours()
    floor()
    return {"import": Figures(alternate(scale.of(15, 2), ours, floor, scale))}


def measure_recover(scale: Scale) -> Measured:
    """From the call of ``Runtime.open`` until its block is entered, with many runs that wait and with few."""
    folder = scale.fresh("recover")
    many, few = scale.of(MANY, 40), scale.of(FEW, 4)
    scale.say(f"writing {many} runs")
    trio.run(write_waiting, folder / "many.db", many)
    trio.run(write_waiting, folder / "few.db", few)
    driven: list[float] = []

    async def opened(path: Path) -> float:
        begun = perf_counter()
        async with Runtime.open(path, [guarded_desk()]) as runtime:
            entered = perf_counter() - begun
            if path.name == "many.db":
                # Entering must not only promise: a run submitted now has to be driven.
                run = await runtime.submit("desk", QUESTION)
                async for record in runtime.journal.tail(after=await _end(runtime)):
                    if record.stream == f"run/{run.id}" and record.label == "awaiting_approval":
                        break
                driven.append(perf_counter() - begun)
            return entered

    async def main() -> list[Pair]:
        async def ours() -> float:
            return await opened(folder / "many.db")

        async def floor() -> float:
            return await opened(folder / "few.db")

        await ours()
        await floor()
        return await alternate_async(scale.of(11, 2), ours, floor, scale)

    pairs = trio.run(main)
    return {"recover": Figures(pairs, {"until_new_run_was_driven": sorted(driven)[len(driven) // 2]})}


async def _end(runtime: Runtime) -> int:
    """A position before what was submitted last."""
    return max(0, await runtime.journal.position() - 10)


GROUPS: Sequence[Group] = (
    Group(
        "import",
        [Key("import", "s", "import trouper", "import trio, attrs, cattrs, msgpack", 2.5, "at_most")],
        measure_import,
    ),
    Group(
        "recover",
        [Key("recover", "s", "open with 10,000 waiting runs", "open with 100 waiting runs", 3, "at_most")],
        measure_recover,
    ),
)
