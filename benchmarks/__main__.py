"""`python -m benchmarks`: measure all keys, or some; print a table; write JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.status import Status

from benchmarks import export, journal, kit, replay, report, runs, start, steps, talks, trees, verify, wake
from benchmarks.measure import Figures, Group, Key, Scale

GROUPS: Sequence[Group] = (
    *journal.GROUPS,
    *kit.GROUPS,
    *runs.GROUPS,
    *steps.GROUPS,
    *start.GROUPS,
    *wake.GROUPS,
    *trees.GROUPS,
    *talks.GROUPS,
    *replay.GROUPS,
    *verify.GROUPS,
    *export.GROUPS,
)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = sorted({group.name for group in GROUPS} | {key.name for group in GROUPS for key in group.keys})
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure Trouper beside floors.")
    known = ", ".join(names)
    parser.add_argument("--only", action="append", metavar="NAME", choices=names, help=f"only this, or these: {known}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write ratios, figures and the machine's data there")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, and nothing else")
    parser.add_argument(
        "--folder", type=Path, help="where to make the files (a fresh folder in it); by default the system's for such"
    )
    return parser.parse_args(arguments)


def wanted(only: Sequence[str] | None) -> list[Group]:
    """The groups that measure these names; a group measures all of its keys."""
    if not only:
        return list(GROUPS)
    return [group for group in GROUPS if group.name in only or any(key.name in only for key in group.keys)]


def measure(groups: Sequence[Group], folder: Path, *, quick: bool, console: Console) -> dict[str, Figures]:
    """Measure one group after another, and tell how far it has got."""
    found: dict[str, Figures] = {}
    for number, group in enumerate(groups, start=1):
        place = f"[{number}/{len(groups)}] {', '.join(key.name for key in group.keys)}"
        begun = perf_counter()
        with console.status(place) as status:
            found.update(group.measure(Scale(quick, folder, Telling(status, place))))
        console.print(f"{place}: {_line(group.keys, found)}  ({perf_counter() - begun:.0f} s)", highlight=False)
    return found


class Telling:
    """Shows how far a measurement has got."""

    def __init__(self, status: Status, place: str) -> None:
        self._status = status
        self._place = place

    def __call__(self, what: str) -> None:
        self._status.update(f"{self._place}: {what}")


def _line(keys: Sequence[Key], found: dict[str, Figures]) -> str:
    return ", ".join(report.number(found[key.name].ratio) for key in keys)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show, write."""
    given = options(arguments)
    progress = Console(stderr=True)
    groups = wanted(given.only)
    keys = [key for group in groups for key in group.keys]
    with tempfile.TemporaryDirectory(prefix="trouper-bench-", dir=given.folder) as name:
        folder = Path(name)
        about = report.machine(folder)
        found = measure(groups, folder, quick=given.quick, console=progress)
    report.show(Console(), found, keys, about, quick=given.quick)
    if given.json is not None:
        text = json.dumps(report.document(found, keys, about, quick=given.quick), indent=2)
        given.json.write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
