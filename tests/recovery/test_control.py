"""Steered, paused, asleep, cut off and resumed, and killed at every commit of all that."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recovery.control import ControlJob, Ending, Told, play_all
from tests.recovery.scenario import Kill

WORDS = [("human", "one"), ("human", "two")]


def check(told: Told) -> None:
    """What holds whatever died where."""
    assert told.wrong == [], told
    # That a driver has taken the journal, and nothing else.
    assert told.more == 1, told
    assert told.events["RunStarted"] == 1, told
    # Each word is in the stream once, however often it was said.
    assert told.events["RunSignalled"] == 2, told
    assert set(told.effects) <= {"0.0", "1.0"}, told
    # Set anew where the process died before its being set was durable; fired once at most.
    assert told.events["TimerSet"] == 1, told
    spoken = [said for said in told.messages if said in WORDS]
    if told.job.ending == "cancelled":
        assert told.label == "cancelled", told
        assert told.events.get("TimerFired", 0) == told.events.get("RunHeard", 0) == 0, told
        assert spoken == [], told
        assert told.messages[-1] == ("tool", "The wait was cut short: the run was cancelled by maria: enough."), told
        return
    assert told.label == "succeeded", told
    # Heard once, in order, behind the results of both calls and before anything else.
    assert spoken == WORDS, told
    place = told.messages.index(WORDS[0])
    roles = [role for role, _ in told.messages]
    assert roles[:place] == ["human", "ai", "tool", "tool"], told
    assert roles[place:] == ["human", "human", "ai", "tool", "ai"], told
    assert set(told.effects) == {"0.0", "1.0"}, told
    waited = told.messages[place - 1][1]
    if told.job.ending == "extended":
        assert waited == "The wait was cut short: the run's deadline passed.", told
        assert told.events["DeadlinePassed"] == told.events["RunFailed"] == told.events["DeadlineExtended"] == 1, told
    else:
        assert waited == "It is now 2026-01-05T00:00:00Z.", told
        assert told.events["TimerFired"] == told.events["PauseRequested"] == told.events["ResumeRequested"] == 1, told


@pytest.mark.parametrize("ending", ["resumed", "cancelled", "extended"])
def test_killed_at_every_commit_it_comes_to_the_same(ending: Ending, tmp_path: Path) -> None:
    (first,) = play_all([ControlJob("first", ending)], tmp_path / "first")
    check(first)
    assert first.commits > 10
    jobs = []
    for nth in range(1, first.commits + 1):
        # Every third time another death soon after.
        kills = (Kill("after", nth), Kill("after", 2 + nth % 4)) if nth % 3 == 0 else (Kill("before", nth),)
        jobs.append(ControlJob(f"killed-{nth}", ending, kills))
    played = play_all(jobs, tmp_path / "kills")
    for told in played:
        check(told)
    # What is asked and done at the same moment may share a commit: then there is one less to die at.
    assert [told.lives[0] for told in played[:-2]] == ["signal 9"] * (len(played) - 2)
