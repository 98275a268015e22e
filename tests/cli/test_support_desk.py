"""examples/support_desk.py: two people decide at terminals of their own, with an interruption between them."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from tests.cli.program import ROOT, Started, called, complaint, ok, ok_called, one_object

EXAMPLE = ROOT / "examples" / "support_desk.py"


def example(folder: Path) -> Started:
    return Started(sys.executable, EXAMPLE, cwd=folder)


def shown_action(line: str) -> str:
    words = line.split()
    return words[words.index("approve") + 2]


def test_a_large_refund_waits_for_two_who_did_not_ask(tmp_path: Path) -> None:
    journal, till = tmp_path / "support.db", tmp_path / "support.till.json"
    with example(tmp_path) as process:
        lines = process.read_until(process.out, "trouper approve")
        action = shown_action(lines[-1])
        assert 'refund({"order": "R-8", "amount": 300}): 0 of 2 approvals; four eyes' in lines
        assert "it waits for maria or otto to type:" in lines
        # Who asked cannot approve.
        own = called("approve", journal, action, "--as", "ida")
        assert (own.returncode, "separation of duties" in complaint(own)) == (4, True)
        ok("approve", journal, action, "--as", "maria")
        assert "1 of 2 approvals" in process.read_until(process.out, "trouper approve")[0]
        process.process.send_signal(signal.SIGINT)
        assert process.end()[0] == 130
    # What is small was paid without anybody.
    assert list(json.loads(till.read_text()).values()) == [["R-7", 15]]
    ok("approve", journal, action, "--as", "otto", "--reason", "order checked")
    with example(tmp_path) as process:
        out, _ = process.process.communicate(timeout=60)
        assert process.process.returncode == 0
    assert out.endswith("I have done what I could: paid 15 for R-7; paid 300 for R-8.\n")
    assert list(json.loads(till.read_text()).values()) == [["R-7", 15], ["R-8", 300]]
    events = one_object(ok_called("show", journal, action.partition("/")[0], "--json"))["events"]
    assert isinstance(events, list)
    planned = [event["data"] for event in events if event["type"] == "action.planned"]
    assert [each["grounds"]["policy"] for each in planned] == [
        "agent.approvals[0] AutoApprove",
        "agent.approvals[1] People",
    ]
    votes = [event["data"]["by"]["id"] for event in events if event["type"] == "approval.decided"]
    assert votes == ["maria", "otto"]
