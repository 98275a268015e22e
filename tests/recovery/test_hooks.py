"""Killed at commits, between each hook and its record, and in attempts: what is on record is not asked for again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from tests.recovery.crash import check_intents, of, play_all, said
from tests.recovery.fate import Ledger, Point, kills_at
from tests.recovery.lifetimes import place_of
from tests.recovery.lives import Played
from tests.recovery.scenario import Job

from trouper.core.events import REGISTRY, ActionPlanned, ModelRequested
from trouper.core.hooking import shown
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper_journal import Journal

CALLED = {
    ("before_model", "0"),
    ("after_model", "0"),
    ("before_tool", "0.0"),
    ("before_tool", "0.1"),
    ("after_tool", "0.0"),
    ("before_model", "1"),
    ("on_error", "1"),
    ("after_model", "1"),
    ("before_tool", "1.0"),
    ("after_tool", "1.0"),
    ("before_model", "2"),
    ("after_model", "2"),
}


async def _stored(path: Path) -> tuple[RunState, list[object]]:
    async with Journal.open(path, registry=REGISTRY) as journal:
        (head,) = [head async for head in journal.streams(prefix="run/")]
        events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
    state, difference = check(head.stream.removeprefix("run/"), events)
    assert difference is None
    return state, events


def check_hooked(played: Played, directory: Path) -> None:
    """What holds whatever died where."""
    try:
        _check(played, place_of(directory, played.job))
    except AssertionError as error:
        pytest.fail(f"{error}\n{said(played)}", pytrace=True)


def _check(played: Played, place: Path) -> None:
    last = played.lives[-1]
    assert (last.said, last.after.output, last.after.unanswered) == ("succeeded", "done", [])
    for life in played.lives:
        assert life.after.verified
        assert life.after.difference == ""
        assert all(entry["violations"] == [] for entry in life.after.requests)
        check_intents(life)
    check_calls(played, Ledger(place / "hooks"))
    # What was written is there once, in order, however many lives it took; and each call saw what was there before.
    state, events = trio.run(_stored, place / "journal.db")
    assert state.named == {"notes": [10, 3], "seen": [0, 1, 2]}
    done = {(str(line["key"]).rpartition("/")[2], line["n"], str(line["before"])) for line in last.after.effects}
    assert done == {("0.0", 10, "[]"), ("1.0", 3, "[10]")}
    assert last.after.answers == [
        '[the arguments were changed by a rule; what ran: {"n":10}]\nadded 10!',
        "not now",
        "added 3!",
    ]
    planned = {event.action: (event.gate, event.asked) for event in events if isinstance(event, ActionPlanned)}
    assert planned == {"0.0": ("free", {"n": 1}), "0.1": ("hook", None), "1.0": ("free", None)}
    models = [event.model for event in events if isinstance(event, ModelRequested) and event.index == 1]
    assert models[-1] == "second"
    assert set(models[:-1]) <= {"", "second"}
    words = [message.content for message in shown(state.messages, state.hooks.ops) if "/hook/" in message.id]
    assert words == ["word 2", "***", "word 0"]
    # One request for each model call but those that were lost, always of the same words.
    bodies: dict[object, set[object]] = {}
    for entry in last.after.requests:
        bodies.setdefault(entry["index"], set()).add(entry["body"])
    assert {index: len(found) for index, found in bodies.items()} == {0: 1, 1: 1, 2: 1}


def check_calls(played: Played, ledger: Ledger) -> None:
    """Every hook was called for everything, once on record; and never again from then on."""
    lines = [(line["life"], *_thing(line)) for line in ledger.lines()]
    assert {(point, subject) for _, point, subject in lines} == CALLED
    deaths = played.deaths
    assert max(Counter((point, subject) for _, point, subject in lines).values()) <= 1 + deaths
    for number, life in enumerate(played.lives):
        for entry in of(life, "HookApplied"):
            later = [line for line in lines if int(str(line[0])) > number]
            assert _thing(entry) not in {line[1:] for line in later}
    applied = Counter(_thing(entry) for entry in of(played.lives[-1], "HookApplied"))
    assert applied == dict.fromkeys(CALLED, 1)


def _thing(entry: Mapping[str, object]) -> tuple[str, str]:
    """What hooks were called for; which attempt it is that failed depends on how many were lost before."""
    point, subject = str(entry["point"]), str(entry["subject"])
    return point, subject.partition(".")[0] if point == "on_error" else subject


def test_hooks_and_state_survive_a_kill_anywhere(tmp_path: Path) -> None:
    (whole,) = play_all([Job("whole", play="hooked")], tmp_path / "whole")
    check_hooked(whole, tmp_path / "whole")
    passed = whole.lives[0].passed
    assert passed["hooked"] == len(CALLED)
    # Before a commit is after the one before it, but for what happened in between: some of those will do.
    points: dict[Point, int] = {"hooked": 1, "after": 2, "before": 8, "replied": 1, "entered": 1, "applied": 1}
    # The commit that names the driver comes before the run.
    kills = kills_at(passed, points, first_commit=2)
    jobs = [Job(f"{kill.point}-{kill.nth}", kills=(kill,), play="hooked") for kill in kills]
    for played in play_all(jobs, tmp_path / "kills"):
        assert played.lives[0].signal, played.job
        check_hooked(played, tmp_path / "kills")
