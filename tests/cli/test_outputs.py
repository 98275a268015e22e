"""Structured outputs, what was sent back on the way, and refusals on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Journals
from tests.cli.program import AGENTS, objects, ok, ok_called, one_object, trouper

from trouper.cli.output import Output

OUTPUT = {"ticket": "INC-é", "days": 3}


def test_show_tells_what_was_not_accepted_and_prints_the_output(journals: Journals, tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    run = journals.ended(path, "extractor")
    told = ok("show", path, run)
    assert "does not accept the answer, because it does not fit" in told
    assert "hands in the final output" in told
    assert "accepts the output:" in told
    _, _, printed = told.partition("Output:\n")
    assert json.loads(printed) == OUTPUT
    assert one_object(ok_called("show", path, run, "--json"))["output"] == OUTPUT
    assert "1 run" in ok("replay", path)


def test_run_prints_the_output_for_programs(tmp_path: Path) -> None:
    done = trouper("run", f"{AGENTS}:extractor", "Extract", cwd=tmp_path)
    assert json.loads(done.stdout) == OUTPUT
    done = trouper("run", f"{AGENTS}:extractor", "Extract", "--json", cwd=tmp_path)
    assert objects(done.stdout)[-1]["output"] == OUTPUT


def test_a_refusal_is_shown_as_one(journals: Journals, tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    told = ok("show", path, journals.ended(path, "refuser"))
    assert 'refuses, saying "I will not."' in told
    assert "the run failed (refused)" in told
    assert "It can go on, once what was wrong is mended:" in told
    done = trouper("run", f"{AGENTS}:refuser", "Do it", cwd=tmp_path)
    assert done.returncode == 1
    assert "the model refused to answer" in done.stderr.splitlines()[-1]


def test_what_an_error_quotes_of_a_file_does_not_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error("session/\x1b]0;mine now\x07\u202e is\nnot there")
    assert capsys.readouterr().err == "trouper: session/\\x1b]0;mine now\\x07\\u202e is not there\n"
