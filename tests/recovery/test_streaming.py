"""A listener whose process is killed anywhere hears everything that is recorded once, and which attempts are void."""

from __future__ import annotations

from pathlib import Path

from tests.recovery.fate import Kill, kills_at
from tests.recovery.lifetimes import play_all
from tests.recovery.listening import SCENARIO, Line, Played
from tests.recovery.scenario import Job

TURNS = (("idempotent_write-async", "queryable_write-async-gated"), ("idempotent_write-sync-gated",))


def check(played: Played) -> None:
    """What holds whatever died where."""
    told = played.end
    assert played.lives[-1].said == "heard", played
    assert told.problems == [], played
    recorded = [line for line in told.lines if line["what"] == "recorded"]
    # Every version once and in order, over all lives.
    assert [line["version"] for line in recorded] == list(range(1, len(told.stored) + 1)), played
    assert [line["type"] for line in recorded] == told.stored, played
    # Every message once and whole.
    ids = [each for line in recorded for each in ids_of(line)]
    assert ids == told.messages, played
    # Each attempt that was lost is void, once, and no other.
    void = [(line["index"], line["attempt"]) for line in told.lines if line["what"] == "superseded"]
    assert void == told.lost, played
    check_pieces(told.lines, played)
    ends = [line["status"] for line in told.lines if line["what"] == "ended"]
    assert set(ends) == {"succeeded"}, played
    assert [line for line in told.lines if line["what"] == "other"] == [], played


def ids_of(line: Line) -> list[object]:
    ids = line["ids"]
    assert isinstance(ids, list)
    return ids


def check_pieces(lines: list[Line], played: Played) -> None:
    """Pieces are of the attempt that was requested last, in the same life, and has no outcome yet."""
    under_way: object = None
    for line in lines:
        attempt = (line["life"], line.get("index"), line.get("attempt"))
        if line["what"] == "piece":
            assert attempt == under_way, (line, played)
        elif line.get("type") == "ModelRequested":
            under_way = attempt
        elif line["what"] == "superseded" or line.get("type") == "ModelResponded":
            under_way = None


def test_who_comes_back_after_a_kill_hears_every_version_once(tmp_path: Path) -> None:
    (whole,) = play_all(SCENARIO, [Job("whole", TURNS)], tmp_path / "whole")
    check(whole)
    assert whole.end.lost == []
    assert [line for line in whole.end.lines if line["what"] == "piece"] != []
    passed = whole.lives[0].passed
    kills = kills_at(passed, {"after": 1, "before": 3, "replied": 1, "entered": 1, "applied": 1}, first_commit=2)
    jobs = [Job(f"{kill.point}-{kill.nth}", TURNS, (kill,)) for kill in kills]
    # The same request, lost twice; and lives that get on by two commits each.
    jobs.append(Job("lost-twice", TURNS, (Kill("replied", 2), Kill("replied", 1))))
    jobs.append(Job("relay", TURNS, (Kill("after", 3),) * 12))
    played = {each.job.name: each for each in play_all(SCENARIO, jobs, tmp_path / "killed")}
    for each in played.values():
        check(each)
    for nth in range(1, passed["replied"] + 1):
        assert played[f"replied-{nth}"].end.lost == [(nth - 1, 1)]
    assert played["lost-twice"].end.lost == [(1, 1), (1, 2)]
    assert played["relay"].deaths > 3
