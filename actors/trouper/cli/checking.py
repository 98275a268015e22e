"""``verify``: the bytes of a journal against themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from trouper.cli.codes import Exit
from trouper.cli.command import command, run_async
from trouper.cli.journals import opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.plain import plain
from trouper.narration.text import clean, count
from trouper_journal import Problem, Verification

_GRADES = {
    "self-consistent": "records, indexes and Merkle tree agree. Only a root kept elsewhere can show a file made anew",
    "inconsistent": "the file is damaged, or somebody has changed it",
}


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


@command
@JOURNAL
def verify(output: Output, /, journal: Path) -> Exit:
    """Check every record against its digest and the Merkle tree. Exit code 1 if anything disagrees."""

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            with progress(output, "verifying") as told:
                found = await opened_journal.verify(told)
        if output.as_json:
            output.json({**_verification_json(found)})
        else:
            _print_verification(output, found)
        return Exit.OK if found.ok else Exit.BAD

    return run_async(main)


def _verification_json(found: Verification) -> dict[str, object]:
    return {
        **{name: plain(value) for name, value in attrs.asdict(found, recurse=False).items() if name != "problems"},
        "ok": found.ok,
        "problems": [attrs.asdict(problem) for problem in found.problems],
    }


def _print_verification(output: Output, found: Verification) -> None:
    for problem in found.problems:
        output.result(styled(_problem_text(problem), "red"))
    if found.found > len(found.problems):
        output.result(styled(f"and {count(found.found - len(found.problems), 'more problem')}", "red"))
    checked = f"{count(found.records, 'record')}, {count(found.streams, 'stream')}"
    if found.values:
        checked += f", {count(found.values, 'large value')}"
    output.result(styled(f"{found.grade}: {checked}", "bold green" if found.ok else "bold red"))
    output.result(styled(_GRADES[found.grade]))
    output.result(styled(f"journal {found.journal_id}, root {found.root}", "dim"))


def _problem_text(problem: Problem) -> str:
    place = "" if problem.position is None else f"position {problem.position}"
    stream = "" if problem.stream is None else f"stream {clean(problem.stream)}"
    where = ", ".join(part for part in (place, stream) if part) or "journal"
    return f"{where}: {clean(problem.message)} ({problem.kind})"
