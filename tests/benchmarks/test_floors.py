"""The floors do what they are compared for: as many durable bytes, found again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import trio
from benchmarks.floor import group_commit
from benchmarks.runs import ByHand, commits_of
from benchmarks.sample import QUESTION, as_json, desk

from trouper import Runtime


async def test_what_the_group_commit_answered_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "floor.db"
    async with group_commit(path) as writer, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(writer.append, [(f"run/{number}", 1, b"a"), (f"run/{number}", 2, b"b")])
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*), count(DISTINCT stream) FROM events").fetchone() == (100, 50)


async def test_the_run_by_hand_writes_as_many_events_bytes_and_commits(tmp_path: Path) -> None:
    async with Runtime.open(None, [desk()]) as runtime:
        await (await runtime.submit("desk", QUESTION)).wait()
        run = await runtime.submit("desk", QUESTION)
        result = await run.wait()
        records = [record for record, _ in await run.events()]
    commits = commits_of(records)
    assert len(commits) == len({record.recorded_at for record in records}) == 5
    stored = sum(len(record.facts) + len(record.content) + len(record.leaf) for record in records)
    async with group_commit(tmp_path / "floor.db") as writer:
        await ByHand(writer, commits).run()
    with closing(sqlite3.connect(tmp_path / "floor.db")) as database:
        rows, written = database.execute("SELECT count(*), sum(length(data)) FROM events").fetchone()
    assert rows == len(records)
    assert written > stored, "also the names, labels and times that a record has"
    said = as_json(result.messages)
    assert said.count(b'"role"') == len(result.messages) == 4
    assert b'"arguments":{"ticket":"INC-001"}' in said
