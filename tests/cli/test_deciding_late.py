"""Decisions that wait for a runtime to act on them, and commands that a run's state leaves nothing to do for."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from tests.cli.conftest import Journals
from tests.cli.program import called, complaint, daemon, ended_run, ok, ok_called, one_object, trouper

from trouper_journal import Journal

LATER = "no process drives this journal: it takes effect when a runtime next opens it\n"

DECISIONS = [
    ["approve", "{run}/0.0"],
    ["deny", "{run}/0.0", "--reason", "not today"],
    ["cancel", "{run}"],
    ["raise-limit", "{run}", "--steps", "2"],
]


def _filled(words: list[str], journal: Path, run: str) -> list[str | Path]:
    name, *rest = (word.format(run=run) for word in words)
    return [name, journal, *rest]


async def _position(journal: Path) -> int:
    async with Journal.open(journal) as opened:
        return await opened.position()


@pytest.mark.parametrize("words", DECISIONS)
def test_a_decision_that_nobody_acts_on_now_says_when_it_takes_effect(
    tmp_path: Path, journals: Journals, words: list[str]
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = called(*_filled(words, journal, run))
    assert (done.returncode, done.stderr) == (0, LATER)
    assert run in done.stdout


def test_the_same_decision_beside_a_daemon_says_nothing_of_later(tmp_path: Path) -> None:
    journal = tmp_path / "agents.db"
    with daemon(journal, "two") as process:
        run = json.loads(process.read_until(process.out, "awaiting_approval")[-1])["run"]
        done = trouper("approve", journal, f"{run}/0.0")
        assert (done.returncode, done.stderr) == (0, "")
        assert one_object(ok("approve", journal, f"{run}/0.0", "--json"))["driven"] is True


def test_a_doubt_settled_and_a_failed_run_resumed_wait_for_a_runtime_too(tmp_path: Path, journals: Journals) -> None:
    doubtful = journals.waiting(journal := tmp_path / "payer.db", "payer")
    assert called("resolve", journal, f"{doubtful}/0.0", "not_applied").stderr == LATER
    failed = journals.ended(journal := tmp_path / "dead.db", "dead")
    done = called("resume", journal, failed)
    assert (done.returncode, done.stderr) == (0, LATER)
    assert "goes on" in done.stdout


def test_for_programs_it_is_a_field(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    for words in (["approve", "{run}/0.0"], ["cancel", "{run}"]):
        done = called(*_filled(words, journal, run), "--json")
        assert (one_object(done.stdout)["driven"], done.stderr) == (False, "")


def _of_this_host(process: object, host: str | None = None) -> str:
    return json.dumps({"node": "x", "pid": process, "host": host or socket.gethostname(), "since": 0})


@pytest.mark.parametrize(
    ("written", "driven"),
    [
        (lambda: "", False),
        (lambda: _of_this_host(_dead_process()), False),
        (lambda: _of_this_host(1, "another-machine"), None),
        (lambda: _of_this_host("one"), None),
        (lambda: '{"node":', None),
        (lambda: "[]", None),
    ],
)
def test_what_the_side_file_says_is_believed_as_far_as_it_can_be_checked(
    tmp_path: Path, journals: Journals, written: Callable[[], str], driven: bool | None
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    (tmp_path / "agents.db.lock").write_text(written())
    assert one_object(ok_called("approve", journal, f"{run}/0.0", "--json"))["driven"] is driven


def _dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_to_ask_whether_a_journal_is_driven_turns_no_daemon_away(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    side_file = tmp_path / "agents.db.lock"
    assert not side_file.exists()
    called("approve", journal, f"{run}/0.0")
    # Neither made nor locked: the file belongs to who drives.
    assert not side_file.exists()


@pytest.mark.parametrize(("agent", "label"), [("desk", "awaiting_approval"), ("payer", "in_doubt")])
def test_a_run_that_has_not_failed_is_not_resumed_and_nothing_is_recorded(
    tmp_path: Path, journals: Journals, agent: str, label: str
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db", agent)
    before = trio.run(_position, journal)
    done = called("resume", journal, run)
    assert (done.returncode, done.stdout) == (4, "")
    assert complaint(done) == f"run {run} is neither paused nor failed: it is {label}; nothing was recorded"
    assert trio.run(_position, journal) == before


def test_resuming_twice_says_that_the_run_goes_on_already(tmp_path: Path) -> None:
    failed = ended_run(journal := tmp_path / "dead.db", "dead")
    ok_called("resume", journal, failed)
    again = called("resume", journal, failed)
    assert again.returncode == 4
    assert "it is running; nothing was recorded" in complaint(again)
