"""What a replay of a whole journal keeps in memory, and how fast it is, as the journal grows."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.journal import scan
from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate
from benchmarks.sample import write_runs
from trouper_journal._workers import cores

JOBS = 2
TIMES = 10
"""By how much the longer journal is longer."""

# In a process of its own, whose peak is not that of writing the journal.
_REPLAY = """
import json, resource, sys, time
from contextlib import aclosing
import trio
from trouper.audit import replay_streams

async def main():
    records = 0
    begun = time.perf_counter()
    async with aclosing(replay_streams(sys.argv[1], jobs=int(sys.argv[2]))) as results:
        async for each in results:
            assert each.ok, each
            records += each.records
    return records, time.perf_counter() - begun

records, seconds = trio.run(main)
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"records": records, "rate": records / seconds, "own": own / 1024, "workers": workers / 1024}))
"""


def _replayed(path: Path, jobs: int = JOBS) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _REPLAY, str(path), str(jobs)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure_replay_all(scale: Scale) -> Measured:
    """A whole journal of agents' runs, folded and compared with the rules, and every row of it read by SQLite alone."""
    folder = scale.fresh("replay-all")
    runs = scale.of(10_000, 3)
    scale.say(f"writing {runs} runs")
    trio.run(write_runs, folder / "runs.db", runs)

    def ours() -> float:
        return _replayed(folder / "runs.db", cores())["rate"]

    def floor() -> float:
        with closing(sqlite3.connect(folder / "runs.db")) as database:
            begun = perf_counter()
            scan(database)
            return _records(database) / (perf_counter() - begun)

    pairs = alternate(scale.of(3, 1), ours, floor, scale)
    return {"replay_all": Figures(pairs, {"one_process": _replayed(folder / "runs.db", 1)["rate"]})}


def _records(database: sqlite3.Connection) -> int:
    found: int = database.execute("SELECT count(*) FROM events").fetchone()[0]
    return found


def measure_replay_memory(scale: Scale) -> Measured:
    """Peak memory of the process and its workers together, for a journal and for one ten times as long."""
    folder = scale.fresh("replay-memory")
    runs = scale.of(1_000, 3)
    for times in (1, TIMES):
        scale.say(f"writing {runs * times} runs")
        trio.run(write_runs, folder / f"{times}.db", runs * times)
    rates: list[float] = []
    records: list[float] = []

    def peak(times: int) -> float:
        found = _replayed(folder / f"{times}.db")
        if times > 1:
            rates.append(found["rate"])
            records.append(found["records"])
        return found["own"] + JOBS * found["workers"]

    pairs: Sequence[Pair] = alternate(scale.of(2, 1), lambda: peak(TIMES), lambda: peak(1), scale)
    return {"replay_memory": Figures(pairs, {"records": max(records), "records_per_second": max(rates)})}


GROUPS: Sequence[Group] = (
    Group(
        "replay_all",
        [
            Key(
                "replay_all",
                "records/s",
                "replay all runs of a journal, on all cores",
                "sqlite3, scan of the same table, msgpack",
                0.08,
                "at_least",
            )
        ],
        measure_replay_all,
    ),
    Group(
        "replay_memory",
        [
            Key(
                "replay_memory",
                "MB",
                "replay a journal, 2 processes: peak memory",
                "the same with a tenth of the records",
                1.2,
                "at_most",
            )
        ],
        measure_replay_memory,
    ),
)
