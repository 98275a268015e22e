"""``trouper demo``: what it claims is counted here once more."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.cli.program import AGENTS, complaint, objects, ok, one_object, started, trouper


def lines(file: Path) -> list[dict[str, object]]:
    return objects(file.read_text())


def test_the_demo_survives_three_kills_with_one_effect_and_one_bill(tmp_path: Path) -> None:
    journal = tmp_path / "demo.db"
    facts = one_object(ok("demo", "--json", "--journal", journal))
    assert facts["ok"] is True
    assert isinstance(kills := facts["kills"], list)
    assert [(kill["signal"], kill["when"]) for kill in kills] == [
        (9, "after the model's answer was journaled"),
        (9, "while an approval was pending"),
        (9, "between an effect and its receipt"),
    ]
    assert len({kill["process"] for kill in kills}) == 3
    # One effect, though two processes asked for it, under one key.
    (ticket,) = lines(tmp_path / "demo.tickets.jsonl")
    asked = lines(tmp_path / "demo.calls.jsonl")
    assert [call["key"] for call in asked] == [ticket["key"]] * 2
    assert asked[0]["process"] == kills[2]["process"] != asked[1]["process"]
    # One bill: each reply of the model was asked for once.
    assert [request["turn"] for request in lines(tmp_path / "demo.bill.jsonl")] == [0, 1, 2]
    assert isinstance(seconds := facts["seconds"], float)
    assert seconds > 0


def test_the_demos_journal_tells_the_story_to_every_other_command(tmp_path: Path) -> None:
    journal = tmp_path / "demo.db"
    facts = one_object(ok("demo", "--json", "--journal", journal))
    (row,) = objects(ok("runs", journal, "--json"))
    assert (row["run"], row["agent"], row["label"]) == (facts["run"], "desk", "succeeded")
    assert one_object(ok("verify", journal, "--json"))["root"] == facts["verify"]["root"]  # type: ignore[index]
    assert one_object(ok("replay", journal, "--json"))["ok"] is True
    events = one_object(ok("show", journal, str(facts["run"]), "--json"))["events"]
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
        "begun, no receipt",
        "another process drives the run from here (epoch 4)",
        "true three kills",
        "true one effect",
        "true one bill",
        "true verify self-consistent",
    ):
        assert said in text, said
    assert text.count("kill -9 ") >= 6
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_is_not_true_fails_the_demo(tmp_path: Path) -> None:
    # Somebody else has closed a ticket in the same system: two effects are counted, and one was claimed.
    (tmp_path / "demo.tickets.jsonl").write_text(json.dumps({"ticket": "INC-9", "key": "other"}) + "\n")
    done = trouper("demo", "--journal", tmp_path / "demo.db")
    assert done.returncode == 1
    assert "FALSE  one effect" in done.stdout
    facts = trouper("demo", "--journal", tmp_path / "demo.db")
    assert facts.returncode == 4
    assert "exists already" in complaint(facts)


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
    done = trouper("demo", "--journal", tmp_path / "no" / "demo.db")
    assert done.returncode == 5
    assert complaint(done)
