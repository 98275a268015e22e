"""Verifying a journal over all cores, beside a scan of its table that hashes what is in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.journal import write_events
from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate
from benchmarks.sample import write_runs
from trouper_journal import Journal
from trouper_journal._workers import cores


def measure_verify(scale: Scale) -> Measured:
    """Records of 300 bytes in one stream; and beside it agents' runs, and both with one process."""
    folder = scale.fresh("verify")
    events, runs = scale.of(150_000, 200), scale.of(15_000, 10)
    scale.say(f"writing {events} events")
    trio.run(write_events, folder / "events.db", events)
    scale.say(f"writing {runs} runs")
    trio.run(write_runs, folder / "runs.db", runs)
    rounds = scale.of(5, 1)
    pairs = _pairs(folder / "events.db", cores(), rounds, scale)
    extra = {
        "jobs": float(cores()),
        "one_job_ratio": Figures(_pairs(folder / "events.db", 1, scale.of(3, 1), scale)).ratio,
        "runs_ratio": Figures(_pairs(folder / "runs.db", cores(), scale.of(3, 1), scale)).ratio,
    }
    return {"verify": Figures(pairs, extra)}


def _pairs(path: Path, jobs: int, rounds: int, scale: Scale) -> Sequence[Pair]:
    return alternate(rounds, lambda: trio.run(_verified, path, jobs), lambda: _scanned(path), scale)


async def _verified(path: Path, jobs: int) -> float:
    async with Journal.open(path, read_only=True) as journal:
        begun = perf_counter()
        found = await journal.verify(jobs=jobs)
        taken = perf_counter() - begun
    assert found.ok, found
    return found.records / taken


def _scanned(path: Path) -> float:
    """Every row, and one hash over all the bytes in it; in one process, as such a loop would be."""
    records = 0
    with closing(sqlite3.connect(path)) as database:
        begun = perf_counter()
        for row in database.execute("SELECT * FROM events ORDER BY position"):
            sha256(b"".join([cell for cell in row if type(cell) is bytes])).digest()
            records += 1
        return records / (perf_counter() - begun)


GROUPS: Sequence[Group] = (
    Group(
        "verify",
        [
            Key(
                "verify",
                "records/s",
                "verify a journal of 300-byte events, a process for each core",
                "sqlite3, scan of the same table, one sha256 a row, one process",
                0.5,
                "at_least",
            )
        ],
        measure_verify,
    ),
)
