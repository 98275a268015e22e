"""The kit's page and example say what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from trouper.kit._lifecycle import TRANSITIONS

ROOT = Path(__file__).parents[2]


def test_the_diagram_draws_the_table() -> None:
    page = (ROOT / "docs" / "actors.md").read_text()
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)$", page, re.MULTILINE)
    table = [
        (state.value, following.value, incident.name)
        for state, row in TRANSITIONS.items()
        for incident, following in row.items()
    ]
    assert sorted(drawn) == sorted(table)


def test_the_example_runs_and_shows_a_jam_a_restart_and_an_end() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "actors.py"], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert lines.count("    shop/desk/printer warms up") == 3
    assert "Ben gets no 'a stapled page': Jammed('a stapled page')" in lines
    assert "    shop/desk/printer is out of order (failed)" in lines
    assert lines[-1] == "    shop/desk closes"
    assert sum(line.startswith(("Ada gets '", "Ben gets '", "Cleo gets '")) for line in lines) == 4
