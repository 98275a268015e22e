"""A fork whose process is killed anywhere: it is one fork, it does nothing unasked, and leaves the other run alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.recovery.crash import ROOT
from tests.recovery.fork_lives import Told


def test_forks_are_contained_and_touch_nothing_killed_at_every_commit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.recovery.fork_lives", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    played = {name: Told(**told) for name, told in json.loads((tmp_path / "told.json").read_text()).items()}
    assert played["undisturbed"].commits > 15
    for name, told in played.items():
        assert told.said == "", name
        assert told.problems == [], name
        assert told.outputs == ["done", "differently"], name
        # The run, its helper, and the same of the fork.
        assert told.runs == 4, name
        assert told.recorded == ["0.0"], name
        assert "0.0" not in told.started, name
        # What the run did is not done again in the fork; what is new was approved, in the helper too.
        assert set(told.effects) == {"origin/0.0", "origin~1.0/0.0", "fork/0.1", "fork~1.0/0.0"}, name
    killed = [told for told in played.values() if any(told.lives)]
    assert len(killed) >= played["undisturbed"].commits - 2
