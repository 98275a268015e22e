"""Plays runs of one agent, and says what must hold of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.recovery import lifetimes
from tests.recovery.lives import SCENARIO, Entry, Life, Played, settles
from tests.recovery.scenario import Job, Kind


def play_all(jobs: Sequence[Job], directory: Path) -> list[Played]:
    """Play jobs; results in the order of the jobs."""
    return lifetimes.play_all(SCENARIO, jobs, directory)


def said(played: Played) -> str:
    """How a job went, for a failing test."""
    lines = [f"{played.job}"]
    for number, life in enumerate(played.lives):
        lines.append(f"life {number}: signal {life.signal}, {life.said}")
        lines += [f"    {entry}" for entry in life.after.events]
        lines += [f"    effect {entry}" for entry in life.after.effects] + [
            f"    request {entry}" for entry in life.after.requests
        ]
    return os.linesep.join(lines)


def of(life: Life, *types: str, **fields: object) -> list[Entry]:
    """Events of these types with these fields."""
    return [
        entry
        for entry in life.after.events
        if entry["type"] in types and all(entry.get(name) == value for name, value in fields.items())
    ]


def check_played(played: Played) -> None:
    """What holds whatever died where."""
    try:
        _check(played)
    except AssertionError as error:
        pytest.fail(f"{error}\n{said(played)}", pytrace=True)


def _check(played: Played) -> None:
    last = played.lives[-1]
    planned_deaths = sum(kill is not None for kill in played.job.kills)
    assert played.deaths <= planned_deaths
    assert last.said == last.after.label == "succeeded"
    assert last.after.output == "done"
    for life in played.lives:
        assert life.after.verified
        assert life.after.difference == ""
        assert all(entry["violations"] == [] for entry in life.after.requests)
        check_intents(life)
        check_replies(life)
    assert last.after.unanswered == []
    check_effects(played)
    check_doubts(played)
    check_encore(played)


def check_intents(life: Life) -> None:
    """No effect without its start in the journal, for each attempt."""
    started = {(entry["action"], entry["attempt"]) for entry in of(life, "ActionStarted")}
    for line in life.after.effects:
        run, _, action = str(line["key"]).rpartition("/")
        assert run == life.after.run
        assert (action, line["attempt"]) in started


def check_replies(life: Life) -> None:
    """A journaled reply is not asked for again, and a request asked for again is journaled as lost."""
    sent = Counter(entry["index"] for entry in life.after.requests)
    for index, times in sent.items():
        intents = of(life, "ModelRequested", index=index)
        lost = of(life, "ModelLost", index=index)
        assert times <= len(intents)
        assert len(lost) >= times - 1
        assert len(of(life, "ModelResponded", index=index)) <= 1
        assert [entry["attempt"] for entry in intents] == list(range(1, len(intents) + 1))
        # Each attempt but the last is accounted for.
        assert len(lost) >= len(intents) - 1
        assert len({entry["body"] for entry in life.after.requests if entry["index"] == index}) == 1


def check_effects(played: Played) -> None:
    """The recovery table, counted outside."""
    last = played.lives[-1]
    done = Counter(str(line["key"]) for line in last.after.effects)
    names = {
        f"{last.after.run}/{turn}.{place}": name
        for turn, batch in enumerate(played.job.turns)
        for place, name in enumerate(batch)
    }
    assert set(done) == set(names), "each call has one effect key of its own"
    for key, name in names.items():
        action = key.rpartition("/")[2]
        if Kind.of(name).effect in {"queryable_write", "unqueryable_write"}:
            assert done[key] == 1
        assert len(of(last, "ActionReceipted", action=action)) == 1
        assert done[key] <= len(of(last, "ActionStarted", action=action))


def check_doubts(played: Played) -> None:
    """Only a write that can be neither repeated nor asked ends in doubt, always, and stays there until settled."""
    for number, (before, life) in enumerate(pairwise(played.lives), 1):
        open_before = open_unqueryable(before, played)
        settled = settles(tuple(each.said for each in played.lives[:number]))
        if before.signal and not life.signal and not settled and open_before:
            assert life.said == "in_doubt"
            assert {entry["action"] for entry in of(life, "ActionUnresolved")} >= open_before
        if before.said == life.said == "in_doubt":
            assert before.after == life.after
    check_attempts(played)
    doubted = {entry["action"] for entry in of(played.lives[-1], "ActionUnresolved")}
    assert {effect_of(played, action) for action in doubted} <= {"unqueryable_write"}


def check_attempts(played: Played) -> None:
    """The order of each call's events: no other attempt at an unqueryable write unless a person said so."""
    by_action: dict[object, list[Entry]] = {}
    for entry in of(played.lives[-1], "ActionStarted", "ActionReceipted", "ActionUnresolved", "ActionResolved"):
        by_action.setdefault(entry["action"], []).append(entry)
    for action, entries in by_action.items():
        assert [entry["attempt"] for entry in entries if entry["type"] == "ActionStarted"] == list(
            range(1, sum(entry["type"] == "ActionStarted" for entry in entries) + 1)
        )
        if effect_of(played, action) != "unqueryable_write":
            continue
        for before, entry in pairwise(entries):
            if entry["type"] == "ActionStarted":
                assert before["type"] == "ActionResolved"
                assert before["verdict"] == "run_again"


def open_unqueryable(life: Life, played: Played) -> set[object]:
    """Unqueryable writes that were started and have no outcome."""
    state: dict[object, str] = {}
    for entry in of(life, "ActionStarted", "ActionReceipted", "ActionResolved", "ActionUnresolved"):
        state[entry["action"]] = str(entry["type"])
    still = {action for action, last in state.items() if last == "ActionStarted"}
    return {action for action in still if effect_of(played, action) == "unqueryable_write"}


def effect_of(played: Played, action: object) -> str:
    """Effect class of the tool that an action calls."""
    turn, place = map(int, str(action).split("."))
    return Kind.of(played.job.turns[turn][place]).effect


def check_encore(played: Played) -> None:
    """The same command after the end: the same run, and not one event, request or effect more."""
    before, encore = played.lives[-2:]
    assert before.said == encore.said
    assert before.after == encore.after
