"""What every command says of what was archived, without its archive and with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.audit.conftest import GOLDEN
from tests.cli.program import called, complaint, objects, ok_called
from tests.cli.test_evidence import LOOKING

ENDED, FAILED, OTHER = "01KE0WF5X0B24APSY1FN5RVN72", "01KE0WH0G06C71MTB3A2T0ARWT", "01KE109VP09DDVYANRQ40ECM0S"
NOTE = "894 records (78 runs) not read: archived; give the archive with --archive FILE"

ABOUT: dict[str, list[str]] = {
    "show": [ENDED],
    "show, by its beginning": ["show", ENDED[:12]],
    "why": [ENDED],
    "why, a call": ["why", f"{ENDED}/0.0"],
    "why, its spending": ["why", ENDED, "--spend"],
    "diff": [ENDED, OTHER],
    "diff, on the other side": ["diff", OTHER, ENDED],
    "tail": ["--no-follow", "--run", ENDED],
    "sessions": ["cust-1"],
    "replay": [ENDED],
    "export": ["--run", ENDED],
    "export, a session": ["export", "--session", "cust-1"],
    "export, a report": ["export", "--run", ENDED, "--format", "html"],
    "export, a report on a session": ["export", "--session", "cust-1", "--format", "html"],
    "export, a bundle": ["export", "--run", ENDED, "--format", "bundle", "--out", "OUT"],
}
"""Questions about something that was archived: the verb, or a verb and more, and what is behind the journal."""

OVER_ALL = ("runs", "tail", "spend", "sessions", "replay", "doctor", "export")
NOTHING_ARCHIVED = {
    "approvals": "what waits for a person is not archived",
    "rules": "standing rules are not archived",
    "verify": "says itself what of the archived was checked, and what not",
    "restore": "tells whether the file is older than it should be, which is said of its end",
    "prove": "the leaf of an archived record stays in the journal, and is what is proved",
}
"""Why a command that looks is not in the tables above."""


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A journal with all that is over in an archive."""
    folder = tmp_path_factory.mktemp("archived")
    journal, archive = folder / "runs.db", folder / "runs.archive"
    shutil.copy(GOLDEN / "runs-1.db", journal)
    ok_called("archive", journal, "--out", archive, "--before", "2100-01-01")
    return journal, archive


def asked(case: str, journal: Path, folder: Path, table: dict[str, list[str]]) -> list[str | Path]:
    verb, _, more = case.partition(",")
    given = table[case][1:] if more else table[case]
    return [verb, journal, *(str(folder / "out.zip") if each == "OUT" else each for each in given)]


def test_every_command_that_looks_is_in_a_table() -> None:
    assert {case.partition(",")[0] for case in ABOUT} | set(OVER_ALL) | set(NOTHING_ARCHIVED) == set(LOOKING)


@pytest.mark.parametrize("case", ABOUT)
def test_whoever_asks_about_what_is_archived_is_asked_for_the_archive(
    case: str, archived: tuple[Path, Path], tmp_path: Path
) -> None:
    journal, archive = archived
    given = asked(case, journal, tmp_path, ABOUT)
    for form in ([], ["--json"]):
        done = called(*given, *form)
        assert (done.returncode, done.stdout) == (3, "")
        what = "session cust-1" if "cust-1" in given else f"run {ENDED}"
        assert complaint(done).endswith(
            f"{what} is archived; give the archive with --archive FILE (it was made as runs.archive)"
        )
    assert not list(tmp_path.iterdir())
    done = called(*given, "--archive", archive)
    assert done.returncode in ({1} if given[0] == "diff" else {0}), done.stderr
    assert "is archived" not in done.stderr


@pytest.mark.parametrize("verb", OVER_ALL)
def test_whoever_asks_about_all_is_told_how_much_was_left_out(verb: str, archived: tuple[Path, Path]) -> None:
    journal, archive = archived
    given: list[str | Path] = [verb, journal, *(["--no-follow", "--after", "0"] if verb == "tail" else [])]
    for form in ([], ["--json"]) if verb != "export" else ([],):
        done = called(*given, *form)
        assert done.returncode == 0
        assert NOTE in done.stderr.splitlines()
        assert NOTE not in called(*given, *form, "--archive", archive).stderr
    assert NOTE not in called(verb, archive, *given[2:]).stderr


@pytest.mark.parametrize(
    "given",
    [
        ["doctor"], ["prove", "3"], ["checkpoint", "--key", "KEY"], ["restore"], ["backup", "--out", "OUT"],
        ["archive", "--out", "OUT", "--before", "2100-01-01"], ["resume", FAILED],
        ["send", "cust-1", "Hello", "--agent", "talker"],
    ],
    ids=lambda given: given[0],
)  # fmt: skip
def test_what_needs_the_journal_itself_says_so_of_an_archive(
    given: list[str], archived: tuple[Path, Path], tmp_path: Path
) -> None:
    ok_called("keygen", key := tmp_path / "log.key", "--name", "example.com/log")
    before = sorted(tmp_path.iterdir())
    names = {"KEY": key, "OUT": tmp_path / "out"}
    done = called(given[0], archived[1], *(names.get(each, each) for each in given[1:]))
    assert done.returncode == 2
    assert "is an archive, which is a part of a journal: this command needs the journal itself" in complaint(done)
    assert sorted(tmp_path.iterdir()) == before


def test_only_what_is_behind_the_asked_position_counts(archived: tuple[Path, Path]) -> None:
    journal, _ = archived
    lines = objects(ok_called("export", journal))
    last = next(line for line in reversed(lines) if line.get("archived"))
    assert (
        NOTE.replace("894 records (78 runs)", "1 record (1 run)")
        in called("export", journal, "--after", str(int(str(last["position"])) - 1)).stderr
    )
    assert called("export", journal, "--after", str(last["position"])).stderr == ""


def test_a_replay_counts_only_what_it_replayed(archived: tuple[Path, Path]) -> None:
    journal, archive = archived
    assert ok_called("replay", journal).startswith("10 runs with ")
    assert ok_called("replay", archive).startswith("78 runs with ")
    assert "definitions and standing rules stay in the journal" in called("replay", archive).stderr
    both = [int(ok_called("replay", path).split(" with ")[1].split()[0].replace(",", "")) for path in archived]
    whole = ok_called("replay", journal, "--archive", archive)
    assert whole == ok_called("replay", GOLDEN / "runs-1.db")
    assert int(whole.split(" with ")[1].split()[0].replace(",", "")) == sum(both)


@pytest.mark.parametrize("given", [["resume"], ["cancel"], ["pause"], ["raise-limit", "--steps", "9"]], ids=" ".join)
def test_nothing_can_be_done_to_what_is_archived(given: list[str], archived: tuple[Path, Path]) -> None:
    journal, archive = archived
    verb, *more = given
    done = called(verb, journal, FAILED, "--as", "maria", *more)
    assert done.returncode == 3
    assert f"run {FAILED} is archived in runs.archive: it is over, and nothing more can be done" in complaint(done)
    refused = called(verb, journal, FAILED, "--as", "maria", *more, "--archive", archive)
    assert refused.returncode == 2
    assert "--archive is for looking" in complaint(refused)


def test_a_message_to_an_archived_session_is_refused(archived: tuple[Path, Path]) -> None:
    done = called("send", archived[0], "cust-1", "Hello", "--agent", "talker")
    assert done.returncode == 3
    assert "session cust-1 is archived in runs.archive: it is over" in complaint(done)
