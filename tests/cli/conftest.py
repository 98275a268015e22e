"""Journals made once and copied: starting a daemon is what costs time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import final

import pytest
from tests.cli.program import ended_run, waiting_run


@final
class Journals:
    """Gives copies of journals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, str] = {}

    def waiting(self, into: Path, agent: str = "desk") -> str:
        """A journal whose daemon was killed when its one run had to wait for a person; the run's id."""
        return self._copy(into, agent, waits=True)

    def ended(self, into: Path, agent: str = "asker") -> str:
        """A journal whose one run has ended; the run's id."""
        return self._copy(into, agent, waits=False)

    def _copy(self, into: Path, agent: str, *, waits: bool) -> str:
        original = self._folder / f"{agent}.db"
        if agent not in self._made:
            self._made[agent] = (waiting_run if waits else ended_run)(original, agent)
        for suffix in ("", "-wal"):
            if (source := original.with_name(original.name + suffix)).exists():
                shutil.copy(source, into.with_name(into.name + suffix))
        return self._made[agent]


@pytest.fixture(scope="session")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    return Journals(tmp_path_factory.mktemp("journals"))
