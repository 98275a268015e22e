"""Golden run journals for a test to go on with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden.found import FOLDER, GOLDEN


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, because opening a file may write to it."""
    return Path(shutil.copy(FOLDER / f"{request.param}.db", tmp_path))
