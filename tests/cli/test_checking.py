"""``verify`` and ``replay``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.audit.tampering import forged
from tests.cli.conftest import Journals
from tests.cli.program import ROOT, called, complaint, objects, ok, ok_called, one_object, trouper


def test_verify_prints_the_grade_and_what_was_checked(tmp_path: Path, journals: Journals) -> None:
    journals.ended(journal := tmp_path / "j.db")
    found = one_object(ok_called("verify", journal, "--json"))
    assert (found["ok"], found["grade"], found["problems"]) == (True, "self-consistent", [])
    first, _, last = ok("verify", journal).splitlines()
    assert first == f"self-consistent: {found['records']} records, {found['streams']} streams"
    assert str(found["root"]) in last


def test_verify_finds_tampering_and_exits_with_1(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "golden" / "journal-1-tampered.db", journal := tmp_path / "j.db")
    done = trouper("verify", journal)
    assert done.returncode == 1
    assert "position 3, stream ticket/1: the stored bytes do not have the recorded digest (leaf)" in done.stdout
    assert "inconsistent: 11 records" in done.stdout
    found = one_object(called("verify", journal, "--json").stdout)
    assert (found["ok"], found["grade"]) == (False, "inconsistent")
    assert isinstance(problems := found["problems"], list)
    assert {"position": 3, "stream": "ticket/1", "kind": "leaf"}.items() <= problems[0].items()


def test_verify_needs_no_knowledge_of_the_events_and_neither_does_tail(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "golden" / "journal-1.db", journal := tmp_path / "j.db")
    assert "self-consistent" in ok_called("verify", journal)
    lines = ok_called("tail", journal, "--no-follow", "--after", "0").splitlines()
    assert len(lines) == 11
    assert "golden.opened (schema 1, unknown to this release)" in lines[0]
    assert objects(ok_called("tail", journal, "--no-follow", "--after", "0", "--json"))[0]["data"] is None
    assert ok_called("runs", journal) == "no runs yet\n"


def test_replay_takes_the_recorded_steps_again(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "j.db")
    found = one_object(ok("replay", journal, "--json"))
    assert (found["run"], found["ok"], found["problem"]) == (run, True, None)
    expected = f"1 run with {found['records']} events replayed: the rules take the recorded steps\n"
    assert ok_called("replay", journal, run[:20]) == ok_called("replay", journal) == expected
    assert called("replay", journal, "ZZZ").returncode == 3


def test_replay_finds_a_step_that_the_rules_would_not_take(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "j.db")
    # The run never says that it succeeded: its last step stands under another name, in the middle.
    assert forged(journal, "UPDATE events SET type = 'run.succeeded', facts = x'80' WHERE type = 'action.started'")
    done = called("replay", journal)
    assert done.returncode == 1
    assert f"run {run}: version" in done.stdout
    first, *sides, last = done.stdout.splitlines()
    assert "is RunSucceeded, where the rules name StartAction" in first
    assert [side.split()[0] for side in sides] == ["position", "recorded", "the", "the"]
    assert sides[1].split(maxsplit=1)[1] == 'run.succeeded {"source": null}'
    assert "StartAction {" in sides[2]
    assert "the run   running, 2 steps taken; call 0.0 lookup planned" in sides[3]
    assert last.endswith(": 1 differs")
    found = one_object(called("replay", journal, "--json").stdout)
    assert found["ok"] is False
    assert isinstance(found["version"], int)


def test_replay_says_which_run_it_cannot_fold(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "j.db")
    assert forged(journal, "UPDATE events SET schema = 99 WHERE type = 'model.responded'")
    done = called("replay", journal)
    assert done.returncode == 1
    assert f"run {run}: position" in done.stdout
    assert "schema 99 is newer than 1" in done.stdout
    # It can still be listed, as far as this release knows.
    assert "model.responded (schema 99, unknown to this release)" in ok_called("show", journal, run)
    assert len(ok_called("runs", journal).splitlines()) == 2
    refused = called("cancel", journal, run)
    assert refused.returncode == 5
    assert "use the release that wrote it" in complaint(refused)


@pytest.mark.parametrize("command", ["verify", "replay", "runs", "approvals", "tail"])
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path, command: str) -> None:
    (note := tmp_path / "note.txt").write_text("Dear auditor")
    (empty := tmp_path / "empty.db").touch()
    for path in (note, empty, tmp_path):
        done = called(command, path)
        assert (done.returncode, done.stdout) == (5, "")
        assert str(path) in complaint(done)
    assert note.read_text() == "Dear auditor"
    assert empty.stat().st_size == 0
    assert len(list(tmp_path.iterdir())) == 2
