"""What the commands that check have in common: how many processes work, and a bar that shows how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from trouper.cli.output import Output

JOBS = click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="How many processes work; by default as many as cores."
)


@contextmanager
def progress(output: Output, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, where that is a terminal; gives a function to be called with done and total."""
    if not output.notes.is_terminal:
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.notes, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
