"""At a terminal: a pager for what does not fit, times of the local zone, completion; and none of it in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.program import PATIENCE, ROOT, called, environment, ok_called, one_object, trouper

JOURNAL = ROOT / "tests" / "golden" / "runs-1.db"


def at_terminal(*arguments: str | Path, lines: int = 24, **env: str) -> str:
    """What the program prints to a terminal with so many lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 100, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "trouper.cli", *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment(TERM="xterm", **env),
    ) as process:  # fmt: skip
        os.close(theirs)
        printed = b""
        with suppress(OSError):
            while part := os.read(ours, 65536):
                printed += part
        process.wait(PATIENCE)
    os.close(ours)
    return printed.decode()


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that shows that it was asked."""
    script = tmp_path / "pager"
    script.write_text("#!/bin/sh\nsed 's/^/paged: /'\n")
    script.chmod(0o755)
    return str(script)


def test_a_result_that_does_not_fit_is_paged_unless_asked_not_to(pager: str) -> None:
    assert "paged: " in at_terminal("runs", JOURNAL, PAGER=pager)
    assert "paged: " not in at_terminal("runs", JOURNAL, "--no-pager", PAGER=pager)
    assert "paged: " not in at_terminal("runs", JOURNAL, "-n", "3", PAGER=pager)
    assert "paged: " not in at_terminal("runs", JOURNAL, "--json", PAGER=pager)
    assert "paged: " not in trouper("runs", JOURNAL, env={"PAGER": pager}).stdout


def test_an_error_is_told_and_not_paged(pager: str) -> None:
    printed = at_terminal("show", JOURNAL, "ZZZ", PAGER=pager)
    assert "there is no run ZZZ" in printed
    assert "paged: " not in printed


@pytest.mark.parametrize(
    ("zone", "expected"), [("UTC", "Z"), ("Asia/Kolkata", "+05:30"), ("America/St_Johns", "-03:30")]
)
def test_times_are_local_and_say_so_and_are_utc_on_request(zone: str, expected: str) -> None:
    [run] = [line.split()[0] for line in ok_called("runs", JOURNAL, "-n", "1").splitlines()[1:]]
    local = trouper("show", JOURNAL, run, env={"TZ": zone}).stdout
    found = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", local)
    assert found is not None
    assert found[1] == expected
    in_utc = trouper("show", JOURNAL, run, "--utc", env={"TZ": zone}).stdout
    assert in_utc == trouper("show", JOURNAL, run, env={"TZ": "UTC"}).stdout
    assert one_object(trouper("show", JOURNAL, run, "--json", env={"TZ": zone}).stdout) == one_object(
        ok_called("show", JOURNAL, run, "--json")
    )


def test_tail_tells_local_times(tmp_path: Path) -> None:
    def hour(*options: str, zone: str) -> int:
        done = trouper("tail", JOURNAL, "-n", "1", "--no-follow", *options, env={"TZ": zone})
        return int(done.stdout.split()[1].partition("T")[2].partition(":")[0])

    utc = hour(zone="UTC")
    assert hour(zone="Asia/Tokyo") == (utc + 9) % 24
    assert hour("--utc", zone="Asia/Tokyo") == utc


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_given_a_script(shell: str) -> None:
    script = ok_called("completion", shell)
    assert "_TROUPER_COMPLETE" in script
    assert one_object(ok_called("completion", shell, "--json")) == {"shell": shell, "script": script.removesuffix("\n")}
    assert called("completion", "tcsh").returncode == 2


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(ok_called("completion", "bash"))
    program = tmp_path / "trouper"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trouper.cli "$@"\n')
    program.chmod(0o755)
    setting = f'PATH="{tmp_path}:$PATH"; . {script}; COMP_WORDS=(trouper $1); COMP_CWORD=$2'
    ask = f'{setting}; _trouper_completion trouper; echo "${{COMPREPLY[@]}}"'

    def completed(words: str, number: int) -> list[str]:
        command = ["bash", "-c", ask, "bash", words, str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment())
        return done.stdout.split()

    assert completed("app", 1) == ["approvals", "approve"]
    assert "--no-pager" in completed("runs --", 2)
