"""What waits for a person in a journal that is damaged."""

from __future__ import annotations

from pathlib import Path

from tests.audit.tampering import tampered
from tests.cli.program import called, complaint, objects, ok_called


def test_a_call_that_waits_in_a_damaged_run_is_not_left_out_without_a_word(golden_runs: Path) -> None:
    waiting = objects(ok_called("approvals", golden_runs, "--json"))
    run = str(waiting[0]["run"])
    last = "(SELECT position FROM streams WHERE name = 'run/' || ?)"
    assert tampered(golden_runs, f"UPDATE events SET key = 'another' WHERE position = {last}", run) == 1
    done = called("approvals", golden_runs)
    assert (done.returncode, "do not have the recorded digest" in complaint(done)) == (5, True)
    kept = called("approvals", golden_runs, "--json", "--keep-going")
    assert kept.returncode == 1
    assert complaint(kept)
    assert objects(kept.stdout) == [call for call in waiting if call["run"] != run]
