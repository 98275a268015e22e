"""Exporting a journal as JSON Lines, beside a loop that writes the rows of its table as JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from time import perf_counter

import msgpack
import trio

from benchmarks.journal import write_events
from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate
from benchmarks.sample import write_runs
from trouper.audit import export_jsonl
from trouper_journal import Journal

_SALT = 16
_NAMES = ("position", "stream", "version", "type", "schema", "recorded_at", "key", "label", "wake_at", "key_id")


def measure_export(scale: Scale) -> Measured:
    """Records of 300 bytes in one stream; and beside it agents' runs."""
    folder = scale.fresh("export")
    events, runs = scale.of(50_000, 200), scale.of(3_000, 10)
    scale.say(f"writing {events} events")
    trio.run(write_events, folder / "events.db", events)
    scale.say(f"writing {runs} runs")
    trio.run(write_runs, folder / "runs.db", runs)
    extra = {"runs_ratio": Figures(_pairs(folder / "runs.db", scale.of(3, 1), scale)).ratio}
    return {"export": Figures(_pairs(folder / "events.db", scale.of(5, 1), scale), extra)}


def _pairs(path: Path, rounds: int, scale: Scale) -> Sequence[Pair]:
    return alternate(rounds, lambda: trio.run(_exported, path), lambda: _dumped(path), scale)


async def _exported(path: Path) -> float:
    async with Journal.open(path, read_only=True) as journal:
        with path.with_suffix(".jsonl").open("w") as file:
            begun = perf_counter()
            records = await export_jsonl(journal, lambda line: file.write(line + "\n"))
            return records / (perf_counter() - begun)


def _dumped(path: Path) -> float:
    """Every row as JSON, with what is packed in it; nothing is checked."""
    read = partial(msgpack.unpackb, ext_hook=_bytes, strict_map_key=False)
    dump = partial(json.dumps, separators=(",", ":"), default=_bytes)
    columns = "e.position, name, e.version, type, schema, recorded_at, key, e.label, e.wake_at, key_id"
    query = f"SELECT {columns}, meta, facts, content FROM events e JOIN streams s ON s.id = stream_id ORDER BY 1"
    records = 0
    with closing(sqlite3.connect(path)) as database, path.with_suffix(".floor").open("w") as file:
        begun = perf_counter()
        for row in database.execute(query):
            meta, facts, content = row[10:]
            line: Mapping[str, object] = {
                **dict(zip(_NAMES, row, strict=False)),
                "meta": read(meta) if meta else {},
                "facts": read(facts) if facts else {},
                "content": read(content[_SALT:]) if content else None,
            }
            file.write(dump(line) + "\n")
            records += 1
        return records / (perf_counter() - begun)


def _bytes(*given: object) -> str:
    data = given[-1]
    return data.hex() if isinstance(data, bytes) else str(data)


GROUPS: Sequence[Group] = (
    Group(
        "export",
        [
            Key(
                "export",
                "records/s",
                "export a journal of 300-byte events as JSON Lines, each record checked",
                "sqlite3, scan of the same table, msgpack and json.dumps, nothing checked",
                0.35,
                "at_least",
            )
        ],
        measure_export,
    ),
)
