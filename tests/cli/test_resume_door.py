"""``trouper run --resume``: a run that is not there sets nothing going."""

from __future__ import annotations

from pathlib import Path

import trio
from tests.cli.conftest import Journals
from tests.cli.program import called, complaint

from trouper_journal import Journal


async def _position(journal: Path) -> int:
    async with Journal.open(journal) as opened:
        return await opened.position()


def test_a_mistyped_run_leaves_the_journal_undriven(tmp_path: Path, journals: Journals) -> None:
    journals.waiting(journal := tmp_path / "agents.db")
    before = trio.run(_position, journal)
    agents = Path(__file__).with_name("agents.py")
    done = called("run", f"{agents}:desk", "--journal", journal, "--resume", "zz")
    assert done.returncode == 3
    assert "zz" in complaint(done)
    assert trio.run(_position, journal) == before
