"""``doctor`` on the command line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.cli.conftest import Journals
from tests.cli.program import ROOT, called, objects, ok_called, one_object


def test_a_journal_that_waits_is_examined_and_advice_given(journals: Journals, tmp_path: Path) -> None:
    run = journals.waiting(journal := tmp_path / "j.db")
    os.chmod(journal, 0o600)
    told = ok_called("doctor", journal, "--waiting", "0")
    assert f"approvals: run {run} has waited for an approval" in told
    assert "trouper approvals" in told
    assert "tools: tool wire of agent desk counts as a write that nobody can look up" in told
    found = one_object(ok_called("doctor", journal, "--waiting", "0", "--json"))
    assert (found["ok"], found["records"]) == (
        True,
        len(objects(ok_called("tail", journal, "-n", "1000", "--no-follow", "--json"))),
    )


def test_damage_is_exit_code_1(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "golden" / "journal-1-tampered.db", journal := tmp_path / "j.db")
    done = called("doctor", journal)
    assert done.returncode == 1
    assert "records: the stored bytes do not have the recorded digest (position 3)" in done.stdout
    found = one_object(called("doctor", journal, "--json").stdout)
    assert found["ok"] is False
    assert called("doctor", tmp_path / "missing.db").returncode == 3
