"""examples/what_if.py: the fork answers otherwise, and nothing is paid a second time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "what_if.py"


def test_the_what_if_example_pays_once_however_often_it_is_run(tmp_path: Path) -> None:
    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, str(EXAMPLE), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    first = run()
    assert first[0].endswith('pay({"number": "R-7", "amount": 120}): paid 120')
    assert 'pay({"number": "R-7", "amount": 30}): Simulated' in first[1]
    assert first[2] == "paid, in fact: R-7 120"
    assert run() == first
    other = run("--balance", "50")
    assert other[0] == first[0]
    assert '"amount": 50' in other[1]
    assert other[2] == "paid, in fact: R-7 120"
