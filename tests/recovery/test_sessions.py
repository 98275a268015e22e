"""A session whose process is killed anywhere: no message is lost or answered twice, and nothing is stuck."""

from __future__ import annotations

import pytest
from tests.recovery.fate import Kill, kills_at
from tests.recovery.lifetimes import play_all
from tests.recovery.scenario import Job
from tests.recovery.session_lives import MESSAGES, SCENARIO, Played


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    directory = tmp_path_factory.mktemp("sessions")
    (undisturbed,) = play_all(SCENARIO, [Job("undisturbed")], directory / "undisturbed")
    passed = undisturbed.lives[0].passed
    kills = kills_at(passed, {"after": 1}) + kills_at(passed, {"before": 4}, first_commit=2)
    kills += kills_at(passed, {"replied": 1, "entered": 1, "applied": 1})
    jobs = [Job(f"{kill.point}-{kill.nth}", kills=(kill,)) for kill in kills]
    jobs.append(Job("again and again", kills=tuple(Kill("after", nth) for nth in (3, 5, 4, 3, 6))))
    return {each.job.name: each for each in [undisturbed, *play_all(SCENARIO, jobs, directory / "killed")]}


def test_undisturbed_the_turns_follow_one_another(played: dict[str, Played]) -> None:
    told = played["undisturbed"].end
    assert told.turns == ["succeeded"] * 4
    assert told.requests == {"asked": 5, "summaries": 2}


def test_it_was_killed_at_every_commit(played: dict[str, Played]) -> None:
    killed = [name for name, told in played.items() if told.deaths]
    assert len([name for name in killed if name.startswith("after-")]) >= 15
    assert {"entered-1", "applied-1", "replied-1", "again and again"} <= set(killed)


def test_wherever_it_is_killed_every_message_is_answered_once_and_in_order(played: dict[str, Played]) -> None:
    right = played["undisturbed"].end
    for name, each in played.items():
        told = each.end
        assert each.lives[-1].said == "answered", each
        # Sent once more when all is answered, nothing of it is new.
        assert told == each.lives[-2].after, name
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


def test_a_summary_is_asked_for_at_most_twice_and_a_lost_one_is_in_the_record(played: dict[str, Played]) -> None:
    for name, each in played.items():
        told = each.end
        asked = sum(types.count("summary.requested") for types in told.runs)
        lost = sum(types.count("summary.failed") for types in told.runs)
        brought = sum(types.count("context.compacted") for types in told.runs)
        assert brought == 2, name
        assert told.requests["summaries"] <= asked <= brought + lost, name
        assert lost <= each.deaths, name
