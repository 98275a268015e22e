"""Limits, killed at every commit: nothing is counted twice, nothing is forgotten, and what is allowed comes once."""

from __future__ import annotations

from pathlib import Path

from tests.recovery.budgets import BudgetJob, Outcome, Played, play_all
from tests.recovery.fate import Kill, check_deaths


def every_commit(first: Played) -> list[BudgetJob]:
    """A death before each of the commits of a life without one; every third time another soon after."""
    jobs = []
    for nth in range(1, first.lives[0].passed["after"] + 1):
        again = (Kill("after", 2 + nth % 4),) if nth % 3 == 0 else ()
        jobs.append(BudgetJob(f"{first.job.play}-{nth}", first.job.play, (Kill("before", nth), *again)))
    replies = (Kill("replied", nth) for nth in (2, 4))
    return [*jobs, *(BudgetJob(f"replied-{kill.nth}", first.job.play, (kill,)) for kill in replies)]


def check(played: Played, said: str) -> Outcome:
    """What holds whatever died where."""
    outcome = played.end
    assert played.lives[-1].said == said, played
    assert outcome.problems == [], played
    # A reply that was not journaled is asked for again; nothing else is.
    assert outcome.sent <= outcome.counts["ModelResponded"] + outcome.counts.get("ModelLost", 0), played
    return outcome


def check_alone(played: Played) -> None:
    outcome = check(played, "over budget at 7")
    # 4 turns, and exactly 3 more, with numbers of their own.
    assert outcome.asked == list(range(7)), outcome
    assert (outcome.counts["ModelResponded"], outcome.counts["BudgetRaised"], outcome.spent) == (7, 1, 7), outcome
    assert sorted(set(outcome.effects)) == [f"{turn}.0" for turn in range(7)], outcome


def test_case_19_four_turns_stay_four_and_three_more_are_three_killed_at_every_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "alone")], tmp_path / "first")
    check_alone(first)
    jobs = every_commit(first)
    plays = play_all(jobs, tmp_path / "kills")
    for played in plays:
        check_alone(played)
    check_deaths(played.lives[0].signal for played in plays)


def check_shared(played: Played) -> None:
    outcome = check(played, "over budget")
    assert (outcome.counts["ModelResponded"], outcome.spent) == (5, 5), outcome
    assert outcome.counts["ChildFinished"] == 2, outcome
    # Whoever asks with half of it spent is told so first, and once in all its lives.
    assert 1 <= outcome.counts["BudgetWarned"] <= 2, outcome


def test_two_children_never_spend_more_than_is_left_killed_at_every_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "shared")], tmp_path / "first")
    check_shared(first)
    jobs = every_commit(first)
    plays = play_all(jobs, tmp_path / "kills")
    for played in plays:
        check_shared(played)
    check_deaths(played.lives[0].signal for played in plays)


def check_topped_up(played: Played) -> None:
    outcome = check(played, "Fine.")
    assert (outcome.counts["ModelResponded"], outcome.spent) == (6, 6), outcome
    # Twice at the root, and once as word to each child.
    assert outcome.counts["BudgetRaised"] == 4, outcome


def test_what_is_allowed_at_the_root_reaches_the_children_killed_at_every_other_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "topped_up")], tmp_path / "first")
    check_topped_up(first)
    jobs = every_commit(first)[::2]
    plays = play_all(jobs, tmp_path / "kills")
    for played in plays:
        check_topped_up(played)
    check_deaths(played.lives[0].signal for played in plays)


def check_three(played: Played) -> None:
    outcome = check(played, "Fine.")
    # Three of the six that were asked for, however often one of them was tried.
    assert len(set(outcome.effects)) == 3, outcome
    assert outcome.counts["ActionReceipted"] == 2 + 6, outcome


def test_three_for_two_parallel_children_are_never_four_killed_at_every_commit(tmp_path: Path) -> None:
    (first,) = play_all([BudgetJob("first", "three")], tmp_path / "first")
    check_three(first)
    plays = play_all(every_commit(first), tmp_path / "kills")
    for played in plays:
        check_three(played)
    check_deaths(played.lives[0].signal for played in plays)
