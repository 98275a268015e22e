"""Several people at several terminals, and approvals that reach further than their call."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Journals
from tests.cli.program import called, complaint, daemon, objects, ok_called, one_object


def test_two_people_decide_at_two_terminals_and_everybody_sees_who_has(tmp_path: Path, journals: Journals) -> None:
    journal = tmp_path / "a.db"
    run = journals.waiting(journal, "board")
    shown = ok_called("approvals", journal)
    assert "2 different people of maria, otto, tester must approve; not tester, who asked for the run." in shown
    assert 'agent.approvals[0] People: "four eyes"' in shown
    # Whoever looks here is none of them, so that no command is printed that would be refused.
    assert f"approve {journal} {run}/0.0 --as NAME --digest" in shown
    denied = called("approve", journal, f"{run}/0.0", "--as", "tester")
    assert denied.returncode == 4
    assert "tester asked for the run, and separation of duties lets somebody else approve" in complaint(denied)
    assert called("approve", journal, f"{run}/0.0", "--as", "eve").returncode == 4
    vote = ("approve", journal, f"{run}/0.0", "--as", "maria", "--reason")
    said = ok_called(*vote, "checked")
    assert re.search(r'approved by maria \(asserted, os-user:.*\): "checked"; it waits for 1 more of 2', said)
    # What is told is what is on record, not what was typed the second time.
    assert ok_called(*vote, "checked again") == said
    assert "Approved so far by maria." in ok_called("approvals", journal)
    (waiting,) = objects(ok_called("approvals", journal, "--json"))
    assert (waiting["quorum"], waiting["eligible"]) == (2, ["maria", "otto", "tester"])
    assert [each["id"] for each in waiting["approved_by"]] == ["maria"]  # type: ignore[attr-defined]  # JSON
    assert "approved by otto" in ok_called("approve", journal, f"{run}/0.0", "--as", "otto", "--reason", "fine")
    with daemon(journal, "board") as process:
        process.read_until(process.out, '"ended"')
        assert process.end() == (0, "")
    story = ok_called("show", journal, run)
    assert "waits for 2 people of maria, otto, tester, who did not ask for it themselves" in story


def test_a_rule_is_made_listed_used_and_revoked(tmp_path: Path, journals: Journals) -> None:
    journal = tmp_path / "a.db"
    run = journals.waiting(journal, "desk")
    assert "there are no standing rules" in ok_called("rules", journal)
    call = f"{run}/0.0"
    remember = ("--remember", "--uses", "2", "--until", "2100-01-01T00:00:00+00:00", "--any-agent", "--like", "{}")
    ok_called("approve", journal, call, "--as", "maria", "--reason", "all of them", *remember)
    (rule,) = objects(ok_called("rules", journal, "--json"))
    assert (rule["tool"], rule["arguments"], rule["agent"], rule["left"]) == ("close_ticket", {}, None, 2)
    assert "stands, 2 of 2 left" in ok_called("rules", journal)
    with daemon(journal, "two") as process:
        # Both calls of the other agent run by the rule: nobody is asked.
        process.read_until(process.out, '"ended"')
        assert process.end() == (0, "")
    assert "used up" in ok_called("rules", journal, "list")
    tail = ok_called("tail", journal, "-n", "200", "--no-follow")
    assert f"adds standing rule {rule['rule']}: close_ticket(), any agent, 2 uses" in tail
    assert tail.count(f"standing rule {rule['rule']} lets ") == 2
    revoked = one_object(ok_called("rules", journal, "revoke", str(rule["rule"]), "--as", "otto", "--json"))
    assert (revoked["revoked"], revoked["stands"]) == (True, False)
    assert "revoked by otto" in ok_called("rules", journal)


def test_what_cannot_be_meant(tmp_path: Path, journals: Journals) -> None:
    journal = tmp_path / "a.db"
    run = journals.waiting(journal, "desk")
    for given in (
        ("approve", journal, f"{run}/0.0", "--uses", "2"),
        ("approve", journal, f"{run}/0.0", "--remember", "--until", "soon"),
        ("approve", journal, f"{run}/0.0", "--remember", "--until", "2100-01-01"),
        ("approve", journal, f"{run}/0.0", "--remember", "--like", "INC-1"),
        ("rules", journal, "revoke"),
        ("rules", journal, "list", "X"),
    ):
        assert called(*given).returncode == 2, given
    assert called("approve", journal, f"{run}/0.0", "--remember", "--like", '{"ticket": "B"}').returncode == 4
    assert called("rules", journal, "revoke", "X").returncode == 3
    assert objects(ok_called("rules", journal, "--json")) == []
