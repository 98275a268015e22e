"""Killed after each commit, and between: the way to an output, and a refusal, end as if nothing had been."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.recovery.crash import of, play_all, said
from tests.recovery.fate import Kill, Point, kills_at
from tests.recovery.lives import Life, Played
from tests.recovery.scenario import Job
from tests.recovery.trees import TreeJob
from tests.recovery.trees import play_all as play_trees

# Before a commit it is as after the last one, but for what these others stand for.
POINTS: Mapping[Point, int] = {"after": 1, "replied": 1, "entered": 1, "applied": 1}


def killed_everywhere(play: str, folder: Path) -> tuple[Played, list[Played]]:
    """A run that nobody kills, and one for each point that it came to."""
    (dry,) = play_all([Job(f"{play}-dry", play=play, seed=7)], folder / "dry")
    kills = kills_at(dry.lives[0].passed, POINTS)
    jobs = [Job(f"{play}-{kill.point}-{kill.nth}", play=play, kills=(kill,), seed=7) for kill in kills]
    return dry, play_all(jobs, folder / "killed")


def check(played: Played, dry: Played) -> Life:
    """What holds of each: its last life."""
    last = played.lives[-1]
    assert last.after.verified, said(played)
    assert last.after.difference == "", said(played)
    assert last.after.unanswered == [], said(played)
    # Every message is the same, to the byte, and the model was never asked for one that was there.
    assert last.after.chain == dry.end.chain, said(played)
    assert last.after.answers == dry.end.answers
    assert (last.said, last.after.output) == (dry.lives[-1].said, dry.end.output)
    assert all(entry["violations"] == [] for entry in last.after.requests)
    assert len({entry["body"] for entry in last.after.requests}) == len(
        {entry["index"] for entry in last.after.requests}
    )
    return last


def test_the_way_to_an_output_is_the_same_after_a_kill_at_each_step(tmp_path: Path) -> None:
    dry, all_played = killed_everywhere("output_with_calls", tmp_path)
    assert dry.end.output == json.dumps({"n": 1}, separators=(",", ":"))
    for played in [dry, *all_played]:
        last = check(played, dry)
        assert last.said == "succeeded", said(played)
        assert [entry["index"] for entry in of(last, "OutputRejected")] == [0, 1, 2]
        assert [(entry["index"], entry["action"]) for entry in of(last, "OutputAccepted")] == [(3, "3.0")]
        # One receipt for each call, and each effect under one key.
        receipts = Counter(str(entry["action"]) for entry in of(last, "ActionReceipted"))
        assert receipts == Counter(["1.0", "1.1", "3.0", "3.1", "3.2"]), said(played)
        assert {str(line["key"]).rpartition("/")[2] for line in last.after.effects} == {"1.0", "3.1"}
        ends = of(last, "OutputAccepted", "ActionReceipted", "RunSucceeded")
        # The end was held back until a person had decided and the call was over.
        assert [entry["type"] for entry in ends].index("OutputAccepted") > ends.index(
            of(last, "ActionReceipted", action="3.1")[0]
        )
    assert sum(life.signal != 0 for played in all_played for life in played.lives) == len(all_played)


def test_a_refusal_stays_one_and_begins_nothing(tmp_path: Path) -> None:
    dry, all_played = killed_everywhere("refusal_with_calls", tmp_path)
    for played in [dry, *all_played]:
        last = check(played, dry)
        assert last.said == "failed", said(played)
        assert last.after.effects == []
        assert of(last, "ActionStarted") == []
        assert len(of(last, "ActionReceipted")) == 2
        assert {entry["index"] for entry in last.after.requests} == {0}


def test_outputs_of_a_tree_of_agents_are_the_same_after_a_kill_at_each_commit(tmp_path: Path) -> None:
    (first,) = play_trees([TreeJob("first", outputs=True)], tmp_path)
    (tmp_path / "kills").mkdir()
    kills = [
        TreeJob(f"kill-{nth}", outputs=True, kills=(Kill("before", nth),))
        for nth in range(1, first.lives[0].passed["after"] + 1)
    ]
    for each in [first, *play_trees(kills, tmp_path / "kills")]:
        tree = each.end
        assert tree.verified, tree
        assert {name: run.label for name, run in tree.runs.items()} == dict.fromkeys(["", "2.0", "2.1"], "succeeded"), (
            tree
        )
        for name, run in tree.runs.items():
            assert (run.difference, run.unanswered, run.twice) == ("", [], []), (name, tree)
            assert run.events["OutputAccepted"] == 1, (name, tree)
            assert run.events["OutputRejected"] == (1 if name else 2), (name, tree)
            assert run.answers == first.end.runs[name].answers
        assert tree.runs[""].answers[1:] == ['{"n":1}', '{"n":1}', "Accepted."], tree
        assert sorted(set(tree.effects)) == [("add", "2.0/1.1"), ("add", "2.1/1.1")], tree
        assert tree.position - each.lives[-2].after.position == 1
