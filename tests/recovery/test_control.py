"""Steered, paused, asleep, cut off and resumed, and killed at every commit of all that."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

import pytest
from tests.recovery.control import ControlJob, Ending, Played, play_all
from tests.recovery.fate import Kill

WORDS = [("human", "one"), ("human", "two")]


def check(played: Played) -> None:
    """What holds whatever died where."""
    told = played.end
    assert told.wrong == [], played
    # That a driver has taken the journal, and nothing else.
    assert told.position - played.lives[-2].after.position == 1, played
    assert told.events["RunStarted"] == 1, played
    # Each word is in the stream once, however often it was said.
    assert told.events["RunSignalled"] == 2, played
    assert set(told.effects) <= {"0.0", "1.0"}, played
    # Set anew where the process died before its being set was durable; fired once at most.
    assert told.events["TimerSet"] == 1, played
    spoken = [said for said in told.messages if said in WORDS]
    if played.job.ending == "cancelled":
        assert told.label == "cancelled", played
        assert told.events.get("TimerFired", 0) == told.events.get("RunHeard", 0) == 0, played
        assert spoken == [], played
        assert told.messages[-1] == ("tool", "The wait was cut short: the run was cancelled by maria: enough."), played
        return
    assert told.label == "succeeded", played
    # Heard once, in order, behind the results of both calls and before anything else.
    assert spoken == WORDS, played
    place = told.messages.index(WORDS[0])
    roles = [role for role, _ in told.messages]
    assert roles[:place] == ["human", "ai", "tool", "tool"], played
    assert roles[place:] == ["human", "human", "ai", "tool", "ai"], played
    assert set(told.effects) == {"0.0", "1.0"}, played
    waited = told.messages[place - 1][1]
    if played.job.ending == "extended":
        assert waited == "The wait was cut short: the run's deadline passed.", played
        assert told.events["DeadlinePassed"] == told.events["RunFailed"] == told.events["DeadlineExtended"] == 1, played
    else:
        assert waited == "It is now 2026-01-05T00:00:00Z.", played
        assert told.events["TimerFired"] == told.events["PauseRequested"] == told.events["ResumeRequested"] == 1, played


@pytest.mark.parametrize("ending", ["resumed", "cancelled", "extended"])
def test_killed_at_every_commit_it_comes_to_the_same(ending: Ending, tmp_path: Path) -> None:
    (first,) = play_all([ControlJob("first", ending)], tmp_path / "first")
    check(first)
    commits = first.lives[0].passed["after"]
    assert commits > 10
    jobs = []
    for nth in range(1, commits + 1):
        # Every third time another death soon after.
        kills = (Kill("after", nth), Kill("after", 2 + nth % 4)) if nth % 3 == 0 else (Kill("before", nth),)
        jobs.append(ControlJob(f"killed-{nth}", ending, kills))
    played = play_all(jobs, tmp_path / "kills")
    for each in played:
        check(each)
    # What is asked and done at the same moment may share a commit: then there is one less to die at.
    assert [each.lives[0].signal for each in played[:-2]] == [SIGKILL] * (len(played) - 2)
