"""What is imported when the first file is opened may fail to import."""

from __future__ import annotations

import subprocess
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


def test_who_imports_the_package_does_not_pay_for_what_only_auditors_use() -> None:
    rare = ("_verify", "_verify_fast", "_workers", "_notes", "_witnesses", "_proofs")
    code = f"import sys, trouper_journal; print([n for n in {rare} if f'trouper_journal.{{n}}' in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
