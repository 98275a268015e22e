"""All runs of a journal, one row each: a projection for lists and dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from trouper.core import events as ev
from trouper_journal import Plain
from trouper_journal.projections import Entry, Projected, Tables


@frozen(slots=False, repr=False, eq=False)
class RunRow(Plain):
    """A run, as far as its records were taken in.

    Attributes:
        run: Its id.
        agent: Its agent.
        parent: The run whose call began it; None for a root.
        session: The session that it is a turn of; None where it is none.
        label: Its status, such as ``awaiting_approval``.
        events: How many events it has.
        submitted_at: When it was submitted (ns UTC).
        started_at: When it was taken up; None where it was not yet.
        changed_at: When its last event was recorded.
        ended_at: When it ended, the last time it did; None while it is not over.
    """

    run: str
    agent: str
    parent: str | None
    session: str | None
    label: str | None
    events: int
    submitted_at: int
    started_at: int | None
    changed_at: int
    ended_at: int | None


_TABLE: Final = """
CREATE TABLE projection_runs (
    run TEXT PRIMARY KEY,
    agent TEXT,
    parent TEXT,
    session TEXT,
    label TEXT,
    events INTEGER,
    submitted_at INTEGER,
    started_at INTEGER,
    changed_at INTEGER,
    ended_at INTEGER
)
"""
_ENDS: Final = ("succeeded", "failed", "cancelled")


class RunsProjection:
    """Keeps a row for each run."""

    name = "runs"
    version = 1
    schema = (
        _TABLE,
        "CREATE INDEX projection_runs_label ON projection_runs (label)",
        "CREATE INDEX projection_runs_agent ON projection_runs (agent)",
    )
    types = frozenset({"run.submitted"})
    every = True

    def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
        """Begin rows, and bring them up to their runs' last records."""
        for entry in entries:
            record = entry.record
            if not record.stream.startswith("run/"):
                continue
            run = record.stream.removeprefix("run/")
            if isinstance(entry.event, ev.RunSubmitted) and record.version == 1:
                event = entry.event
                parent = None if event.parent is None else event.parent.run
                session = None if event.turn is None else event.turn.session
                tables.execute(
                    "INSERT INTO projection_runs VALUES (?, ?, ?, ?, NULL, 0, ?, NULL, ?, NULL)",
                    (run, event.agent, parent, session, record.recorded_at, record.recorded_at),
                )
            ended = (record.label or "").partition("-")[0] in _ENDS
            tables.execute(
                "UPDATE projection_runs SET events = ?, label = ifnull(?, label), changed_at = ?, "
                "started_at = CASE WHEN ? THEN ifnull(started_at, ?) ELSE started_at END, "
                "ended_at = CASE WHEN ? THEN ifnull(ended_at, ?) WHEN ? THEN NULL ELSE ended_at END WHERE run = ?",
                (
                    record.version,
                    record.label,
                    record.recorded_at,
                    record.type == "run.started",
                    record.recorded_at,
                    ended,
                    record.recorded_at,
                    record.label is not None,
                    run,
                ),
            )


async def list_runs(
    projected: Projected, *, label: str | None = None, agent: str | None = None, after: str = "", limit: int = 100
) -> list[RunRow]:
    """Runs in the order of their ids, which is that of their submission.

    Args:
        projected: A `RunsProjection`, opened by `open_projection`.
        label: Only those with this status.
        agent: Only those of this agent.
        after: Only those behind this run, for pages.
        limit: How many at most.
    """
    rows = await projected.query(
        "SELECT * FROM projection_runs WHERE run > ? AND (? IS NULL OR label = ?) AND (? IS NULL OR agent = ?) "
        "ORDER BY run LIMIT ?",
        (after, label, label, agent, agent, limit),
    )
    return [RunRow(*row) for row in rows]  # type: ignore[arg-type]
