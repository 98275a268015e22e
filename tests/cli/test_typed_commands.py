"""Commands that are printed to be typed work where they are printed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Journals
from tests.cli.program import environment


def test_a_printed_command_names_the_program_as_it_can_be_called(tmp_path: Path, journals: Journals) -> None:
    journals.waiting(journal := tmp_path / "agents.db")
    (folder := tmp_path / "bin").mkdir()
    script = folder / "trouper"
    script.write_text(f"#!{sys.executable}\nfrom trouper.cli import main\nmain()\n")
    script.chmod(0o755)

    def printed(path: str) -> list[str]:
        done = subprocess.run(
            [script, "approvals", journal], capture_output=True, text=True, env=environment(PATH=path), check=True
        )
        (line,) = [line for line in done.stdout.splitlines() if " approve " in line]
        return shlex.split(line)

    elsewhere = os.defpath
    assert printed(elsewhere)[:2] == [str(script), "approve"]
    assert printed(f"{folder}{os.pathsep}{elsewhere}")[:2] == ["trouper", "approve"]
