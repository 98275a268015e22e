"""Killed before and after each commit, and at each point between: what recovery must make of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from tests.recovery.crash import check_played, of, play_all
from tests.recovery.fate import Kill, Point, kills_at
from tests.recovery.lives import Played
from tests.recovery.scenario import EFFECTS, KINDS, EffectName, Job, Turns

BATCH: Turns = (
    ("read_only-sync", "idempotent_write-async", "queryable_write-sync-gated", "unqueryable_write-async-gated"),
    ("unqueryable_write-sync", "idempotent_write-async-gated"),
)

FEWEST_COMMITS = 11
"""The driver named; submitted; started; for each of two batches at least: replied, decided, started, receipted."""


def every_kill(dry: Played) -> list[Kill]:
    """All points that a life comes to, as a dry run counted them."""
    return kills_at(dry.lives[0].passed, {"before": 1, "after": 1, "replied": 1, "entered": 1, "applied": 1})


def dry_runs(turns: Sequence[Turns], directory: Path) -> list[Played]:
    """Runs that nobody kills, to see what there is to be killed at."""
    played = play_all([Job(f"dry-{number}", each) for number, each in enumerate(turns)], directory / "dry")
    for each in played:
        check_played(each)
    return played


def tell(name: str, played: Sequence[Played]) -> None:
    """What was done, for whoever runs the tests with ``-rP``."""
    lives = [life for each in played for life in each.lives]
    killed = sum(life.signal != 0 for life in lives)
    ends = Counter(life.said for life in lives if not life.signal)
    effects = sum(len(each.lives[-1].after.effects) for each in played)
    print(f"{name}: {len(played)} runs, {killed} kills, {len(lives)} lives, {effects} effects; ends: {dict(ends)}")


def check_reached(played: Sequence[Played]) -> None:
    """Each died where it was told to, unless at a commit that may not be: calls that end together may share one."""
    for each in played:
        (kill,) = each.job.kills
        assert kill is not None
        surely = kill.point not in {"before", "after"} or kill.nth <= FEWEST_COMMITS
        assert each.lives[0].signal or not surely, f"{each.job} did not die"


def check_all(name: str, played: Sequence[Played]) -> int:
    """Check each run; how often one was killed."""
    for each in played:
        check_played(each)
    tell(name, played)
    return sum(life.signal != 0 for each in played for life in each.lives)


@pytest.mark.parametrize("effect", EFFECTS)
def test_one_call_is_recovered_from_a_kill_at_every_point(effect: EffectName, tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if kind.effect == effect]
    dry = dry_runs([((kind.name,),) for kind in kinds], tmp_path)
    for kind, each in zip(kinds, dry, strict=True):
        # The driver named; submitted; started, asked; replied, planned, started or gated; (decided; started;)
        # receipted, asked; replied, ended.
        assert each.lives[0].passed["after"] == (8 if kind.gated else 6)
    jobs = [
        Job(f"{kind.name}-{kill.point}-{kill.nth}", ((kind.name,),), (kill,))
        for kind, each in zip(kinds, dry, strict=True)
        for kill in every_kill(each)
    ]
    assert check_all(effect, play_all(jobs, tmp_path)) == len(jobs)


def test_two_batches_of_all_kinds_are_recovered_from_a_kill_at_every_point(tmp_path: Path) -> None:
    (dry,) = dry_runs([BATCH], tmp_path)
    jobs = [Job(f"batch-{kill.point}-{kill.nth}", BATCH, (kill,)) for kill in every_kill(dry)]
    played = play_all(jobs, tmp_path)
    check_all("batches", played)
    check_reached(played)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_kill_during_recovery_is_recovered_from(effect: EffectName, tmp_path: Path) -> None:
    turns: Turns = ((f"{effect}-async",),)
    second: tuple[Kill, ...] = (Kill("before", 1), Kill("after", 1), Kill("before", 2), Kill("after", 2))
    second += (Kill("entered", 1), Kill("applied", 1))
    (dry,) = dry_runs([turns], tmp_path)
    jobs = [
        Job(f"{one.point}-{one.nth}-{two.point}-{two.nth}", turns, (one, two))
        for one, two in product(every_kill(dry), second)
    ]
    played = play_all(jobs, tmp_path)
    # A second life may have less to do than it was to be killed at.
    check_all(f"twice, {effect}", played)
    assert sum(len([life for life in each.lives if life.signal]) == 2 for each in played) > len(jobs) // 3


def test_a_run_gets_on_though_each_life_ends_after_three_commits_of_its_own(tmp_path: Path) -> None:
    # The first commit of each life says who drives. After two more it could end with the start of the same attempt
    # again and again, which is not for ever: a call that takes the process down with it is given up.
    kills = (Kill("after", 4),) * 30
    (played,) = play_all([Job("relay", BATCH, kills)], tmp_path)
    check_played(played)
    tell("relay", [played])
    assert 4 < played.deaths < 20


def test_runs_survive_kills_at_random(tmp_path: Path) -> None:
    chance = random.Random(1756)
    points: tuple[Point, ...] = ("before", "after", "replied", "entered", "applied")

    def turns() -> Turns:
        names = [kind.name for kind in KINDS]
        return tuple(tuple(chance.sample(names, chance.randint(1, 4))) for _ in range(chance.randint(1, 3)))

    def kill() -> Kill | None:
        return Kill(chance.choice(points), chance.randint(1, 6)) if chance.random() < 0.9 else None

    jobs = [Job(f"random-{n}", turns(), tuple(kill() for _ in range(chance.randint(1, 6)))) for n in range(60)]
    played = play_all(jobs, tmp_path)
    assert check_all("at random", played) > len(jobs)


@pytest.mark.parametrize("effect", ["read_only", "idempotent_write", "queryable_write"])
def test_a_call_that_takes_each_process_down_is_given_up(effect: EffectName, tmp_path: Path) -> None:
    """Ten times a retry is granted to a call that never comes back, not for ever."""
    # A doubt that a person settled by running it again would meet an eleventh.
    kills = (Kill("entered", 1),) * (10 if effect == "idempotent_write" else 15)
    (played,) = play_all([Job(effect, ((f"{effect}-async",),), kills)], tmp_path)
    assert played.deaths == 10
    last = played.lives[-1]
    if effect == "idempotent_write":
        # It may have been done each time before the end came.
        assert of(last, "ActionUnresolved", action="0.0")
        assert of(last, "ActionResolved", action="0.0", verdict="run_again")
        assert len({line["key"] for line in last.after.effects}) == 1
    else:
        assert of(last, "ActionReceipted", action="0.0", outcome="error")
        assert last.after.effects == []
    assert last.said == "succeeded"
    assert last.after.unanswered == []
    assert last.after.difference == ""


def test_a_request_that_takes_each_process_down_is_given_up(tmp_path: Path) -> None:
    """A request that may have been billed is not sent for ever: five attempts may fail, ten more may be lost."""
    kills = (Kill("replied", 1),) * 20
    (played,) = play_all([Job("requests", (("read_only-async",),), kills)], tmp_path)
    assert played.deaths == 15
    last = played.lives[-1]
    assert last.said == "failed"
    assert len(last.after.requests) == len(of(last, "ModelLost", reason="restart")) == 15
    assert last.after.events[-1] == {"type": "RunFailed"}
    assert last.after.difference == ""
