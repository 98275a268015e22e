"""What is told where only a part of a journal can be read: nothing that the rest might contradict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from tests.audit.tampering import tampered
from tests.cli.program import JsonObject, called, ended_run, objects, ok_called


def damaged_behind_a_vote(path: Path) -> str:
    """Alter an approval of a call that was made; the call's full name."""
    rows = objects(ok_called("export", path))
    decided = [row for row in rows if row["type"] == "approval.decided"]
    made = {_call(row) for row in rows if row["type"] == "action.receipted"}
    vote = next(row for row in decided if _call(row) in made)
    assert tampered(path, "UPDATE events SET key = 'another' WHERE position = ?", cast("int", vote["position"])) == 1
    return _call(vote)


def _call(row: JsonObject) -> str:
    facts = cast("JsonObject", row["facts"])
    return f"{str(row['stream']).removeprefix('run/')}/{facts.get('action')}"


def test_a_call_is_not_said_to_be_open_because_what_followed_cannot_be_read(golden_runs: Path) -> None:
    call = damaged_behind_a_vote(golden_runs)
    run = call.partition("/")[0]
    told = called("why", golden_runs, call, "--keep-going").stdout
    assert "not known: what followed cannot be read" in told.splitlines()[0]
    assert "not over" not in told
    spent = called("why", golden_runs, run, "--spend", "--keep-going").stdout
    assert "and maybe more: it could not be read to its end" in spent.splitlines()[0]


def test_a_report_counts_the_calls_that_it_shows(golden_runs: Path, tmp_path: Path) -> None:
    call = damaged_behind_a_vote(golden_runs)
    report = tmp_path / "report.html"
    run = call.partition("/")[0]
    done = called("export", golden_runs, "--run", run, "--format", "html", "--out", report, "--keep-going")
    assert done.returncode == 1
    counted = re.search(r"Tool calls started, as far as can be read: (\d+)\.", report.read_text())
    assert counted is not None
    assert int(counted[1]) > 0


def test_who_recorded_what_was_archived_is_not_guessed(golden_runs: Path, tmp_path: Path) -> None:
    ok_called("archive", golden_runs, "--out", tmp_path / "a", "--before", "2100-01-01", "--as", "maria")
    tail = ok_called("tail", golden_runs, "--no-follow", "-n", "999")
    gone = [line for line in tail.splitlines() if "[archived]" in line]
    assert gone
    assert not any("runtime" in line for line in gone)


def test_where_all_runs_were_archived_none_is_said_never_to_have_been(tmp_path: Path) -> None:
    journal = tmp_path / "desk.db"
    run = ended_run(journal, "asker")
    ok_called("archive", journal, "--out", tmp_path / "a", "--run", run, "--as", "maria")
    assert called("replay", journal).stdout == "no run is left here: those that there were are archived\n"
    assert called("spend", journal).stdout == "nothing was spent by runs that could be read\n"
