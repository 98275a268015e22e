"""``python -m trouper.testing.stub`` with a script that cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.program import PATIENCE


def stub(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Start the stub, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "trouper.testing.stub", "--script", script, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("[", "Expecting value: line 1 column 2 (char 1)"),
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("{}", "a script is a JSON list of answers"),
        ("[3]", "answer 1: 3 is neither a text nor an object"),
        ('["x", null]', "answer 2: null is neither a text nor an object"),
        ('["x", {"tool_calls": []}]', "answer 2: there is no field 'tool_calls'; the fields are body, calls,"),
        ('[{"calls": {}}]', "answer 1: calls are not a list: {}"),
        ('[{"calls": [["id", "add"]]}]', 'answer 1: ["id", "add"] is not a call: a call is a list of id, name and'),
        ('[{"calls": ["add"]}]', 'answer 1: "add" is not a call'),
        ('[{"usage": 3}]', "answer 1: usage is not an object: 3"),
    ],
)
def test_a_bad_script_is_one_line_that_names_the_place(tmp_path: Path, script: str, why: str) -> None:
    (file := tmp_path / "script.json").write_text(script)
    done = stub(file)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"python -m trouper.testing.stub: script {file}: {why}")


def test_a_script_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (file := tmp_path / "script.json").write_bytes(b"\xff\xfe")
    done = stub(file)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_script_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = stub(file := tmp_path / "none.json")
    assert done.returncode == 2
    assert done.stderr == f"python -m trouper.testing.stub: script {file}: No such file or directory\n"


def test_debug_shows_the_traceback_too(tmp_path: Path) -> None:
    (file := tmp_path / "script.json").write_text("[")
    done = stub(file, "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "Expecting value" in done.stderr.splitlines()[-1]
