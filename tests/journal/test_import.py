"""What is imported when the first file is opened may fail to import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from trouper_journal import Journal


async def test_an_import_that_fails_is_an_error_and_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio_asyncio", None)
    with trio.fail_after(20), pytest.RaisesGroup(ImportError):
        async with Journal.open(tmp_path / "a.db"):
            pass
