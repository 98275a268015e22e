"""Trees of agents, killed at every commit: no child twice, no child lost, nobody asked again, nothing done again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.recovery.fate import Kill, check_deaths
from tests.recovery.trees import BRANCHES, Played, TreeJob, play_all

RUNS = {"", "0.0", "0.1", "0.0~0.0", "0.1~0.0"}


def check(played: Played) -> None:
    """What holds whatever died where."""
    tree = played.end
    assert tree.verified, tree
    assert set(tree.runs) == RUNS, tree
    for name, run in tree.runs.items():
        assert run.difference == "", (name, tree)
        assert run.unanswered == [], (name, tree)
        assert run.twice == [], (name, tree)
        # A call that is a run of its own is never interrupted, whatever dies.
        if not name.endswith("~0.0"):
            assert run.events.get("ActionInterrupted", 0) == 0, (name, tree)
            assert run.events["ActionStarted"] == run.events["ChildStarted"], (name, tree)
    assert tree.sent <= sum(run.events["ModelRequested"] for run in tree.runs.values()), tree
    # That a driver has taken the journal, and nothing else.
    assert tree.position - played.lives[-2].after.position == 1, tree
    emails = Counter(key for name, key in tree.effects if name == "send_email")
    assert all(times == 1 for times in emails.values()), tree
    assert {key for name, key in tree.effects if name == "add"} <= {"0.0~0.0/0.0", "0.1~0.0/0.0"}, tree


def every_commit(name: str, first: Played, *, cancels: bool) -> list[TreeJob]:
    """A death before each of the commits of a life without one; every third time another soon after."""
    jobs = []
    for nth in range(1, first.lives[0].passed["after"] + 1):
        again = (Kill("after", 2 + nth % 4),) if nth % 3 == 0 else ()
        jobs.append(TreeJob(f"{name}-{nth}", cancels, (Kill("before", nth), *again)))
    return jobs


def test_case_12_killed_at_every_commit_each_branch_comes_to_its_own_end_once(tmp_path: Path) -> None:
    (first,) = play_all([TreeJob("first")], tmp_path)
    check(first)
    assert first.lives[0].passed["after"] > 20
    (tmp_path / "kills").mkdir()
    jobs = [*every_commit("decided", first, cancels=False), TreeJob("K5", kills=(Kill("applied", 1),))]
    trees = play_all(jobs, tmp_path / "kills")
    check_deaths(tree.lives[0].signal for tree in trees)
    for played in trees:
        check(played)
        tree = played.end
        assert {run.label for run in tree.runs.values()} == {"succeeded"}, tree
        sent, denied = tree.runs[""].answers
        assert sent in {"researcher: helper: sent to a", "researcher: helper: Took effect, as maria found."}, tree
        assert denied == "researcher: helper: Not started: denied by maria: not b.", tree
        assert [key for name, key in tree.effects if name == "send_email"] == ["0.0~0.0/1.0"], tree
        assert {key for name, key in tree.effects if name == "add"} == {"0.0~0.0/0.0", "0.1~0.0/0.0"}, tree


def test_cancelled_and_killed_at_every_commit_no_descendant_is_left_behind(tmp_path: Path) -> None:
    (first,) = play_all([TreeJob("first", cancels=True)], tmp_path)
    check(first)
    (tmp_path / "kills").mkdir()
    trees = play_all(every_commit("cancelled", first, cancels=True), tmp_path / "kills")
    check_deaths(tree.lives[0].signal for tree in trees)
    for played in trees:
        check(played)
        tree = played.end
        assert {run.label for run in tree.runs.values()} == {"cancelled"}, tree
        assert len(tree.runs[""].answers) == len(BRANCHES), tree
        assert all(
            text.startswith("Cancelled: the agent researcher was stopped by maria (enough)")
            for text in tree.runs[""].answers
        ), tree
        assert not any(name == "send_email" for name, _ in tree.effects), tree
