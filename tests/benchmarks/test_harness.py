"""The benchmarks run, in tiny sizes, and give every number that they promise."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import GROUPS, main, wanted
from benchmarks.measure import Figures, Key, Pair, Scale, alternate

ROOT = Path(__file__).parents[2]

KEYS = {
    "append_1": 0.35,
    "append_100": 0.25,
    "replay": 0.2,
    "tell": 0.8,
    "tell_nowait": 3,
    "ask": 0.9,
    "run_1": 0.3,
    "run_100": 0.1,
    "steps_time": 25,
    "steps_bytes": 22,
    "import": 2.5,
    "run_bytes": 12,
    "wake": 100,
    "recover": 3,
    "tree_200": 0.25,
    "session_1000": 1.5,
    "replay_all": 0.08,
    "replay_memory": 1.2,
    "verify": 0.5,
    "export": 0.35,
}
AT_MOST = {"steps_time", "steps_bytes", "import", "run_bytes", "wake", "recover", "session_1000", "replay_memory"}


def test_a_quick_run_prints_a_table_and_writes_every_ratio(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--json", str(file), "--folder", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text("utf-8"))
    assert set(written["ratios"]) == set(KEYS)
    for key, ratio in written["ratios"].items():
        assert math.isfinite(ratio)
        assert ratio > 0
        figure = written["figures"][key]
        assert figure["pairs"]
        assert figure["ours"] > 0
        assert figure["floor"] > 0
        assert figure["unit"]
        assert any(line.split()[:1] == [key] for line in done.stdout.splitlines()), key
    assert written["quick"] is True
    assert written["machine"]["cores"] >= 1
    assert "the numbers mean nothing" in done.stdout
    assert list(tmp_path.iterdir()) == [file], "nothing is left behind"


def test_every_key_has_the_first_target() -> None:
    keys = {key.name: key for group in GROUPS for key in group.keys}
    assert {name: key.target for name, key in keys.items()} == KEYS
    assert {name for name, key in keys.items() if key.good == "at_most"} == AT_MOST


def test_some_can_be_measured_alone_by_group_or_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [group.name for group in wanted(["steps_bytes", "ask"])] == ["ask", "steps"]
    file = tmp_path / "bench.json"
    assert main(["--quick", "--only", "run_bytes", "--json", str(file)]) == 0
    assert list(json.loads(file.read_text("utf-8"))["ratios"]) == ["run_bytes"]
    assert "run_bytes" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "run_bytes" in capsys.readouterr().err, "the message lists what there is"


def test_the_ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians() -> None:
    figures = Figures([Pair(10, 1), Pair(20, 10), Pair(3, 3)])
    assert figures.ratio == 2
    assert (figures.ours, figures.floor) == (10, 3)


@pytest.mark.parametrize(
    ("good", "ratio", "met"),
    [("at_least", 2, True), ("at_least", 1.9, False), ("at_most", 2, True), ("at_most", 2.1, False)],
)
def test_a_target_is_a_bound_from_below_or_above(good: str, ratio: float, met: bool) -> None:
    key = Key("k", "s", "ours", "floor", 2, "at_least" if good == "at_least" else "at_most")
    assert key.met(ratio) is met


def test_sides_take_turns_in_being_the_first(tmp_path: Path) -> None:
    order: list[str] = []

    def side(name: str, value: float) -> float:
        order.append(name)
        return value

    scale = Scale(quick=True, folder=tmp_path, say=lambda _: None)
    pairs = alternate(3, lambda: side("ours", 4), lambda: side("floor", 2), scale)
    assert order == ["ours", "floor", "floor", "ours", "ours", "floor"]
    assert pairs == [Pair(4, 2)] * 3
