"""Limits, killed at every commit: nothing is counted twice, nothing is forgotten, and what is allowed comes once."""

from __future__ import annotations

from pathlib import Path

from tests.recovery.budgets import BudgetJob, Outcome, play_all
from tests.recovery.scenario import Kill


def every_commit(first: Outcome) -> list[BudgetJob]:
    """A death before each of the commits of a life without one; every third time another soon after."""
    jobs = []
    for nth in range(1, first.commits + 1):
        again = (Kill("after", 2 + nth % 4),) if nth % 3 == 0 else ()
        jobs.append(BudgetJob(f"{first.job.play}-{nth}", first.job.play, (Kill("before", nth), *again)))
    replies = (Kill("replied", nth) for nth in (2, 4))
    return [*jobs, *(BudgetJob(f"replied-{kill.nth}", first.job.play, (kill,)) for kill in replies)]


def check(outcome: Outcome) -> None:
    """What holds whatever died where."""
    assert outcome.problems == [], outcome
    # A reply that was not journaled is asked for again; nothing else is.
    assert outcome.sent <= outcome.counts["ModelResponded"] + outcome.counts.get("ModelLost", 0), outcome


def check_alone(outcome: Outcome) -> None:
    check(outcome)
    assert outcome.lives[-1] == "over budget at 7", outcome
    # 4 turns, and exactly 3 more, with numbers of their own.
    assert outcome.asked == list(range(7)), outcome
    assert (outcome.counts["ModelResponded"], outcome.counts["BudgetRaised"], outcome.spent) == (7, 1, 7), outcome
    assert sorted(set(outcome.effects)) == [f"{turn}.0" for turn in range(7)], outcome


def test_case_19_four_turns_stay_four_and_three_more_are_three_killed_at_every_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "alone")], tmp_path / "first")
    check_alone(first)
    jobs = every_commit(first)
    for outcome in play_all(jobs, tmp_path / "kills"):
        check_alone(outcome)
        assert outcome.lives[0] == "signal 9", outcome


def check_shared(outcome: Outcome) -> None:
    check(outcome)
    assert outcome.lives[-1] == "over budget", outcome
    assert (outcome.counts["ModelResponded"], outcome.spent) == (5, 5), outcome
    assert outcome.counts["ChildFinished"] == 2, outcome


def test_two_children_never_spend_more_than_is_left_killed_at_every_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "shared")], tmp_path / "first")
    check_shared(first)
    jobs = every_commit(first)
    for outcome in play_all(jobs, tmp_path / "kills"):
        check_shared(outcome)
        assert outcome.lives[0] == "signal 9", outcome


def check_topped_up(outcome: Outcome) -> None:
    check(outcome)
    assert outcome.lives[-1] == "Fine.", outcome
    assert (outcome.counts["ModelResponded"], outcome.spent) == (6, 6), outcome
    # Twice at the root, and once as word to each child.
    assert outcome.counts["BudgetRaised"] == 4, outcome


def test_what_is_allowed_at_the_root_reaches_the_children_killed_at_every_other_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "topped_up")], tmp_path / "first")
    check_topped_up(first)
    jobs = every_commit(first)[::2]
    for outcome in play_all(jobs, tmp_path / "kills"):
        check_topped_up(outcome)
        assert outcome.lives[0] == "signal 9", outcome


def check_three(outcome: Outcome) -> None:
    check(outcome)
    assert outcome.lives[-1] == "Fine.", outcome
    # Three of the six that were asked for, however often one of them was tried.
    assert len(set(outcome.effects)) == 3, outcome
    assert outcome.counts["ActionReceipted"] == 2 + 6, outcome


def test_three_for_two_parallel_children_are_never_four_killed_at_every_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "three")], tmp_path / "first")
    check_three(first)
    for outcome in play_all(every_commit(first), tmp_path / "kills"):
        check_three(outcome)
        assert outcome.lives[0] == "signal 9", outcome
