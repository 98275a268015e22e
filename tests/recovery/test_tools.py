"""Killed at every commit, and in every attempt: what was chosen, permitted and told stays as it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio
from tests.recovery.crash import check_intents, of, play_all, said
from tests.recovery.fate import Point, kills_at
from tests.recovery.guarded import PIXEL
from tests.recovery.lifetimes import place_of
from tests.recovery.lives import Life, Played
from tests.recovery.scenario import Job

from trouper import Image
from trouper.core.conversation import ToolMessage
from trouper.core.events import REGISTRY, ActionReceipted, ToolsBound
from trouper.core.replay import check
from trouper_journal import Journal

TOLD = [
    "gathered \n[cut: 18 of 27 characters are not shown]",
    "Not started: this run lacks the permission export, which export takes.",
]


async def _stored(path: Path) -> tuple[list[object], str]:
    async with Journal.open(path, registry=REGISTRY) as journal:
        (head,) = [head async for head in journal.streams(prefix="run/")]
        return [journal.registry.decode(record) async for record in journal.read(head.stream)], head.stream


def check_guarded(played: Played, directory: Path) -> None:
    """What holds whatever died where."""
    try:
        _check(played, place_of(directory, played.job) / "journal.db")
    except AssertionError as error:
        pytest.fail(f"{error}\n{said(played)}", pytrace=True)


def _check(played: Played, path: Path) -> None:
    last = played.lives[-1]
    assert (last.said, last.after.output, last.after.unanswered) == ("succeeded", "done", [])
    for life in played.lives:
        assert life.after.verified
        assert life.after.difference == ""
        assert all(entry["violations"] == [] for entry in life.after.requests)
        check_intents(life)
    check_requests(last)
    # One verdict for each call that ran, however many attempts and lives it took; none for the denied one.
    assert Counter(str(entry["action"]) for entry in of(last, "ActionAuthorized")) == {"0.0": 1, "1.0": 1}
    assert [entry["action"] for entry in of(last, "ActionDenied")] == ["0.1"]
    assert of(last, "ActionStarted", action="0.1") == []
    done = Counter((str(line["key"]).rpartition("/")[2], line["attempt"]) for line in last.after.effects)
    assert max(done.values()) == 1, "an attempt is made once"
    events, stream = trio.run(_stored, path)
    state, difference = check(stream.removeprefix("run/"), events)
    assert difference is None
    tools = [message.content for message in state.messages if isinstance(message, ToolMessage)]
    assert tools == [
        *TOLD,
        (
            {"type": "text", "text": "gathered \n[cut: 3 of 12 characters are not shown]"},
            Image(PIXEL).part(),
        ),
        "done",
    ]
    assert state.tools.source == "2.0"
    receipts = {event.action: event for event in events if isinstance(event, ActionReceipted)}
    assert receipts["0.0"].artifact == {"n": 1, "raw": b"\x00" * 40_000}
    assert receipts["0.0"].value == "gathered all that there was"
    bound = [event for event in events if isinstance(event, ToolsBound)]
    assert [(event.index, event.tools) for event in bound] == [
        (0, ("gather", "export")),
        (1, ("gather",)),
        (2, ("finish",)),
    ]


def check_requests(last: Life) -> None:
    """The same request for every attempt at a model call: the same words and the same tools."""
    bodies: dict[object, set[object]] = {}
    for entry in last.after.requests:
        bodies.setdefault(entry["index"], set()).add(entry["body"])
    assert {index: len(found) for index, found in bodies.items()} == {-1: 1, 0: 1, 1: 1, 2: 1}


def test_what_tools_are_allowed_told_and_keep_survives_a_kill_anywhere(tmp_path: Path) -> None:
    (whole,) = play_all([Job("whole", play="guarded")], tmp_path / "whole")
    check_guarded(whole, tmp_path / "whole")
    passed = whole.lives[0].passed
    assert passed["entered"] == 4
    # Before a commit is after the one before it, but for what happened in between: some of those will do.
    points: dict[Point, int] = {"after": 1, "before": 3, "replied": 1, "entered": 1, "applied": 1}
    # The commit that names the driver comes before the run.
    kills = kills_at(passed, points, first_commit=2)
    jobs = [Job(f"{kill.point}-{kill.nth}", kills=(kill,), play="guarded") for kill in kills]
    for played in play_all(jobs, tmp_path / "kills"):
        assert played.lives[0].signal, played.job
        check_guarded(played, tmp_path / "kills")
