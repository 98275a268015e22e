"""``trouper demo``: what it claims is counted here once more."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.cli.program import AGENTS, called, complaint, objects, ok, ok_called, one_object, started, trouper


def lines(file: Path) -> list[dict[str, object]]:
    return objects(file.read_text())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A demo that was played: its journal, and the facts that it gave."""
    journal = tmp_path_factory.mktemp("demo") / "demo.db"
    return journal, one_object(ok("demo", "--json", "--journal", journal))


def test_the_demo_survives_three_kills_with_one_effect_and_one_bill(played: tuple[Path, dict[str, object]]) -> None:
    journal, facts = played
    assert facts["ok"] is True
    assert isinstance(kills := facts["kills"], list)
    assert [(kill["signal"], kill["when"]) for kill in kills] == [
        (9, "after the model's answer was journaled"),
        (9, "while an approval was pending"),
        (9, "between an effect and its receipt"),
    ]
    assert len({kill["process"] for kill in kills}) == 3
    # One effect, though two processes asked for it, under one key.
    (ticket,) = lines(journal.parent / "demo.tickets.jsonl")
    asked = lines(journal.parent / "demo.calls.jsonl")
    assert [call["key"] for call in asked] == [ticket["key"]] * 2
    assert asked[0]["process"] == kills[2]["process"] != asked[1]["process"]
    # One bill: each reply of the model was asked for once.
    assert [request["turn"] for request in lines(journal.parent / "demo.bill.jsonl")] == [0, 1, 2]
    assert isinstance(seconds := facts["seconds"], float)
    assert seconds > 0


def test_the_demos_journal_tells_the_story_to_every_other_command(played: tuple[Path, dict[str, object]]) -> None:
    journal, facts = played
    (row,) = objects(ok_called("runs", journal, "--json"))
    assert (row["run"], row["agent"], row["label"]) == (facts["run"], "desk", "succeeded")
    assert one_object(ok_called("verify", journal, "--json"))["root"] == facts["verify"]["root"]  # type: ignore[index]
    assert one_object(ok_called("replay", journal, "--json"))["ok"] is True
    events = one_object(ok_called("show", journal, str(facts["run"]), "--json"))["events"]
    assert isinstance(events, list)
    types = [event["type"] for event in events]
    assert types.count("model.requested") == types.count("model.responded") == 3
    assert types.count("action.started") == 4
    assert [event["data"]["cause"] for event in events if event["type"] == "action.interrupted"] == ["lost", "lost"]
    (decided,) = [event["data"] for event in events if event["type"] == "approval.decided"]
    assert decided["by"]["id"] == "maria"


def test_the_demo_explains_itself_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = trouper("demo", env={"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for said in (
        "a file that is only ever added to",
        "No daemon is running.",
        "$ trouper approve ",
        "approved by maria (asserted, os-user:",
        "asserted: that she is maria is only what was typed",
        "0.0 is a call, by its model answer and its place in that, counted from 0",
        "An epoch is one process's time of driving the journal",
        "begun, no receipt",
        "another process drives the run from here (epoch 4)",
        "true three kills",
        "true one effect",
        "true one bill",
        "true verify self-consistent",
    ):
        assert said in text, said
    assert text.count("kill -9 ") >= 6
    assert text.index("An epoch is") < text.index("(epoch 2)")
    assert done.stdout.splitlines()[-1].strip() == "trouper demo --keep"
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_is_not_true_fails_the_demo(tmp_path: Path) -> None:
    # Somebody else has closed a ticket in the same system: two effects are counted, and one was claimed.
    (tmp_path / "demo.tickets.jsonl").write_text(json.dumps({"ticket": "INC-9", "key": "other"}) + "\n")
    done = trouper("demo", "--journal", tmp_path / "demo.db")
    assert done.returncode == 1
    assert "FALSE  one effect" in done.stdout
    again = called("demo", "--journal", tmp_path / "demo.db")
    assert again.returncode == 4
    assert "exists already" in complaint(again)


def test_keep_keeps_the_journal_and_says_where(tmp_path: Path) -> None:
    done = trouper("demo", "--keep", env={"TMPDIR": str(tmp_path)})
    (folder,) = tmp_path.iterdir()
    command = done.stdout.splitlines()[-1].split()
    assert command[:3] == ["trouper", "show", str(folder / "demo.db")]
    assert "succeeded" in ok(*command[1:])


def test_ctrl_c_ends_the_demo_its_daemon_and_its_folder(tmp_path: Path) -> None:
    journal = tmp_path / "demo.db"
    with started("demo", "--journal", journal) as process:
        process.read_until(process.out, "kill -9")
        process.process.send_signal(signal.SIGINT)
        code, left = process.end()
    assert (code, left) == (130, "")
    # Nobody drives the journal any more: another process can.
    assert trouper("run", f"{AGENTS}:asker", "Hi", "--journal", journal).returncode == 0


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = called("demo", "--journal", tmp_path / "no" / "demo.db")
    assert done.returncode == 5
    assert complaint(done)
