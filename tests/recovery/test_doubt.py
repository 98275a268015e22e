"""Between an effect and its receipt: what is not known is not guessed, and what a person said is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recovery.crash import check_played, of, play_all
from tests.recovery.fate import Kill
from tests.recovery.lives import Played
from tests.recovery.scenario import Job

MAIL = (("unqueryable_write-async-gated",),)
SAFE = (("idempotent_write-async-gated",),)
DECIDED = Kill("after", 5)
"""The driver named; submitted; asked; replied and gated; decided."""


def one(job: Job, directory: Path) -> Played:
    (played,) = play_all([job], directory)
    check_played(played)
    return played


def test_case_02_before_and_after_the_effect_look_alike_and_end_in_doubt(tmp_path: Path) -> None:
    before, after = play_all([Job("k4", MAIL, (Kill("entered", 1),)), Job("k5", MAIL, (Kill("applied", 1),))], tmp_path)
    for played, effects in ((before, 0), (after, 1)):
        check_played(played)
        killed, first, second = played.lives[:3]
        assert killed.signal
        assert first.said == second.said == "in_doubt"
        assert first.after.label == "in_doubt"
        assert [len(life.after.effects) for life in (killed, first, second)] == [effects] * 3
        # Unchanged by a second restart, and the model was not told anything yet.
        assert first.after == second.after
        assert len(second.after.requests) == 1
        # Settled by a person: once in all, whichever of the two it had been.
        assert len(played.lives[-1].after.effects) == 1
    assert before.lives[1].after.events == after.lives[1].after.events


@pytest.mark.parametrize("point", ["entered", "applied"])
def test_invariant_08_an_unknown_outcome_is_neither_success_nor_failure(point: str, tmp_path: Path) -> None:
    played = one(Job("doubt", MAIL, (Kill("applied" if point == "applied" else "entered", 1),)), tmp_path)
    in_doubt = played.lives[1]
    assert of(in_doubt, "ActionReceipted") == []
    assert [entry["type"] for entry in in_doubt.after.events[-2:]] == ["ActionInterrupted", "ActionUnresolved"]
    verdict = "applied" if point == "applied" else "run_again"
    last = played.lives[-1]
    assert of(last, "ActionResolved", action="0.0", verdict=verdict, evidence="looked it up")
    (receipt,) = of(last, "ActionReceipted")
    assert receipt["evidence"] == ("person" if point == "applied" else "returned")


@pytest.mark.parametrize("turns", [MAIL, SAFE], ids=["unqueryable", "idempotent"])
def test_case_02_a_decision_that_was_stored_lets_the_call_run_once(
    turns: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    played = one(Job("k8", turns, (DECIDED,)), tmp_path)
    killed, after, _ = played.lives
    assert killed.after.events[-1]["type"] == "ApprovalDecided"
    assert killed.after.effects == []
    assert after.said == "succeeded"
    assert len(after.after.effects) == 1
    # Nobody was asked a second time.
    assert len(of(after, "ApprovalRequested")) == len(of(after, "ApprovalDecided")) == 1


def test_case_02_a_retry_safe_call_runs_again_under_one_key(tmp_path: Path) -> None:
    kills = (Kill("applied", 1),) * 3
    played = one(Job("safe", SAFE, kills), tmp_path)
    last = played.lives[-1]
    assert [line["attempt"] for line in last.after.effects] == [1, 2, 3, 4]
    assert {line["key"] for line in last.after.effects} == {f"{last.after.run}/0.0"}
    assert of(last, "ActionUnresolved") == []
    # One approval covers all attempts at the one call.
    assert len(of(last, "ApprovalDecided")) == 1


def test_invariant_06_the_effect_key_is_the_action_and_the_same_over_attempts_and_restarts(tmp_path: Path) -> None:
    turns = (("idempotent_write-sync", "idempotent_write-async"), ("idempotent_write-async-gated",))
    kills = (Kill("applied", 2), Kill("entered", 1), Kill("applied", 3), Kill("applied", 2))
    played = one(Job("keys", turns, kills), tmp_path)
    last = played.lives[-1]
    keys = {
        str(line["n"]): {other["key"] for other in last.after.effects if other["n"] == line["n"]}
        for line in last.after.effects
    }
    run = last.after.run
    assert keys == {"0": {f"{run}/0.0"}, "1": {f"{run}/0.1"}, "2": {f"{run}/1.0"}}
    assert len(last.after.effects) > 3
