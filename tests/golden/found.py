"""What stands beside the golden run journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict, cast

FOLDER = Path(__file__).parent
GOLDEN = sorted(path.stem for path in FOLDER.glob("runs-*.json"))


class Facts(TypedDict):
    asked: str
    label: str
    events: list[str]
    output: str | None
    definition: str


class SessionFacts(TypedDict):
    events: list[str]
    turns: list[tuple[str, int, str, int]]


class RuleFacts(TypedDict):
    events: list[str]


class Described(TypedDict):
    records: int
    root: str
    runs: dict[str, Facts]
    sessions: dict[str, SessionFacts]
    rules: RuleFacts


def described(name: str) -> Described:
    """What a golden journal was written with."""
    return cast("Described", json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def run_of(golden: Path, asked: str) -> str:
    """The run with that input."""
    (run,) = [run for run, facts in described(golden.stem)["runs"].items() if facts["asked"] == asked]
    return run
