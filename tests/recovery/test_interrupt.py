"""Ctrl-C, once and again: the program ends as one that was interrupted, and what it did is recorded."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.recovery.crash import check_played, of, play_all
from tests.recovery.fate import Kill, Point
from tests.recovery.scenario import EFFECTS, Job
from tests.recovery.test_matrix import BATCH, check_all, check_reached, dry_runs, every_kill

SIGINT = 2


@pytest.mark.parametrize("point", ["entered", "applied"])
def test_case_04_an_interrupted_call_has_its_receipt(point: Point, tmp_path: Path) -> None:
    jobs = [
        Job(f"{effect}-{way}", ((f"{effect}-{way}",),), (Kill(point, 1, SIGINT),))
        for effect in EFFECTS
        for way in ("sync", "async")
    ]
    for played in play_all(jobs, tmp_path):
        check_played(played)
        interrupted, after, _ = played.lives
        assert interrupted.signal == SIGINT
        assert len(interrupted.after.effects) == len(after.after.effects) == 1
        assert of(interrupted, "ActionReceipted", attempt=1, evidence="returned")
        assert of(after, "ActionInterrupted") == []
        assert len(after.after.requests) == 2


def test_case_04_interrupted_anywhere_a_program_ends_in_order(tmp_path: Path) -> None:
    (dry,) = dry_runs([BATCH], tmp_path)
    kills = [attrs.evolve(kill, signal=SIGINT) for kill in every_kill(dry)]
    played = play_all([Job(f"{kill.point}-{kill.nth}", BATCH, (kill,)) for kill in kills], tmp_path)
    check_all("interrupted", played)
    check_reached(played)
    # In order: what was under way was waited for, so that nothing is in doubt and no reply is lost.
    for each in played:
        assert of(each.lives[-1], "ActionInterrupted", "ActionUnresolved", "ModelLost") == []


def test_case_04_interrupted_again_while_it_ends_a_program_loses_nothing(tmp_path: Path) -> None:
    (dry,) = dry_runs([BATCH], tmp_path)
    kills = [attrs.evolve(kill, signal=SIGINT, times=3) for kill in every_kill(dry)]
    played = play_all([Job(f"{kill.point}-{kill.nth}", BATCH, (kill,)) for kill in kills], tmp_path)
    check_all("interrupted again", played)
    check_reached(played)
