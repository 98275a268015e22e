"""The command ``restore``."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
from tests.cli.program import AGENTS, called, complaint, daemon, objects, ok_called, one_object, trouper, waiting_run

from trouper import Agent, Runtime
from trouper.testing import ScriptedModel


def greet(path: Path) -> None:
    agent = Agent("desk", "Help.", model=ScriptedModel(["Hello."]))

    async def main() -> None:
        async with Runtime.open(path, [agent]) as runtime:
            await (await runtime.submit("desk", "Hello?")).wait()

    trio.run(main)


def told_elsewhere(path: Path) -> tuple[object, object]:
    """What `verify` says of the file beside a journal, and how bad that is by `doctor`."""
    verified, examined = called("verify", path, "--json"), called("doctor", path, "--json")
    side_file, findings = one_object(verified.stdout)["side_file"], one_object(examined.stdout)["findings"]
    assert isinstance(side_file, dict)
    assert isinstance(findings, list)
    severity = next((finding["severity"] for finding in findings if finding["check"] == "copy"), None)
    kinds = {problem["kind"] for problem in objects(verified.stdout)[0]["problems"]}  # type: ignore[attr-defined]
    assert (verified.returncode == 1) == (examined.returncode == 1) == (severity == "bad") == ("rolled_back" in kinds)
    return side_file["state"], severity


def test_verify_and_doctor_look_at_the_file_beside_the_journal(tmp_path: Path) -> None:
    path, side = tmp_path / "desk.db", tmp_path / "desk.db.head"
    greet(path)
    assert told_elsewhere(path) == ("matches", None)
    whole = side.read_text()
    side.write_text(whole.replace('"size"', '"sizes"'))
    assert told_elsewhere(path) == ("damaged", "warn")
    assert "cannot be read" in called("verify", path).stderr
    greet(tmp_path / "other.db")
    shutil.copy(tmp_path / "other.db.head", side)
    assert told_elsewhere(path) == ("foreign", "warn")
    side.unlink()
    assert told_elsewhere(path) == ("missing", None)
    assert called("verify", path).stderr == ""


def test_records_that_stand_in_the_log_alone_are_missed_where_a_copy_lacks_it(tmp_path: Path) -> None:
    path, taken = tmp_path / "desk.db", tmp_path / "evidence" / "desk.db"
    greet(path)
    taken.parent.mkdir()
    shutil.copy(path, taken)
    greet(path)
    shutil.copy(f"{path}.head", f"{taken}.head")
    done = called("verify", taken)
    assert (done.returncode, "and not as it was left" in done.stdout) == (1, True)
    # What is there is what was recorded, so it may be signed; whoever signs is told.
    ok_called("keygen", tmp_path / "key", "--name", "example.com/desk")
    done = called("checkpoint", taken, "--key", tmp_path / "key", "--out", tmp_path / "signed")
    assert (done.returncode, "an older copy stands in the journal's place" in done.stderr) == (0, True)


def test_what_an_archive_takes_out_is_known_to_the_file_beside_the_journal(tmp_path: Path) -> None:
    path, side, copy = tmp_path / "desk.db", tmp_path / "desk.db.head", tmp_path / "copy.db"
    greet(path)
    early = side.read_bytes()
    greet(path)
    shutil.copy(path, copy)
    before = side.read_bytes()
    run = one_object(ok_called("runs", path, "--json", "-n", "1"))["run"]
    archiving: list[str | Path] = ["archive", path, "--run", str(run), "--out", tmp_path / "old.archive"]
    assert one_object(ok_called(*archiving, "--json"))["moved"]
    assert side.read_bytes() != before
    for known in (side.read_bytes(), before, early):
        side.write_bytes(known)
        assert told_elsewhere(path) == ("matches", None)
    assert "as it was left" in ok_called("restore", path)
    ok_called(*archiving)
    assert told_elsewhere(path) == ("matches", None)
    shutil.copy(copy, path)
    assert called("restore", path).returncode == 1
    refused = called(*archiving)
    assert refused.returncode == 4
    assert "trouper restore" in complaint(refused)
    assert told_elsewhere(path) == ("rolled_back", "bad")


def test_a_backup_is_put_back_after_a_crash_and_gone_on_with(tmp_path: Path) -> None:
    path, copy = tmp_path / "desk.db", tmp_path / "copy.db"
    run = waiting_run(path, "desk")
    ok_called("backup", path, "--out", copy)
    ok_called("approve", path, f"{run}/0.0", "--as", "maria")
    with daemon(path, "desk") as process:
        process.read_until(process.out, '"ended"')
        assert process.end() == (0, "")
    # Killed, with its newest records in the log alone.
    waiting_run(path, "payer")
    shutil.copy(copy, path)
    for refused in (called("restore", path), called("approve", path, f"{run}/0.0", "--as", "maria")):
        assert refused.returncode == 5
        assert "the log beside it do not belong together" in complaint(refused)
    assert "log: " in called("doctor", path).stdout
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink()
    assert told_elsewhere(path) == ("rolled_back", "bad")
    parked = one_object(called("restore", path, "--json").stdout)["runs"]
    call = {"action": f"{run}/0.0", "tool": "close_ticket", "effect": "idempotent_write", "state": "ahead"}
    assert parked == [{"run": run, "label": "awaiting_approval", "calls": [call]}]
    told = called("restore", path)
    assert f"{run}/0.0 close_ticket (idempotent_write): was still to be made, and may have been made" in told.stdout
    assert "`trouper pause` or `trouper cancel`" in told.stderr
    refused = trouper("run", f"{AGENTS}:asker", "Please.", "--journal", path)
    assert refused.returncode == 4
    assert "its runs are parked until `trouper restore" in refused.stderr
    ok_called("restore", path, "--accept", "--as", "maria", "--reason", "the disk died")
    ok_called("approve", path, f"{run}/0.0", "--as", "maria")
    with daemon(path, "desk") as process:
        process.read_until(process.out, '"ended"')
        assert process.end() == (0, "")
    assert told_elsewhere(path) == ("matches", None)


def changed(statement: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                database.execute(f"DROP TRIGGER {name}")
            database.execute(statement)

    return make


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9000])


LAST = "(SELECT max(position) FROM events)"
DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut off": cut,
    "without its last record": changed(f"DELETE FROM events WHERE position = {LAST}"),
    "without its head": changed("DELETE FROM head"),
    "with a head that is none": changed("UPDATE head SET position = -7"),
    "with a head beyond its end": changed("UPDATE head SET position = 99999"),
    "with a tree that is none": changed("UPDATE head SET range = 'abc'"),
    "with leaves that are none": changed("UPDATE events SET leaf = 'abc'"),
    "with types that are none": changed("UPDATE events SET type = x'ff'"),
    "with versions that are none": changed(f"UPDATE events SET version = x'01' WHERE position = {LAST}"),
    "with labels that are none": changed("UPDATE streams SET label = x'ff'"),
    "with another's stream": changed("UPDATE streams SET name = 'system/restores' WHERE id = 1"),
}


@pytest.fixture(scope="module")
def put_back(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose run waits, beside a file that knows more."""
    path = tmp_path_factory.mktemp("put_back") / "j.db"
    run = waiting_run(path, "desk")
    ok_called("backup", path, "--out", path.with_name("copy.db"))
    ok_called("approve", path, f"{run}/0.0", "--as", "maria")
    with daemon(path, "desk") as process:
        process.read_until(process.out, '"ended"')
        assert process.end() == (0, "")
    shutil.copy(path.with_name("copy.db"), path)
    return path


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("beside", ["its own", "none", "a later one"])
def test_of_a_damaged_journal_one_line_is_told_and_nothing_changed(
    put_back: Path, tmp_path: Path, damage: str, beside: str
) -> None:
    path = tmp_path / "j.db"
    shutil.copy(put_back, path)
    if beside == "a later one":
        shutil.copy(f"{put_back}.head", f"{path}.head")
    elif beside == "its own":
        greet(path)
    DAMAGE[damage](path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    done = called("restore", path)
    assert done.returncode in {0, 1, 5}
    assert complaint(done) if done.returncode == 5 else done.stdout
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_an_older_copy_is_told_and_accepted(tmp_path: Path) -> None:
    path, copy = tmp_path / "desk.db", tmp_path / "copy.db"
    greet(path)
    assert "as it was left" in ok_called("restore", path)
    assert "nothing to accept" in complaint(called("restore", path, "--accept", "--reason", "x"))
    shutil.copy(path, copy)
    assert one_object(ok_called("restore", copy, "--json"))["state"] == "missing"
    greet(path)
    shutil.copy(copy, path)
    done = called("restore", path)
    assert done.returncode == 1
    assert "older copy" in done.stdout
    found = called("restore", path, "--json")
    assert found.returncode == 1
    assert (one_object(found.stdout)["state"], one_object(found.stdout)["accepted"]) == ("rolled_back", False)
    assert called("restore", path, "--accept").returncode == 2
    assert told_elsewhere(path) == ("rolled_back", "bad")
    assert "accepted" in ok_called("restore", path, "--accept", "--as", "maria", "--reason", "the disk died")
    assert one_object(ok_called("restore", path, "--json"))["accepted"] is True
    assert told_elsewhere(path) == ("rolled_back", "note")
    assert "that was accepted" in called("verify", path).stderr
    told = [line for line in objects(ok_called("tail", path, "--no-follow", "--json")) if "data" in line]
    assert [line["type"] for line in told if line["stream"] == "system/restores"] == ["journal.restored"]
    greet(path)
    assert "as it was left" in ok_called("restore", path)
    assert "accepts that the journal was put back" in ok_called("tail", path, "--no-follow", "-n", "100")
    assert called("verify", path).returncode == 0
    assert called("replay", path, "--jobs", "1").returncode == 0
