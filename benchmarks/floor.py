"""Floors: the least code that does the same durable work without a framework."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

Row = tuple[str, int, bytes]
Rows = Sequence[Row]

_TABLE = """
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (stream, version)
)
"""


class RawTable:
    """One table in an SQLite file, kept as durably as a journal: WAL, ``synchronous=FULL``.

    A stream's rows are found again by its name, and none is there twice: without that no work could go on after a
    crash, so that it belongs to the floor.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute(_TABLE)

    def commit(self, rows: Rows) -> None:
        """Append rows, durably."""
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO events VALUES (NULL, ?, ?, ?)", rows)
        self._database.execute("COMMIT")

    def scan(self) -> sqlite3.Cursor:
        """All data, in order."""
        return self._database.execute("SELECT data FROM events ORDER BY position")

    def close(self) -> None:
        self._database.close()


class GroupCommit:
    """A thread that takes all rows that wait, commits them in one transaction, and tells each caller."""

    def __init__(self, table: RawTable) -> None:
        self._table = table
        self._waiting: queue.SimpleQueue[tuple[Rows, trio.Event] | None] = queue.SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    async def append(self, rows: Rows) -> None:
        """Append rows; when this returns they are durable."""
        done = trio.Event()
        self._waiting.put((rows, done))
        await done.wait()

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        open_ = True
        while open_:
            rows: list[Row] = []
            events: list[trio.Event] = []
            entry = self._waiting.get()
            while True:
                if entry is None:
                    open_ = False
                else:
                    rows += entry[0]
                    events.append(entry[1])
                try:
                    entry = self._waiting.get_nowait()
                except queue.Empty:
                    break
            if rows:
                self._table.commit(rows)
                self._token.run_sync_soon(_tell, events)


def _tell(events: Sequence[trio.Event]) -> None:
    for event in events:
        event.set()


@asynccontextmanager
async def group_commit(path: Path) -> AsyncIterator[GroupCommit]:
    """A group-commit thread over a file, for the length of a block."""
    table = RawTable(path)
    writer = GroupCommit(table)
    try:
        yield writer
    finally:
        writer.close()
        table.close()
