"""A fork whose process is killed anywhere: it is one fork, it does nothing unasked, and leaves the other run alone."""

from __future__ import annotations

from pathlib import Path

from tests.recovery.fate import Kill
from tests.recovery.fork_lives import SCENARIO, ForkJob, Played
from tests.recovery.lifetimes import play_all

from trouper.core.fork import Writes

ORIGIN = {"origin/0.0", "origin~1.0/0.0"}


def killed_at_every_commit(writes: Writes, folder: Path) -> list[Played]:
    """One that nobody kills, and one for each commit of it, every third of which is killed again soon after."""
    (first,) = play_all(SCENARIO, [ForkJob("undisturbed", writes)], folder / "first")
    commits = first.lives[0].passed["after"]
    assert commits > 15
    jobs = []
    for nth in range(1, commits + 1):
        again = (Kill("after", 2 + nth % 4),) if nth % 3 == 0 else ()
        jobs.append(ForkJob(f"after-{nth}", writes, (Kill("after", nth), *again)))
    killed = play_all(SCENARIO, jobs, folder / "killed")
    # What ends together may share a commit: then there is one less to die at.
    assert sum(played.deaths > 0 for played in killed) >= commits - 2
    return [first, *killed]


def check(played: Played) -> None:
    """What holds whatever becomes of new writes."""
    told = played.end
    assert played.lives[-1].said == "differently", played
    assert told.problems == [], played
    assert told.outputs == ["done", "differently"], played
    # The run, its helper, and the same of the fork.
    assert told.runs == 4, played
    assert told.recorded == ["/0.0"], played
    assert "/0.0" not in told.started, played
    # One receipt for each call, and none more in the life after the end.
    receipts = dict(told.receipts)
    assert len(told.receipts) == len(receipts) == 4, played
    assert receipts["/0.0"] == "recorded", played
    assert told == played.lives[-2].after, played


def test_what_a_fork_asks_for_is_done_once_approved_killed_at_every_commit(tmp_path: Path) -> None:
    for played in killed_at_every_commit("ask", tmp_path):
        check(played)
        # What the run did is not done again in the fork; what is new was approved, in the helper too.
        assert set(played.end.effects) == ORIGIN | {"fork/0.1", "fork~1.0/0.0"}, played


def test_what_a_fork_simulates_is_never_done_killed_at_every_commit(tmp_path: Path) -> None:
    for played in killed_at_every_commit("simulate", tmp_path):
        check(played)
        assert set(played.end.effects) == ORIGIN, played
        receipts = dict(played.end.receipts)
        assert receipts["/0.1"] == receipts["1.0/0.0"] == "simulated", played
        # The helper's run alone is begun.
        assert set(played.end.started) == {"/1.0"}, played
