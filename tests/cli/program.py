"""Runs the program as people do: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import IO, Self

from tests.cli.schemas import check_json

from trouper.cli import main
from trouper.cli.codes import Exit

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).parent / "agents.py"

# Generous: a test fails by what it sees, not by how long it took.
PATIENCE = 120

JsonObject = dict[str, object]


_SETTINGS = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONUNBUFFERED"}


def environment(**changes: str) -> dict[str, str]:
    """The environment without what would change how the program prints."""
    kept = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    return {**kept, **changes}


def trouper(
    *arguments: str | Path, cwd: Path | None = None, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "trouper.cli", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=cwd,
        env=environment(**(env or {})),
        check=False,
    )
    return _checked(list(map(str, arguments)), done)


def called(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program to its end in this process: a fiftieth of the time, for tables of cases."""
    given = [str(argument) for argument in arguments]
    code: object = None
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            main(given)
        except SystemExit as exited:
            code = exited.code
    assert isinstance(code, int)
    return _checked(given, subprocess.CompletedProcess(given, code, out.getvalue(), err.getvalue()))


def _checked(arguments: list[str], done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Whatever a test is about: what a program gets has the documented form."""
    if done.returncode in {Exit.OK, Exit.BAD}:
        check_json(arguments, done.stdout)
    return done


def ok_called(*arguments: str | Path) -> str:
    """What the program, run in this process, prints to standard output, having ended well."""
    done = called(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ok(*arguments: str | Path, cwd: Path | None = None) -> str:
    """What the program prints to standard output, having ended well."""
    done = trouper(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> list[JsonObject]:
    """JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def one_object(text: str) -> JsonObject:
    """The one JSON line."""
    (found,) = objects(text)
    return found


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of an error."""
    (line,) = done.stderr.splitlines()
    assert line.startswith("trouper: "), line
    return line.removeprefix("trouper: ")


class Started:
    """A process that goes on while a test looks at it."""

    def __init__(self, *command: str | Path, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=environment(),
        )
        # One that never says what a test waits for must not keep the test waiting.
        self._watchdog = threading.Timer(PATIENCE, self.process.kill)
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    @property
    def out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def err(self) -> IO[str]:
        assert self.process.stderr is not None
        return self.process.stderr

    def read_until(self, stream: IO[str], what: str) -> list[str]:
        """Lines up to and with the first that contains a text."""
        lines: list[str] = []
        for line in stream:
            lines.append(line.rstrip("\n"))
            if what in line:
                return lines
        raise AssertionError(f"{what!r} never came; it said {lines}, and then {self.err.read()}")

    def end(self) -> tuple[int, str]:
        """Wait for the end; exit code and what was left on standard error."""
        _, left = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, left


def started(*arguments: str | Path, cwd: Path | None = None) -> Started:
    """Start the program."""
    return Started(sys.executable, "-m", "trouper.cli", *arguments, cwd=cwd)


def daemon(journal: Path, *words: str) -> Started:
    """Start a daemon over a journal; see ``daemon.py``."""
    return Started(sys.executable, "-m", "tests.cli.daemon", journal.resolve(), *words, cwd=ROOT)


def waiting_run(journal: Path, agent: str) -> str:
    """Let a daemon make a journal, and kill it when its run has to wait for a person; the run's id."""
    with daemon(journal, agent) as process:
        run = str(json.loads(process.out.readline())["run"])
        assert json.loads(process.out.readline())["label"] in {"awaiting_approval", "in_doubt"}
    return run


def ended_run(journal: Path, agent: str) -> str:
    """Let a daemon make a journal with a run that ends by itself; the run's id."""
    with daemon(journal, agent) as process:
        run = str(json.loads(process.out.readline())["run"])
        process.read_until(process.out, '"ended"')
        assert process.end() == (0, "")
    return run
