"""Archiving from the command line: what may leave, what must stay, what is said with and without the archive."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
import trio
from jsonschema import Draft202012Validator
from tests.audit.conftest import GOLDEN
from tests.cli.program import called, complaint, objects, ok_called, one_object

from trouper import REGISTRY
from trouper.audit import record_schema
from trouper.audit.archivable import Selection, choose
from trouper.audit.archiving import ArchiveReport, archive_finished
from trouper.runtime import Commands, Task
from trouper_journal import Archived, Journal, JournalInUse, RecordArchived
from trouper_journal.archive import write_archive

ENDED = "01KE0WF5X0B24APSY1FN5RVN72"
DOUBTFUL = "01KE10FBF0GDK7EC1SZPXS2RYS"
WAITING = "01KE109VP09DDVYANRQ40ECM0S"


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A journal with all that is over in an archive."""
    folder = tmp_path_factory.mktemp("archived")
    journal, archive = folder / "runs.db", folder / "runs.archive"
    shutil.copy(GOLDEN / "runs-1.db", journal)
    ok_called("archive", journal, "--out", archive, "--before", "2100-01-01", "--as", "maria", "--reason", "year's end")
    return journal, archive


def test_all_that_is_over_leaves_and_what_must_stay_is_named(golden_runs: Path) -> None:
    archive = golden_runs.with_suffix(".archive")
    before = one_object(ok_called("verify", golden_runs, "--json"))
    done = called("archive", golden_runs, "--out", archive, "--before", "2100-01-01", "--json")
    assert done.returncode == 0, done.stderr
    told = one_object(done.stdout)
    assert told["records"] == told["moved"] == 894
    assert cast("int", told["bytes_after"]) < cast("int", told["bytes_before"])
    assert told["refused"] == [
        {
            "stream": f"run/{DOUBTFUL}",
            "reason": f"run {DOUBTFUL} has a call in doubt: settle it first (trouper resolve)",
        }
    ]
    after = one_object(ok_called("verify", golden_runs, "--json"))
    assert (after["ok"], after["archived"], after["records"]) == (True, 894, cast("int", before["records"]) + 1)
    assert one_object(ok_called("verify", archive, "--json"))["root"] == told["root"] == before["root"]
    assert one_object(ok_called("verify", golden_runs, "--archive", archive, "--json"))["archived"] == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--run", WAITING], "is not over (awaiting_approval)"),
        (["--run", DOUBTFUL], "has a call in doubt"),
        (["--run", "01KE11CZPRS32WXJ42A5HXRW03~0.0"], "is part of run 01KE11CZPRS32WXJ42A5HXRW03"),
        (["--run", "01KE0VS6S0HPBK82AEMSX9CH5Z"], "is a turn of session cust-1"),
        (["--session", "cust-3"], "is not over"),
    ],
    ids=" ".join,
)
def test_what_is_named_and_must_stay_is_refused_and_nothing_done(
    given: list[str], says: str, golden_runs: Path
) -> None:
    archive = golden_runs.with_suffix(".archive")
    done = called("archive", golden_runs, "--out", archive, *given)
    assert done.returncode == 4
    assert says in complaint(done)
    assert not archive.exists()
    assert one_object(ok_called("verify", golden_runs, "--json"))["archived"] == 0


def test_bad_use(golden_runs: Path) -> None:
    archive = golden_runs.with_suffix(".archive")
    assert called("archive", golden_runs, "--out", archive).returncode == 2
    assert called("archive", golden_runs, "--out", archive, "--before", "soon").returncode == 2
    assert called("archive", golden_runs, "--out", archive, "--run", "nobody").returncode == 3
    assert called("archive", golden_runs, "--out", archive, "--session", "nobody").returncode == 3
    archive.write_bytes(b"something else")
    done = called("archive", golden_runs, "--out", archive, "--before", "2100-01-01")
    assert done.returncode == 5
    assert archive.read_bytes() == b"something else"


def test_where_little_leaves_the_file_may_grow_which_is_said(golden_runs: Path) -> None:
    told = ok_called("archive", golden_runs, "--out", golden_runs.with_suffix(".archive"), "--run", ENDED)
    assert "too little left it to outweigh the tombstones" in told


def test_nothing_to_archive_is_no_error_and_makes_no_file(golden_runs: Path) -> None:
    archive = golden_runs.with_suffix(".archive")
    assert "nothing is finished" in ok_called("archive", golden_runs, "--out", archive, "--before", "2000-01-01")
    assert (
        one_object(ok_called("archive", golden_runs, "--out", archive, "--before", "2000-01-01", "--json"))["moved"]
        == 0
    )
    assert not archive.exists()


def test_given_again_it_finishes_what_was_begun(archived: tuple[Path, Path]) -> None:
    journal, archive = archived
    told = one_object(ok_called("archive", journal, "--out", archive, "--before", "2100-01-01", "--json"))
    assert (told["resumed"], told["moved"], told["records"], told["kept"]) == (True, 0, 894, [])
    lines = objects(ok_called("tail", journal, "--no-follow", "-n", "1000000", "--json"))
    assert [line["type"] for line in lines].count("archive.made") == 1


def test_what_was_archived_already_is_named_with_its_archive(archived: tuple[Path, Path], tmp_path: Path) -> None:
    journal, _ = archived
    for given, what in ((["--run", ENDED], f"run {ENDED}"), (["--session", "cust-1"], "session cust-1")):
        done = called("archive", journal, "--out", tmp_path / "again.archive", *given)
        assert done.returncode == 3
        assert f"{what} is archived in runs.archive" in complaint(done)
    assert not list(tmp_path.iterdir())


def test_of_much_that_may_not_leave_any_more_little_is_listed(golden_runs: Path, tmp_path: Path) -> None:
    archive = golden_runs.with_suffix(".archive")

    async def write_and_go_on() -> None:
        async with Journal.open(golden_runs, registry=REGISTRY) as journal:
            choice = await choose(journal, Selection(before=2**62))
            await write_archive(journal, archive, choice.units, new_id=b"a" * 16, now=0)
            await Commands(journal).send("cust-1", Task("talker", "Hello"), None)

    trio.run(write_and_go_on)
    done = called("archive", golden_runs, "--out", archive, "--before", "2100-01-01")
    assert done.returncode == 0
    note = next(line for line in done.stderr.splitlines() if "still here" in line)
    assert note.startswith("6 streams in the archive, and still here, because they may not leave any more: run/")
    assert (note.count("run/"), note.endswith(", ...")) == (3, True)


def test_who_archived_what_is_recorded(archived: tuple[Path, Path]) -> None:
    told = ok_called("tail", archived[0], "--no-follow", "-n", "1")
    assert "archives 894 records of 80 streams to runs.archive" in told
    assert "maria" in told
    assert "year's end" in told


def test_what_looks_says_what_is_archived_and_reads_it_with_the_archive(archived: tuple[Path, Path]) -> None:
    journal, archive = archived
    beside = ("--archive", archive)
    assert "[archived] runs.archive has what is recorded here" in ok_called("tail", journal, "--no-follow", "-n", "999")
    whole = ok_called("show", GOLDEN / "runs-1.db", ENDED)
    assert ok_called("show", journal, ENDED, *beside) == whole
    assert ok_called("show", archive, ENDED) == whole
    listed = {line["run"]: line["agent"] for line in objects(ok_called("runs", journal, "-n", "0", "--json", *beside))}
    assert listed[ENDED] == "desk"
    assert "[archived]" in ok_called("runs", journal, "-n", "0")
    assert "2 sessions not shown: archived" in called("sessions", journal).stderr
    assert "5 turns" in ok_called("sessions", journal, "cust-1", *beside)
    assert ok_called("why", journal, ENDED, "--json", *beside) == ok_called(
        "why", GOLDEN / "runs-1.db", ENDED, "--json"
    )
    assert ok_called("spend", journal, *beside) == ok_called("spend", GOLDEN / "runs-1.db")
    found, complete = (one_object(ok_called("doctor", journal, "--json", *more)) for more in ((), beside))
    findings = cast("list[dict[str, object]]", found["findings"])
    assert "events" not in {finding["check"] for finding in findings}
    assert (found["records"], found["runs"]) == (complete["records"], complete["runs"])


def test_exports_say_what_is_archived_and_hold_it_with_the_archive(archived: tuple[Path, Path], tmp_path: Path) -> None:
    journal, archive = archived
    validator = Draft202012Validator(record_schema())
    without = objects(ok_called("export", journal))
    assert [error.message for line in without for error in validator.iter_errors(line)] == []
    assert {line.get("archived") for line in without if line["stream"] == f"run/{ENDED}"} == {"runs.archive"}
    whole = ok_called("export", GOLDEN / "runs-1.db", "--run", ENDED, "--raw")
    assert ok_called("export", journal, "--run", ENDED, "--raw", "--archive", archive) == whole
    page = tmp_path / "report.html"
    ok_called("export", journal, "--run", ENDED, "--format", "html", "--out", page, "--archive", archive)
    assert "[archived]" not in page.read_text()


def test_a_bundle_of_what_is_archived_needs_the_archive_and_then_proves_it(golden_runs: Path, tmp_path: Path) -> None:
    archive, bundle, key = golden_runs.with_suffix(".archive"), tmp_path / "evidence.zip", tmp_path / "log.key"
    ok_called("archive", golden_runs, "--out", archive, "--run", ENDED)
    ok_called("keygen", key, "--name", "example.com/log")
    ok_called("checkpoint", golden_runs, "--key", key)
    given: list[str | Path] = [
        "export",
        golden_runs,
        "--run",
        ENDED,
        "--format",
        "bundle",
        "--out",
        bundle,
        "--pub",
        tmp_path / "log.key.pub",
    ]
    refused = called(*given)
    assert "is archived; give the archive with --archive FILE" in complaint(refused)
    assert not bundle.exists()
    ok_called(*given, "--archive", archive)
    verifier = tmp_path / "verify.py"
    with zipfile.ZipFile(bundle) as opened:
        verifier.write_bytes(opened.read("verify.py"))
    done = subprocess.run([sys.executable, "-I", verifier, bundle], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "each in the tree over" in done.stdout


def test_a_foreign_or_missing_archive_is_refused(archived: tuple[Path, Path], tmp_path: Path) -> None:
    trio.run(make_journal, other := tmp_path / "other.db")
    done = called("verify", other, "--archive", archived[1])
    assert done.returncode == 4
    assert "another journal" in complaint(done)
    assert called("verify", archived[0], "--archive", tmp_path / "none").returncode == 3
    assert called("verify", archived[0], "--archive", other).returncode == 5


def test_a_damaged_archive_is_bad_and_says_where(archived: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copy(archived[1], damaged := tmp_path / "damaged.archive")
    content = damaged.read_bytes()
    at = content.index(b"Sorry.")
    damaged.write_bytes(content[:at] + b"Sorrx." + content[at + 6 :])
    done = called("verify", damaged)
    assert done.returncode == 1
    assert "the stored bytes do not have the recorded digest" in done.stdout
    assert called("verify", archived[0], "--archive", damaged).returncode == 1


def test_a_record_that_the_archive_lacks_is_missed_by_whoever_reads_it(
    archived: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copy(archived[1], less := tmp_path / "less.archive")
    with closing(sqlite3.connect(less, isolation_level=None)) as database:
        query = "SELECT e.position FROM events e JOIN streams s ON s.id = stream_id WHERE s.name = ? AND e.version = 3"
        (position,) = database.execute(query, (f"run/{ENDED}",)).fetchone()
        database.execute("DELETE FROM events WHERE position = ?", (position,))
    for given in (["show", ENDED], ["why", ENDED], ["export", "--run", ENDED], ["export"]):
        done = called(given[0], archived[0], *given[1:], "--archive", less)
        assert done.returncode == 5
        assert f"position {position}: {less} lacks the record, which was moved there" in complaint(done)
    for verb in ("verify", "replay"):
        done = called(verb, archived[0], "--archive", less)
        assert done.returncode == 1
        assert f"position {position}" in done.stdout


async def make_journal(path: Path) -> None:
    async with Journal.open(path):
        pass


async def archive(path: Path, selection: Selection) -> ArchiveReport:
    async with Journal.open(path, registry=REGISTRY) as journal:
        return await archive_finished(journal, path.with_suffix(".archive"), selection)


async def test_it_is_refused_while_somebody_drives(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY) as other, other.drive("a daemon"):
        with pytest.raises(JournalInUse):
            await archive(golden_runs, Selection(runs=(ENDED,)))


async def test_what_a_fork_starts_from_leaves_with_it_or_not_at_all(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        everything = await choose(journal, Selection(before=2**62))
        forks = {}
        async for record in journal.read_all():
            if record.type == "run.submitted":
                event = journal.registry.decode(record)
                fork = getattr(event, "fork", None)
                if fork is not None and fork.run:
                    forks[record.stream.removeprefix("run/")] = fork.run
        over = {unit[0].removeprefix("run/") for unit in everything.units}
        origin = next(origin for origin in forks.values() if origin in over)
        alone = await choose(journal, Selection(runs=(origin,)))
        assert [each.name for each in alone.refused] == [f"run/{origin}"]
        assert "archive both, or neither" in alone.refused[0].reason
        family = tuple(fork for fork, of in forks.items() if of == origin)
        both = await choose(journal, Selection(runs=(origin, *family)))
        assert not both.refused
        assert {f"run/{origin}", *(f"run/{fork}" for fork in family)} <= both.streams


async def test_sub_agents_and_turns_leave_with_theirs(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        found = await choose(journal, Selection(before=2**62))
        for unit in found.units:
            kinds = {name.partition("/")[0] for name in unit}
            roots = {name.partition("~")[0] for name in unit if name.startswith("run/")}
            assert len(roots) == 1 or "session" in kinds
        assert any("~" in name for name in found.streams)
        (session,) = [unit for unit in found.units if "session/cust-1" in unit]
        assert len([name for name in session if name.startswith("run/") and "~" not in name]) == 5


async def test_a_command_id_still_finds_its_run(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        keys = [record.key async for record in journal.read(f"run/{ENDED}")]
    await archive(golden_runs, Selection(runs=(ENDED,)))
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        assert keys[0] is not None
        found = await journal.find(keys[0])
        assert found is not None
        assert {record.stream for record in found.records} == {f"run/{ENDED}"}
        assert all(isinstance(record, Archived) for record in found.records)


async def test_an_archived_session_takes_no_more_messages(golden_runs: Path) -> None:
    await archive(golden_runs, Selection(sessions=("cust-1",)))
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        with pytest.raises(RecordArchived, match=r"session/cust-1 was archived to runs\.archive"):
            await Commands(journal).send("cust-1", Task("talker", "Hello"), None)
        assert (await journal.verify()).ok


def test_killed_while_it_deletes_nothing_is_lost(golden_runs: Path) -> None:
    """That it is so at every step, the journal's own test shows; here the whole command is killed, and given again."""
    archive = golden_runs.with_suffix(".archive")
    before = ok_called("export", golden_runs, "--raw").splitlines()
    script = (
        "import os, signal, sys; import trouper_journal._archive_move as move; from trouper.cli import main\n"
        "def kill(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "move._Mover._move_unit, real = (lambda *given: (real(*given), kill())), move._Mover._move_unit\n"
        "main(sys.argv[1:])"
    )
    given = ["archive", str(golden_runs), "--out", str(archive), "--before", "2100-01-01"]
    done = subprocess.run([sys.executable, "-c", script, *given], capture_output=True, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    assert one_object(ok_called("verify", golden_runs, "--json"))["archived"] == 0
    told = one_object(ok_called(*given, "--json"))
    assert (told["resumed"], told["moved"]) == (True, 894)
    after = ok_called("export", golden_runs, "--raw", "--archive", archive).splitlines()
    assert after[: len(before)] == before
    assert json.loads(after[-1])["type"] == "archive.made"


def test_an_archive_matches_the_checkpoint_of_its_size(golden_runs: Path, tmp_path: Path) -> None:
    archive, key = golden_runs.with_suffix(".archive"), tmp_path / "log.key"
    pub = tmp_path / "log.key.pub"
    ok_called("keygen", key, "--name", "example.com/log")
    ok_called("checkpoint", golden_runs, "--key", key)
    ok_called("archive", golden_runs, "--out", archive, "--run", ENDED)
    checkpoints = golden_runs.with_name(f"{golden_runs.name}.checkpoints")
    told = one_object(ok_called("verify", archive, "--pub", pub, "--checkpoint", checkpoints, "--json"))
    assert told["grade"] == "matches checkpoint"
    assert one_object(ok_called("verify", golden_runs, "--pub", pub, "--json"))["grade"] == "matches checkpoint"
