"""Without the package that signs and seals, what needs it says how to install it; all else works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Journals
from tests.cli.program import AGENTS, called, complaint, ok_called

PUBLIC = "example.com/desk+6a4a0394+Aaii8/zCZXVPSTs8AcdaG4qyw19+v8F03SpfrGtbE/7e"
SIGNED = """example.com/desk
26
JswdppIUqBumOh4EtNp+Wvcaql4k5jAuhtp5TyNRWqY=

— example.com/desk akoDlIAhs5n3TI5al4GeAtcU/uAGCnXdUOivMoD0pGo4PWxnMzat2b3czEWlVfOHPzrcdkd0F8esoqPmtYkuxDkZRAo=

"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were not installed."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography", None)


@pytest.mark.usefixtures("without")
def test_what_needs_the_package_says_how_to_install_it(tmp_path: Path, journals: Journals) -> None:
    journals.waiting(journal := tmp_path / "agents.db")
    key = tmp_path / "desk.key"
    (tmp_path / "agents.db.checkpoints").write_text(SIGNED)
    for line in (
        ("keygen", key, "--name", "example.com/desk"),
        ("verify", journal, "--pub", PUBLIC),
        ("run", f"{AGENTS}:asker", "Hi", "--journal", tmp_path / "sealed.db", "--keys", tmp_path / "sealed.keys"),
    ):
        done = called(*line)
        assert (done.returncode, "pip install cryptography" in complaint(done)) == (2, True), line
    assert not key.exists()
    assert ok_called("verify", journal)
    assert ok_called("runs", journal)
