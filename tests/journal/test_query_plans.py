"""What a driver asks at every look goes by an index, however many streams wait for nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from trouper_journal import EventRegistry, Journal
from trouper_journal._sqlite_rows import list_streams, next_wake


class Explaining(sqlite3.Connection):
    """Notes the plan of every statement that is executed."""

    plans: list[str]

    def execute(self, sql: str, parameters: object = ()) -> sqlite3.Cursor:
        """Note the plan, and execute."""
        assert isinstance(parameters, tuple)
        self.plans = [row[3] for row in super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
        return super().execute(sql, parameters)


async def test_due_streams_and_the_next_alarm_are_found_by_the_index_on_due_times(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Journal.open(path, registry=EventRegistry([])):
        pass
    with closing(sqlite3.connect(path, factory=Explaining)) as database:
        list_streams(database, label=None, prefix="run/", wake_before=1, after="", limit=256)
        assert any("streams_wake" in step for step in database.plans), database.plans
        assert not any(step.startswith("SCAN streams") for step in database.plans), database.plans
        list_streams(database, label="running", prefix="run/", wake_before=None, after="", limit=256)
        assert any("streams_label" in step for step in database.plans), database.plans
        next_wake(database, after=1)
        assert any("streams_wake" in step for step in database.plans), database.plans
