"""What people decide: from another process than the daemon's, which may be running or not."""

from __future__ import annotations

import getpass
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.conftest import Journals
from tests.cli.program import called, complaint, daemon, objects, ok, ok_called, one_object, trouper


def events(journal: Path, run: str, kind: str) -> list[dict[str, object]]:
    """Fields of a run's events of one type."""
    found = one_object(ok_called("show", journal, run, "--json"))["events"]
    assert isinstance(found, list)
    return [event["data"] for event in found if event["type"] == kind]


def test_an_approval_from_another_process_wakes_the_daemons_run(tmp_path: Path) -> None:
    journal = tmp_path / "agents.db"
    with daemon(journal, "desk") as process:
        run = json.loads(process.read_until(process.out, "awaiting_approval")[-1])["run"]
        ok("approve", journal, f"{run}/0.0", "--as", "maria", "--reason", "checked")
        assert json.loads(process.read_until(process.out, "ended")[-1]) == {"ended": run, "label": "succeeded"}
        assert process.end() == (0, "")
    (decided,) = events(journal, run, "approval.decided")
    assert decided["by"] == {
        "id": "maria",
        "kind": "person",
        "via": f"os-user:{getpass.getuser()}",
        "assurance": "asserted",
    }
    assert decided["reason"] == "checked"
    (receipt,) = events(journal, run, "action.receipted")
    assert receipt["text"] == "closed INC-1"


def test_a_denial_reaches_the_model_with_its_reason(tmp_path: Path) -> None:
    journal = tmp_path / "agents.db"
    with daemon(journal, "desk") as process:
        run = json.loads(process.read_until(process.out, "awaiting_approval")[-1])["run"]
        ok("deny", journal, f"{run}/0.0", "--as", "otto", "--reason", "not today")
        process.read_until(process.out, "succeeded")
    (receipt,) = events(journal, run, "action.receipted")
    assert receipt["outcome"] == "error"
    assert "denied by otto: not today" in str(receipt["text"])


def test_a_decision_that_nobody_sees_now_is_seen_at_the_next_start(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    found = one_object(ok("approve", journal, f"{run}/0.0", "--as", "maria", "--json"))
    assert (found["decision"], found["phase"]) == ("approve", "approved")
    with daemon(journal, "desk") as process:
        assert json.loads(process.read_until(process.out, "ended")[-1]) == {"ended": run, "label": "succeeded"}


def test_edited_arguments_run_and_both_are_kept(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    edit = '{"ticket": "INC-2"}'
    found = one_object(ok("approve", journal, f"{run}/0.0", "--as", "maria", "--arguments", edit, "--json"))
    assert found["arguments"] == {"ticket": "INC-2"}
    assert found["original_arguments"] == {"ticket": "INC-1"}
    with daemon(journal, "desk") as process:
        process.read_until(process.out, "ended")
    (receipt,) = events(journal, run, "action.receipted")
    assert str(receipt["text"]).endswith("closed INC-2")


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ('{"ticket": 3}', "ticket: 3 is not of type 'string'"),
        ('{"ticket": "a", "force": true}', "Additional properties are not allowed"),
        ("{}", "'ticket' is a required property"),
        ("[1]", "is not a JSON object"),
        ('{"ticket": NaN}', "is not a JSON object"),
        ("{", "is not a JSON object"),
        ("", "is not a JSON object"),
        ('{"ticket": "a", "ticket": "b"}', "gives each name once"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_and_the_call_still_waits(
    tmp_path: Path, journals: Journals, edit: str, why: str
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = called("approve", journal, f"{run}/0.0", "--arguments", edit)
    assert done.returncode == 2
    assert why in complaint(done)
    assert one_object(ok_called("approvals", journal, "--json"))["action"] == f"{run}/0.0"


def test_a_decision_holds_only_for_the_call_that_was_shown(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    seen = str(one_object(ok_called("approvals", journal, "--json"))["digest"])
    for other in ("0" * 12, seen[:7]):
        done = called("approve", journal, f"{run}/0.0", "--digest", other)
        assert done.returncode == 4
        assert "is not the call that was shown" in complaint(done)
    assert f"--digest {seen[:12]}" in ok("approvals", journal)
    assert one_object(ok("approve", journal, f"{run}/0.0", "--digest", seen[:12], "--json"))["phase"] == "approved"


def test_repeating_a_decision_changes_nothing_and_the_opposite_is_a_conflict(
    tmp_path: Path, journals: Journals
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    first = ok("approve", journal, f"{run}/0.0", "--as", "maria", "--reason", "first")
    assert ok("approve", journal, f"{run}/0.0", "--as", "maria", "--reason", "second") == first
    again = ok("approve", journal, f"{run}/0.0", "--as", "otto", "--reason", "second")
    assert again == first.replace("approved by maria", "was approved before by maria") != first
    done = trouper("deny", journal, f"{run}/0.0", "--as", "otto")
    assert done.returncode == 4
    assert complaint(done) == f"action {run}/0.0 was decided before: approve by maria; nothing was changed"
    assert len(events(journal, run, "approval.decided")) == 1


def test_each_of_two_calls_gets_its_own_decision(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db", "two")
    assert [call["action"] for call in objects(ok("approvals", journal, "--json"))] == [f"{run}/0.0", f"{run}/0.1"]
    ok("approve", journal, f"{run}/0.1", "--as", "maria")
    ok("deny", journal, f"{run}/0.0", "--as", "maria")
    with daemon(journal, "two") as process:
        process.read_until(process.out, "ended")
    outcomes = {receipt["action"]: receipt["outcome"] for receipt in events(journal, run, "action.receipted")}
    assert outcomes == {"0.0": "error", "0.1": "ok"}


@pytest.mark.parametrize("action", ["{run}", "{run}/", "{run}/0", "{run}/0.0/1.0", "0.0", "/0.0", "nonsense", ""])
@pytest.mark.parametrize("command", ["approve", "deny", "resolve"])
def test_what_does_not_name_a_call_is_used_wrongly_and_told_the_form(
    tmp_path: Path, journals: Journals, command: str, action: str
) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = called(command, journal, action.format(run=run), *(["applied"] if command == "resolve" else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not name a call" in complaint(done)
    assert "RUN/1.0" in complaint(done)
    assert len(objects(ok_called("approvals", journal, "--json"))) == 1


@pytest.mark.parametrize("action", ["{run}/7.0", "ZZZ/0.0"])
def test_an_action_that_is_not_there(tmp_path: Path, journals: Journals, action: str) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = called("approve", journal, action.format(run=run))
    assert done.returncode == 3
    assert complaint(done)
    assert len(objects(ok_called("approvals", journal, "--json"))) == 1


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("applied", "Took effect, as maria found: bank statement"),
        ("not_applied", "Did not take effect, as maria found: bank statement"),
        ("abandon", "Given up by maria; it is unknown whether it took effect: bank statement"),
    ],
)
def test_a_doubt_is_settled_by_a_named_person_with_evidence(tmp_path: Path, verdict: str, text: str) -> None:
    journal = tmp_path / "agents.db"
    with daemon(journal, "payer") as process:
        run = json.loads(process.read_until(process.out, "in_doubt")[-1])["run"]
        shown = ok("show", journal, run)
        assert f"trouper resolve {journal} {run}/0.0 applied" in shown
        assert "connection reset while sending 3" in shown
        given = ["--as", "maria", "--evidence", "bank statement"]
        found = one_object(ok("resolve", journal, f"{run}/0.0", verdict, *given, "--json"))
        assert found["verdict"] == verdict
        process.read_until(process.out, "succeeded")
    (receipt,) = events(journal, run, "action.receipted")
    assert str(receipt["text"]).startswith(text)
    done = trouper("resolve", journal, f"{run}/0.0", "run_again")
    assert done.returncode == 4
    assert "not in doubt" in complaint(done)


def test_resolving_what_is_in_no_doubt_is_a_conflict(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = called("resolve", journal, f"{run}/0.0", "applied")
    assert done.returncode == 4
    assert "not in doubt: it is awaiting" in complaint(done)


def test_cancelling_ends_the_run_says_by_whom_and_may_be_repeated(tmp_path: Path) -> None:
    journal = tmp_path / "agents.db"
    with daemon(journal, "desk") as process:
        run = json.loads(process.read_until(process.out, "awaiting_approval")[-1])["run"]
        ok("cancel", journal, run, "--as", "maria", "--reason", "mistake")
        assert "cancelled by maria: mistake" in process.read_until(process.out, "error")[-1]
        process.read_until(process.out, '"cancelled"')
    found = one_object(ok("cancel", journal, run, "--as", "otto", "--json"))
    assert isinstance(cancel := found["cancel"], dict)
    assert (cancel["by"]["id"], cancel["reason"]) == ("maria", "mistake")
    done = trouper("approve", journal, f"{run}/0.0")
    assert done.returncode in {3, 4}


def test_what_is_over_cannot_be_cancelled_resumed_or_given_more_steps(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "agents.db")
    commands: list[Sequence[str]] = [("cancel",), ("resume",), ("raise-limit", "--steps", "1")]
    for name, *rest in commands:
        done = called(name, journal, run, *rest)
        assert done.returncode == 4
        assert "succeeded" in complaint(done)


def test_more_steps_let_a_run_go_on_that_had_failed_at_its_limit(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "agents.db", "endless")
    before = one_object(ok("show", journal, run, "--json"))
    assert (before["label"], before["steps"]) == ("failed", 3)
    refused = trouper("resume", journal, run)
    assert refused.returncode == 4
    assert "raise-limit" in complaint(refused)
    ok("raise-limit", journal, run, "--steps", "2", "--as", "maria")
    with daemon(journal, "endless") as process:
        process.read_until(process.out, "ended")
    after = one_object(ok("show", journal, run, "--json"))
    assert (after["label"], after["steps"]) == ("failed", 5)


def test_without_as_the_system_user_decides(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = trouper("approve", journal, f"{run}/0.0", "--json", env={"LOGNAME": "boss", "USER": "boss"})
    found = one_object(done.stdout)
    assert isinstance(by := found["decided_by"], dict)
    # The environment may say what it likes: only the operating system is asked.
    assert by["id"] != "boss"
    assert by["via"] == f"os-user:{by['id']}"
