"""A journal that somebody else wrote is shown to the terminal, and never obeyed by it, wherever it names anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from attrs import evolve
from tests.audit.rewriting import rewritten
from tests.audit.tampering import tampered
from tests.cli.program import called
from tests.golden.found import FOLDER, run_of

from trouper.core import events as ev

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202eevil"
GOLDEN = FOLDER / "runs-1.db"
CONTROLS = {char for char in EVIL if not char.isprintable()}

VERBS: dict[str, list[str]] = {
    "runs": ["--all"],
    "sessions": [],
    "show": ["RUN"],
    "tail": ["--no-follow", "-n", "2000"],
    "approvals": [],
    "rules": [],
    "why": ["RUN"],
    "diff": ["RUN", "OTHER"],
    "spend": [],
    "replay": ["--jobs", "1"],
    "verify": ["--jobs", "1"],
    "doctor": [],
    "prove": ["5"],
    "backup": ["--to", "FOLDER/backup.db"],
    "export": [],
    "resume": ["RUN"],
    "archive": ["--to", "FOLDER/archive.db", "--run", "RUN", "--as", "maria"],
}

COLUMNS = [
    "UPDATE streams SET name = name || ? WHERE name LIKE 'run/%'",
    "UPDATE streams SET name = name || ? WHERE name LIKE 'session/%' OR name LIKE 'definition/%'",
    "UPDATE streams SET label = ?",
    "UPDATE events SET type = type || ? WHERE version = 2",
    "UPDATE events SET label = ? WHERE version = 2",
    "UPDATE events SET key = ? WHERE version = 1",
    "UPDATE events SET key_id = ? WHERE version = 1",
    "UPDATE keys SET name = name || ?",
]


def told(path: Path) -> None:
    """Ask everything about a journal, and look for what a terminal would obey."""
    run, other = run_of(GOLDEN, "approve"), run_of(GOLDEN, "forbidden")
    for verb, more in VERBS.items():
        given = [{"RUN": run, "OTHER": other}.get(each, each.replace("FOLDER", str(path.parent))) for each in more]
        done = called(verb, path, *given)
        assert not CONTROLS & set(done.stdout + done.stderr), (verb, done.stderr)


@pytest.mark.parametrize("statement", COLUMNS)
def test_names_in_damaged_columns_reach_no_terminal(golden_runs: Path, statement: str) -> None:
    assert tampered(golden_runs, statement, EVIL)
    told(golden_runs)


def test_names_that_somebody_wrote_into_a_sound_journal_reach_no_terminal(golden_runs: Path, tmp_path: Path) -> None:
    def change(_: str, event: object) -> object:
        match event:
            case ev.RunSubmitted():
                return evolve(event, agent=EVIL)
            case ev.ActionPlanned():
                return evolve(event, tool=EVIL, refusal=EVIL if event.refusal else None)
            case ev.ApprovalRequested():
                return evolve(event, eligible=(EVIL,))
            case ev.RunFailed():
                return evolve(event, message=EVIL)
            case _:
                return event

    told(trio.run(rewritten, golden_runs, tmp_path / "evil.db", change))
