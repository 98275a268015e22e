"""Killed at every commit, with two people who must approve and remember it: no vote, rule or use is lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import trio
from tests.recovery.crash import check_played, of, play_all
from tests.recovery.fate import Kill, Point, kills_at
from tests.recovery.lifetimes import place_of
from tests.recovery.lives import Played
from tests.recovery.scenario import Job

from trouper.core.events import REGISTRY, ActionPlanned, RuleAdded, RuleUsed
from trouper.core.rule_events import APPROVALS
from trouper.core.rules import Book, evolve_book
from trouper_journal import Journal

GATED = "idempotent_write-async-gated"
TURNS = ((GATED,), (GATED, GATED), (GATED,))


def job(name: str, *kills: Kill) -> Job:
    return Job(name, TURNS, kills, play="committee", approvers=("maria", "otto"), remember=2)


async def stored(path: Path) -> tuple[list[object], list[object]]:
    async with Journal.open(path, registry=REGISTRY) as journal:
        (head,) = [head async for head in journal.streams(prefix="run/")]
        run = [journal.registry.decode(record) async for record in journal.read(head.stream)]
        return run, [journal.registry.decode(record) async for record in journal.read(APPROVALS)]


def check_committee(played: Played, directory: Path) -> None:
    check_played(played)
    last = played.lives[-1]
    # The first and the last call are asked for; the two between run by what was remembered of the first.
    assert [entry["action"] for entry in of(last, "ApprovalRequested")] == ["0.0", "2.0"]
    assert [entry["action"] for entry in of(last, "ApprovalDecided")] == ["0.0", "0.0", "2.0", "2.0"]
    run, approvals = trio.run(stored, place_of(directory, played.job) / "journal.db")
    added = [event for event in approvals if isinstance(event, RuleAdded)]
    assert [event.action.rpartition("/")[2] for event in added] == ["0.0", "0.0", "2.0", "2.0"]
    first = {event.rule for event in added[:2]}
    planned = {event.action: set(event.grounds.rules) for event in run if isinstance(event, ActionPlanned)}
    assert planned == {"0.0": set(), "1.0": first, "1.1": first, "2.0": set()}
    used = Counter((event.rule, event.action.rpartition("/")[2]) for event in approvals if isinstance(event, RuleUsed))
    assert used == {(rule, action): 1 for rule in first for action in ("1.0", "1.1")}
    book = Book()
    for event in approvals:
        book = evolve_book(book, event)
    assert [rule.left for rule in book.rules.values()] == [0, 0, 2, 2]


def test_votes_rules_and_uses_survive_a_kill_at_every_commit(tmp_path: Path) -> None:
    (whole,) = play_all([job("whole")], tmp_path / "whole")
    check_committee(whole, tmp_path / "whole")
    commits = whole.lives[0].passed["after"]
    assert commits > 10
    # Before a commit is after the one before it, but for what happened in between: some of those will do.
    paces: dict[Point, int] = {"after": 1, "before": 4}
    jobs = [job(f"{kill.point}-{kill.nth}", kill) for kill in kills_at(whole.lives[0].passed, paces)]
    for played in play_all(jobs, tmp_path / "killed"):
        check_committee(played, tmp_path / "killed")
