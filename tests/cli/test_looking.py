"""``runs``, ``show``, ``approvals`` and ``tail``: on journals of the dead, and beside the living."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Journals
from tests.cli.program import (
    called,
    complaint,
    daemon,
    ended_run,
    objects,
    ok,
    ok_called,
    one_object,
    started,
    waiting_run,
)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with a run that succeeded, one that failed, and one that waits for a person."""
    path = tmp_path_factory.mktemp("looking") / "agents.db"
    ended_run(path, "asker")
    ended_run(path, "endless")
    waiting_run(path, "desk")
    return path


def test_runs_lists_each_run_with_agent_status_age_and_events(journal: Path) -> None:
    first, *rows = ok("runs", journal).splitlines()
    assert first.split() == ["run", "agent", "status", "age", "events"]
    assert [row.split()[1:3] for row in rows] == [
        ["asker", "succeeded"],
        ["endless", "failed"],
        ["desk", "awaiting_approval"],
    ]


def test_runs_as_json_has_one_object_for_each_run(journal: Path) -> None:
    found = objects(ok_called("runs", journal, "--json"))
    assert [row["agent"] for row in found] == ["asker", "endless", "desk"]
    assert all({"run", "label", "asked_at", "records", "position", "wake_at"} <= row.keys() for row in found)


def test_runs_of_one_label(journal: Path) -> None:
    (row,) = objects(ok_called("runs", journal, "--label", "awaiting_approval", "--json"))
    assert row["agent"] == "desk"


def test_a_label_that_no_run_has_is_answered_with_those_there_are(journal: Path) -> None:
    done = called("runs", journal, "--label", "awaiting")
    assert (done.returncode, done.stderr) == (0, "")
    for label in ("succeeded (1)", "failed (1)", "awaiting_approval (1)"):
        assert label in done.stdout


def test_runs_shows_the_newest_and_says_that_there_are_more(journal: Path) -> None:
    done = called("runs", journal, "-n", "1")
    assert [row.split()[1] for row in done.stdout.splitlines()[1:]] == ["desk"]
    assert "2 older runs" in done.stderr
    assert len(ok_called("runs", journal, "-n", "0").splitlines()) == 4


def test_show_tells_each_event_in_one_line_and_then_the_answer(journal: Path) -> None:
    run = str(objects(ok_called("runs", journal, "--label", "succeeded", "--json"))[0]["run"])
    text = ok("show", journal, run)
    lines = text.splitlines()
    assert lines[0] == f"run {run}  succeeded"
    assert "asked by tester (asserted, api)" in lines[1]
    told = [line for line in lines if line.lstrip().startswith("+")]
    assert len(told) == len(one_object(ok_called("show", journal, run, "--json"))["events"])  # type: ignore[arg-type]
    assert 'tester        asks asker: "Please, asker"' in told[0]
    assert 'model         wants lookup({"ticket": "INC-1"})' in text
    assert '0.0 returns {"ticket":"INC-1","status":"open"}' in text
    assert lines[-3:] == ["Answer:", "  It is open.", "  Really \\x1b[31mred\\x1b[0m."]


def test_show_as_json_is_one_object_with_state_and_events(journal: Path) -> None:
    run = str(objects(ok_called("runs", journal, "--label", "succeeded", "--json"))[0]["run"])
    found = one_object(ok_called("show", journal, run, "--json"))
    assert found["label"] == "succeeded"
    assert found["output"] == "It is open.\nReally \x1b[31mred\x1b[0m."
    assert found["usage"] == {"input_tokens": 20, "output_tokens": 10, "unknown": 0}
    events = found["events"]
    assert isinstance(events, list)
    assert events[0]["type"] == "run.submitted"
    assert events[0]["data"]["by"]["id"] == "tester"
    assert "salt" not in events[0]["data"]
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))


def test_show_says_what_a_run_waits_for_and_the_very_command(journal: Path) -> None:
    run = str(objects(ok_called("runs", journal, "--label", "awaiting_approval", "--json"))[0]["run"])
    lines = ok_called("show", journal, run).splitlines()
    assert any("wants to call close_ticket (idempotent_write)" in line for line in lines)
    assert '  ticket = "INC-1"' in lines
    (command,) = [line.strip() for line in lines if "trouper approve" in line]
    assert command.startswith(f"trouper approve {journal} {run}/0.0 --as ")


def test_show_says_how_a_run_at_its_limit_goes_on(journal: Path) -> None:
    run = str(objects(ok_called("runs", journal, "--label", "failed", "--json"))[0]["run"])
    assert f"trouper raise-limit {journal} {run} --steps" in ok_called("show", journal, run)


@pytest.mark.parametrize("change", [str, str.lower, lambda run: run[:-1], lambda run: run[:24].lower()])
def test_show_takes_the_beginning_of_a_run_id(journal: Path, change: object) -> None:
    assert callable(change)
    run = str(objects(ok_called("runs", journal, "--json"))[1]["run"])
    assert one_object(ok_called("show", journal, change(run), "--json"))["run"] == run


def test_a_beginning_that_several_runs_share_is_refused_with_their_names(journal: Path) -> None:
    runs = [str(row["run"]) for row in objects(ok_called("runs", journal, "--json"))]
    done = called("show", journal, "0")
    assert done.returncode == 2
    assert all(run in complaint(done) for run in runs)


@pytest.mark.parametrize("name", ["ZZZ", "%", "_", "0_", "no/such"])
def test_a_run_that_is_not_there(journal: Path, name: str) -> None:
    done = called("show", journal, name)
    assert (done.returncode, done.stdout) == (3, "")
    assert complaint(done) == f"there is no run {name} in this journal"


def test_approvals_has_everything_that_a_decision_needs(journal: Path) -> None:
    found = one_object(ok("approvals", journal, "--json"))
    assert found["agent"] == "desk"
    assert found["tool"] == "close_ticket"
    assert found["arguments"] == {"ticket": "INC-1"}
    assert found["effect"] == "idempotent_write"
    assert isinstance(requester := found["requested_by"], dict)
    assert requester["id"] == "tester"
    assert found["expires_at"] is None
    text = ok_called("approvals", journal)
    for fact in (found["digest"], found["action"], "desk, asked by tester, wants to call close_ticket"):
        assert str(fact) in text


def test_approvals_of_a_journal_where_nothing_waits(tmp_path: Path, journals: Journals) -> None:
    journals.ended(path := tmp_path / "j.db")
    done = called("approvals", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing waits for a person\n", "")


def test_approvals_lists_calls_in_doubt_behind_those_that_wait(tmp_path: Path) -> None:
    waiting_run(path := tmp_path / "j.db", "desk")
    doubtful = waiting_run(path, "payer")
    first, second = objects(ok_called("approvals", path, "--json"))
    assert (first["kind"], first["tool"], first["phase"]) == ("approval", "close_ticket", "awaiting")
    assert (second["kind"], second["tool"], second["phase"]) == ("doubt", "wire", "unresolved")
    assert second["action"] == f"{doubtful}/0.0"
    waiting, heading, doubt = ok_called("approvals", path).partition("\nIn doubt: 1 call\n")
    assert heading
    assert "wants to call close_ticket" in waiting
    assert "Nobody knows whether wire took effect" in doubt
    assert f"trouper resolve {path} {doubtful}/0.0 applied --as " in doubt


def test_a_call_left_in_doubt_by_a_cancelled_run_still_waits_for_a_person(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(path := tmp_path / "j.db", "payer")
    ok_called("cancel", path, run)
    assert f"{run}/0.0" in ok_called("approvals", path)
    with daemon(path) as process, started("tail", path, "--after", "0", "--json") as tail:
        tail.read_until(tail.out, '"run.cancelled"')
        assert process.process.poll() is None
    (row,) = objects(ok_called("runs", path, "--json"))
    assert row["label"] == "cancelled-in-doubt"
    assert one_object(ok_called("approvals", path, "--json"))["action"] == f"{run}/0.0"
    ok_called("resolve", path, f"{run}/0.0", "abandon")
    assert ok_called("approvals", path, "--json") == ""


def test_tail_prints_the_last_records_and_ends_when_told_not_to_follow(journal: Path) -> None:
    everything = ok("tail", journal, "--no-follow", "--after", "0").splitlines()
    assert [int(line.split()[0]) for line in everything] == list(range(1, len(everything) + 1))
    assert ok_called("tail", journal, "--no-follow", "-n", "3").splitlines() == everything[-3:]
    assert (
        ok_called("tail", journal, "--no-follow", "--after", str(len(everything) - 2)).splitlines() == everything[-2:]
    )


def test_tail_that_begins_in_the_middle_of_a_run_knows_its_tools(journal: Path) -> None:
    (line,) = ok_called("tail", journal, "--no-follow", "-n", "1").splitlines()
    assert line.split()[3:6] == ["close_ticket", "0.0", "waits"]


def test_tail_of_one_run(journal: Path) -> None:
    run = str(objects(ok_called("runs", journal, "--json"))[0]["run"])
    records = objects(ok_called("tail", journal, "--no-follow", "--after", "0", "--run", run[:20], "--json"))
    assert {record["stream"] for record in records} == {f"run/{run}"}
    assert records[-1]["type"] == "run.succeeded"


@pytest.mark.parametrize("number", [0, 2, 1000])
def test_tail_of_one_run_begins_with_the_last_of_that_run(journal: Path, number: int) -> None:
    run = str(objects(ok_called("runs", journal, "--json"))[0]["run"])
    whole = objects(ok_called("tail", journal, "--no-follow", "--after", "0", "--run", run, "--json"))
    last = objects(ok_called("tail", journal, "--no-follow", "-n", str(number), "--run", run, "--json"))
    assert last == whole[max(0, len(whole) - number) :]


@pytest.mark.parametrize("command", ["runs", "tail"])
def test_a_number_below_zero_is_used_wrongly(journal: Path, command: str) -> None:
    done = called(command, journal, "-n", "-1")
    assert (done.returncode, done.stdout) == (2, "")


def test_tail_follows_what_other_processes_append_and_ends_quietly_on_ctrl_c(
    tmp_path: Path, journals: Journals
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    with started("tail", journal, "--after", "0", "--json") as tail:
        tail.read_until(tail.out, '"run.submitted"')
        assert "cancelled by maria" in ok("cancel", journal, run, "--as", "maria")
        requested = json.loads(tail.read_until(tail.out, '"run.cancel_requested"')[-1])
        assert requested["data"]["by"]["id"] == "maria"
        with daemon(journal):  # nobody asks it anything: it only goes on with what there is
            tail.read_until(tail.out, '"run.cancelled"')
        tail.process.send_signal(signal.SIGINT)
        assert tail.end() == (130, "")


def test_looking_works_beside_a_running_daemon(tmp_path: Path) -> None:
    journal = tmp_path / "agents.db"
    with daemon(journal, "desk") as process:
        process.read_until(process.out, "awaiting_approval")
        (row,) = objects(ok("runs", journal, "--json"))
        assert row["label"] == "awaiting_approval"
        assert "close_ticket" in ok("show", journal, str(row["run"]))
        assert "self-consistent" in ok("verify", journal)
        assert process.process.poll() is None
