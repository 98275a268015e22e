"""examples/research_team.py: researchers on one budget, killed while it waits for a person, and gone on with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.program import ROOT, Started, called, objects, ok_called

EXAMPLE = ROOT / "examples" / "research_team.py"


def team(folder: Path, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    command = [sys.executable, str(EXAMPLE), *arguments]
    return subprocess.run(command, cwd=folder, input=answer, capture_output=True, text=True, timeout=60)


def events(folder: Path) -> dict[str, object]:
    """How many events each run of the tree has."""
    rows = objects(ok_called("runs", folder / "team.db", "--all", "--json"))
    return {str(row["run"]): row["events"] for row in rows}


def test_killed_at_the_question_it_asks_again_and_researches_nothing_twice(tmp_path: Path) -> None:
    with Started(sys.executable, EXAMPLE, cwd=tmp_path) as process:
        asked = process.out.readline()
        assert asked.startswith("editor wants to publish: Rain fell on 117 days")
        process.process.kill()
    before = events(tmp_path)
    assert len(before) == 4
    done = team(tmp_path, answer="y\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-5:] == [
        "publish? [y/n] researcher 0.0: succeeded, 2 calls",
        "researcher 0.1: succeeded, 2 calls",
        "researcher 0.2: succeeded, 2 calls",
        "notes: 3",
        "Done: published 111 characters",
    ]
    after = events(tmp_path)
    assert after.keys() == before.keys()
    assert {run: count for run, count in after.items() if "~" in run} == {
        run: count for run, count in before.items() if "~" in run
    }
    assert called("replay", tmp_path / "team.db").returncode == 0


def test_researchers_share_the_editors_budget(tmp_path: Path) -> None:
    done = team(tmp_path, "wind, rain", "--max-model-calls", "4")
    assert done.returncode == 1
    assert "the limit of 4 model calls is reached with 4 spent" in done.stderr
