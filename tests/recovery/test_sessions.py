"""A session whose process is killed anywhere: no message is lost or answered twice, and nothing is stuck."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.recovery.crash import ROOT
from tests.recovery.session_lives import MESSAGES, Told


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    directory = tmp_path_factory.mktemp("sessions")
    command = [sys.executable, "-m", "tests.recovery.session_lives", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name: Told(**told) for name, told in json.loads((directory / "told.json").read_text()).items()}


def test_undisturbed_the_turns_follow_one_another(played: dict[str, Told]) -> None:
    told = played["undisturbed"]
    assert told.said == ""
    assert told.turns == ["succeeded"] * 4
    assert told.requests == {"asked": 5, "summaries": 2}


def test_it_was_killed_at_every_commit(played: dict[str, Told]) -> None:
    killed = [name for name, told in played.items() if any(told.lives)]
    assert len([name for name in killed if name.startswith("after-")]) >= 15
    assert {"entered-1", "applied-1", "replied-1", "again and again"} <= set(killed)


def test_wherever_it_is_killed_every_message_is_answered_once_and_in_order(played: dict[str, Told]) -> None:
    right = played["undisturbed"]
    for name, told in played.items():
        assert told.said == "", name
        assert told.problems == [], name
        assert told.turns == ["succeeded"] * len(MESSAGES), name
        assert told.history == right.history, name
        assert told.effects == 1, name
        assert sorted(told.events) == sorted(right.events), name
        ended = [event for event in told.events if event != "session.compacted"]
        assert ended.count("turn.ended") == ended.count("turn.queued") == len(MESSAGES), name
        for types in told.runs:
            for once in ("run.submitted", "run.turn_given", "run.started", "run.succeeded"):
                assert types.count(once) == 1, (name, once)


def test_a_summary_is_asked_for_at_most_twice_and_a_lost_one_is_in_the_record(played: dict[str, Told]) -> None:
    for name, told in played.items():
        asked = sum(types.count("summary.requested") for types in told.runs)
        lost = sum(types.count("summary.failed") for types in told.runs)
        brought = sum(types.count("context.compacted") for types in told.runs)
        assert brought == 2, name
        assert told.requests["summaries"] <= asked <= brought + lost, name
        assert lost <= sum(signal != 0 for signal in told.lives), name
