"""``spend``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio
from tests.cli.program import ROOT, called, complaint, objects, ok_called

from trouper_journal import Journal


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copy(ROOT / "tests" / "golden" / "runs-1.db", tmp_path / "j.db"))


def test_spend_sums_up_by_agent_and_in_all(golden: Path) -> None:
    before = golden.read_bytes()
    head, *rows, last = ok_called("spend", golden).splitlines()
    assert head.split()[:2] == ["agent", "runs"]
    saver = next(row for row in rows if row.startswith("saver"))
    assert saver.split() == ["saver", "5", "13", "7", "130", "65", "0.000455"]
    assert last.startswith("all ")
    assert "0.000455  unknown for 1 request, 131 without a price" in last
    assert (golden.read_bytes(), list(golden.parent.iterdir())) == (before, [golden])


def test_spend_for_programs_by_several_things(golden: Path) -> None:
    found = objects(ok_called("spend", golden, "--by", "day", "--by", "model", "--json"))
    assert all(row.keys() >= {"day", "model", "cost"} and "agent" not in row for row in found)
    assert sum(int(str(row["cost"])) for row in found) == 455_000
    days = {str(row["day"]) for row in found}
    some = objects(ok_called("spend", golden, "--by", "day", "--since", min(days), "--until", min(days), "--json"))
    assert [row["day"] for row in some] == [min(days)]


def test_spend_of_nothing_and_of_what_is_no_day(golden: Path, tmp_path: Path) -> None:
    done = called("spend", golden, "--since", "2100-01-01")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing was spent in these days\n", "")
    wrong = called("spend", golden, "--since", "monday")
    assert wrong.returncode == 2
    assert "'monday' is not a day, such as 2026-11-30" in complaint(wrong)
    assert called("spend", tmp_path / "missing.db").returncode == 3


def test_spend_of_an_empty_journal(tmp_path: Path) -> None:
    async def make() -> None:
        async with Journal.open(tmp_path / "empty.db"):
            pass

    trio.run(make)
    done = called("spend", tmp_path / "empty.db")
    assert (done.returncode, done.stdout) == (0, "nothing was spent yet\n")
