"""The table for people, and the JSON for programs."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.floor import RawTable
from benchmarks.measure import Figures, Key

_WIDE: Final = 130
_PACKAGES: Final = ("trouper", "trio", "trio-asyncio", "attrs", "cattrs", "msgpack", "aiosqlite")


def commit_milliseconds(folder: Path) -> float:
    """What one durable commit of a row costs here: half of what all the rates depend on."""
    with closing(RawTable(folder / "commit.db")) as table:
        taken = []
        for version in range(50):
            begun = perf_counter()
            table.commit([("one", version, b"x" * 300)])
            taken.append(perf_counter() - begun)
    return sorted(taken)[len(taken) // 2] * 1e3


def machine(folder: Path) -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: version(name) for name in _PACKAGES},
        "commit_ms": round(commit_milliseconds(folder), 3),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def document(
    figures: Mapping[str, Figures], keys: Sequence[Key], about: Mapping[str, object], *, quick: bool
) -> dict[str, object]:
    """The JSON document."""
    return {
        "ratios": {key.name: round(figures[key.name].ratio, 4) for key in keys},
        "figures": {key.name: _figure(key, figures[key.name]) for key in keys},
        "machine": dict(about),
        "quick": quick,
    }


def _figure(key: Key, figures: Figures) -> dict[str, object]:
    return {
        "ours": figures.ours,
        "floor": figures.floor,
        "unit": key.unit,
        "ratio": figures.ratio,
        "target": key.target,
        "good": key.good,
        "ok": key.met(figures.ratio),
        "pairs": [[pair.ours, pair.floor] for pair in figures.pairs],
        **figures.extra,
    }


def table(figures: Mapping[str, Figures], keys: Sequence[Key], *, wide: bool) -> Table:
    """The table for people; a wide one says what is compared with what."""
    result = Table(title="Trouper beside the least code that does the same", title_justify="left", box=box.SIMPLE)
    result.add_column("key", no_wrap=True)
    for heading in ("ours", "floor"):
        result.add_column(heading, justify="right", no_wrap=True)
    result.add_column("unit", no_wrap=True)
    result.add_column("ratio", justify="right", no_wrap=True, style="bold")
    result.add_column("target", justify="right", no_wrap=True)
    result.add_column("", no_wrap=True)
    if wide:
        result.add_column("from - to", justify="right", no_wrap=True, style="dim")
        result.add_column("what is compared with what", style="dim")
    for key in keys:
        taken = figures[key.name]
        cells: list[str | Text] = [
            key.name,
            number(taken.ours),
            number(taken.floor),
            key.unit,
            number(taken.ratio),
            f"{'≥' if key.good == 'at_least' else '≤'} {key.target:g}",
            Text("ok", style="green") if key.met(taken.ratio) else Text("miss", style="bold red"),
        ]
        result.add_row(*cells, *([_spread(taken), f"{key.ours} / {key.floor}"] if wide else []))
    return result


def _spread(figures: Figures) -> str:
    ratios = sorted(pair.ratio for pair in figures.pairs)
    return f"{number(ratios[0])} - {number(ratios[-1])}" if len(ratios) > 1 else ""


def number(value: float) -> str:
    """Three digits or so."""
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def show(
    console: Console, figures: Mapping[str, Figures], keys: Sequence[Key], about: Mapping[str, object], *, quick: bool
) -> None:
    """Print the table and what it was taken on."""
    console.print(table(figures, keys, wide=console.width >= _WIDE))
    console.print(
        f"{about['processor']}, {about['cores']} cores (load {about['load']:.1f}); Python {about['python']}, "
        f"SQLite {about['sqlite']}; a durable commit of one row takes {about['commit_ms']} ms",
        style="dim",
        highlight=False,
    )
    if quick:
        console.print("quick: the sizes are tiny, the numbers mean nothing", style="bold yellow")
