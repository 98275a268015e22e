"""Pages and examples show what users may import, and nothing else."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import trio

import trouper.events
from trouper import REGISTRY

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHOWN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *EXAMPLES]


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.name)
def test_pages_and_examples_import_no_inner_module(file: Path) -> None:
    imported = re.findall(
        r"^\s*(?:from|import) ((?:trouper|trouper_journal|trouper_adapters)[\w.]*)", file.read_text(), re.MULTILINE
    )
    inner = [name for name in imported if name.startswith("trouper.core") or "._" in name]
    assert inner == []


def test_every_event_has_a_public_name() -> None:
    assert [
        spec.cls.__name__ for spec in REGISTRY if getattr(trouper.events, spec.cls.__name__, None) is not spec.cls
    ] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_ctrl_c_ends_an_example_without_a_traceback(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trio, "run", interrupted)
    monkeypatch.setattr(sys, "argv", [str(file)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(file), run_name="__main__")
    assert ended.value.code == 130
