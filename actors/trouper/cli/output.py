"""Where a command's words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from typing import IO

import click
from rich.console import Console, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from trouper.narration.text import clean

_UNBOUNDED = 1_000_000
"""Width where nobody looks: lines are not wrapped for programs such as grep."""


class _Console(Console):
    """A console whose reader may go away, as ``head`` does: what is printed after that goes nowhere."""

    gone = False

    def on_broken_pipe(self) -> None:
        self.gone = True
        self.quiet = True
        # Python flushes the stream once more when it ends, and must not meet the broken pipe there.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


class Output:
    """What a command prints with.

    Colours are used on a terminal only, and not where ``NO_COLOR`` is set (no-color.org).

    Args:
        as_json: Whether results are for programs.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    @property
    def gone(self) -> bool:
        """Whether nobody reads standard output any more."""
        return self._out.gone

    @property
    def for_people(self) -> bool:
        """Whether standard output is a terminal."""
        return self._out.is_terminal

    @property
    def notes(self) -> Console:
        """Standard error, for progress bars."""
        return self._err

    def result(self, *what: RenderableType) -> None:
        """Print a result for people."""
        _print(self._out, what)

    @contextmanager
    def paged(self) -> Iterator[None]:
        """Gather what is printed meanwhile, and show it by a pager where it does not fit on the terminal.

        Where standard output is no terminal, or the result is for programs, everything is printed at once.
        """
        if not self.for_people or self.as_json or not sys.stdin.isatty():
            yield
            return
        with self._out.capture() as captured:
            yield
        text = captured.get()
        if text.count("\n") < self._out.height:
            self._out.file.write(text)
            self._out.file.flush()
        else:
            click.echo_via_pager(text)

    def nothing(self, why: str) -> None:
        """Tell people that the result is empty, and why; programs see that there are no lines."""
        if not self.as_json:
            self.result(styled(why, "dim"))

    def note(self, *what: RenderableType) -> None:
        """Tell people what is going on, on standard error."""
        _print(self._err, what)

    def json(self, value: Mapping[str, object]) -> None:
        """Print a result for programs: one object, one line, ASCII."""
        self._out.out(json.dumps(value), highlight=False)

    def raw(self, text: str) -> None:
        """Print a text as it is, for programs that read it."""
        self._out.out(text, highlight=False)

    def error(self, message: str) -> None:
        """Print an error as one line; what of it stands in a file does not write to a terminal."""
        _print(self._err, (Text.assemble(("trouper: ", "bold red"), clean(" ".join(message.split()))),))


def _console(stream: IO[str] | None) -> _Console:
    if stream is None:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- standing in for a stream that is closed
    if isinstance(stream, TextIOWrapper):
        # What the terminal's encoding has no character for is shown as an escape instead of ending the command.
        stream.reconfigure(errors="backslashreplace")
    width = None if stream.isatty() else _UNBOUNDED
    return _Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=width is not None)


def _print(console: _Console, what: Iterable[RenderableType]) -> None:
    for each in what:
        if console.is_terminal:
            console.print(each, soft_wrap=isinstance(each, Text) and bool(each.no_wrap))
            continue
        with console.capture() as captured:
            console.print(each)
        # Cells are padded to the width of their column, which nobody wants at the end of a line in a file.
        console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)


def styled(text: str, style: str | Style = "") -> Text:
    """A text in one style."""
    return Text(text, style)


def typed(command: str) -> Text:
    """A command to type. It is never wrapped: half a command in the clipboard is no command."""
    return Text(f"  {command}", "bold", no_wrap=True)


def grid(*, pad: int = 2) -> Table:
    """A table without lines, for aligned columns."""
    return Table.grid(padding=(0, pad))
