"""How soon a run that waits goes on, once another process has committed the approval."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale
from benchmarks.sample import QUESTION, TICKET, InstantModel
from trouper import Agent, Runtime, tool
from trouper.core.events import ApprovalRequested


def measure_wake(scale: Scale) -> Measured:
    """From the end of the commit, in the other process, to the first line of the tool, over the commit's own time.

    Both processes read the same clock: ``perf_counter`` is the system's monotonic clock.
    """
    path = scale.fresh("wake") / "ours.db"
    with _approver(path) as other:
        pairs = trio.run(_measure, path, other, scale.of(40, 2), scale)
    return {"wake": Figures(pairs, {"commit_to_start_ms": sorted(p.ours for p in pairs)[len(pairs) // 2] * 1e3})}


@contextmanager
def _approver(path: Path) -> Iterator[subprocess.Popen[str]]:
    """The other process, for the length of a block."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.approver", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        yield other


async def _measure(path: Path, other: subprocess.Popen[str], rounds: int, scale: Scale) -> list[Pair]:
    assert other.stdin is not None
    assert other.stdout is not None
    starts: list[float] = []

    @tool(name="lookup", effect="read_only", requires_approval=True)
    async def noted_lookup(ticket: str) -> dict[str, str]:  # noqa: ARG001 -- there is one ticket only
        """Read a ticket."""
        starts.append(perf_counter())
        return TICKET

    desk = Agent("desk", instructions="You answer questions.", tools=[noted_lookup], model=InstantModel())
    pairs: list[Pair] = []
    async with Runtime.open(path, [desk]) as runtime:
        await trio.to_thread.run_sync(other.stdout.readline)
        for number in range(rounds + 1):
            scale.say(f"approval {number} of {rounds}")
            run = await runtime.submit("desk", QUESTION)
            other.stdin.write(f"{await _asked(runtime, run.id)}\n")
            other.stdin.flush()
            begun, ended = map(float, (await trio.to_thread.run_sync(other.stdout.readline)).split())
            await run.wait()
            # The first one warms both processes up.
            if number:
                pairs.append(Pair(max(starts[-1] - ended, 0.0), ended - begun))
    return pairs


async def _asked(runtime: Runtime, run: str) -> str:
    """The action that the run asks a person about, once it does."""
    async for record in runtime.journal.tail(after=max(0, await runtime.journal.position() - 10)):
        if record.stream == f"run/{run}":
            event = runtime.journal.registry.decode(record)
            if isinstance(event, ApprovalRequested):
                return f"{run}/{event.action}"
    raise AssertionError("the journal's tail ended before the run asked")


GROUPS: Sequence[Group] = (
    Group(
        "wake",
        [Key("wake", "s", "foreign approval to the tool's start", "the commit itself", 100, "at_most")],
        measure_wake,
    ),
)
