"""``backup`` on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Journals
from tests.cli.program import called, complaint, objects, ok_called, one_object


def test_a_journal_of_a_killed_daemon_is_copied_with_what_stands_in_its_log(journals: Journals, tmp_path: Path) -> None:
    run = journals.waiting(journal := tmp_path / "j.db")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    made = one_object(ok_called("backup", journal, "--out", tmp_path / "copy.db", "--json"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "copy.db"} == before
    assert made["records"] == one_object(ok_called("verify", tmp_path / "copy.db", "--json"))["records"]
    assert [each["run"] for each in objects(ok_called("runs", tmp_path / "copy.db", "--json"))] == [run]
    assert "copied and verified" in ok_called("backup", journal, "--out", tmp_path / "other.db")


def test_nothing_is_overwritten_and_nothing_made_of_what_is_not_there(journals: Journals, tmp_path: Path) -> None:
    journals.ended(journal := tmp_path / "j.db")
    done = called("backup", journal, "--out", journal)
    assert done.returncode == 4
    assert "nothing is overwritten" in complaint(done)
    assert called("backup", tmp_path / "missing.db", "--out", tmp_path / "copy.db").returncode == 3
    assert called("backup", journal, "--out", tmp_path / "no" / "copy.db").returncode == 5
    assert [path.name for path in tmp_path.iterdir()] == ["j.db"]


def test_an_archive_is_not_taken_along(journals: Journals, tmp_path: Path) -> None:
    journals.ended(journal := tmp_path / "j.db")
    done = called("backup", journal, "--archive", tmp_path / "a", "--out", tmp_path / "copy.db")
    assert (done.returncode, "copies the journal alone" in complaint(done)) == (2, True)
