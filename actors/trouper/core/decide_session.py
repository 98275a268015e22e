"""The rules for a run that has not started: it waits for its session's turn, and for its history to be short enough."""

from __future__ import annotations

from trouper.core.session import Turn
from trouper.core.steps import AbandonSummary, Compact, Start, Step, Summarise

# A summary is a convenience: one that cannot be had is not waited for.
ATTEMPTS = 2


def before_start(turn: Turn | None, start_at: int | None) -> tuple[Step, ...]:
    """What must happen before a run is taken up; its start where nothing must."""
    if turn is None:
        return (Start(start_at),)
    if not turn.given:
        return ()
    compaction = turn.compaction
    if compaction is None or compaction.phase == "done":
        return (Start(start_at),)
    if compaction.phase == "requested":
        return ()
    if compaction.attempt < ATTEMPTS:
        return (Summarise(compaction.attempt + 1, compaction.retry_at),)
    return (Compact(),)


def abandon_summary(turn: Turn | None) -> AbandonSummary | None:
    """What must be stopped so that a run can be cancelled that waits for a summary."""
    if turn is None or turn.compaction is None or turn.compaction.phase != "requested":
        return None
    return AbandonSummary(turn.compaction.attempt)
