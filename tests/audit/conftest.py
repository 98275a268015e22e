"""Journals to audit: written by others, copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def golden_runs(tmp_path: Path) -> Path:
    """A journal that holds every event of its release: runs, sub-agents, sessions, standing rules."""
    path = tmp_path / "runs.db"
    shutil.copy(GOLDEN / "runs-1.db", path)
    return path
