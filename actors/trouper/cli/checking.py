"""Commands that check: ``verify`` the bytes of a journal, ``replay`` its decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import click
from attrs import define

from trouper.cli.codes import Exit
from trouper.cli.command import command, run_async
from trouper.cli.journals import find_run, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.core import replay as rules
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.narration.plain import plain
from trouper.narration.text import clean, count
from trouper.runtime.histories import Histories
from trouper_journal import Journal, Problem, Verification

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


# ---- verify


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


# ---- replay


@define
class _Replayed:
    histories: Histories
    runs: int = 0
    events: int = 0
    differences: int = 0


@command
@JOURNAL
@click.argument("run_id", metavar="[RUN]", required=False)
def replay(output: Output, /, journal: Path, run_id: str | None) -> Exit:
    """Check that the rules would take a run's recorded steps.

    Folds the run again, or every run where none is named, and looks whether what it started from is what it was. Exit
    code 1 if anything differs.
    """

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            total = _Replayed(Histories(opened_journal))
            if run_id is not None:
                names = [await find_run(opened_journal, run_id)]
            else:
                names = [head.stream.removeprefix("run/") async for head in opened_journal.streams(prefix="run/")]
            with progress(output, "replaying") as told:
                for number, name in enumerate(names, 1):
                    await _replay(output, opened_journal, name, total)
                    told(number, len(names))
        if not output.as_json:
            checked = f"{count(total.runs, 'run')} with {count(total.events, 'event')} replayed"
            result = "the rules take the recorded steps" if not total.differences else f"{total.differences} differ"
            output.result(styled(f"{checked}: {result}", "red" if total.differences else "green"))
        return Exit.BAD if total.differences else Exit.OK

    return run_async(main)


async def _replay(output: Output, journal: Journal, name: str, total: _Replayed) -> None:
    problem: str | None = None
    version: int | None = None
    events: list[object] = []
    try:
        events += [journal.registry.decode(record) async for record in journal.read(f"run/{name}")]
    except (UnknownEvent, JournalCorrupt) as error:
        problem = str(error)
    else:
        state, difference = rules.check(name, events)
        if difference is None:
            problem = await total.histories.difference(state)
        else:
            version = difference.version
            named = ", ".join(difference.expected) or "nothing"
            problem = f"version {version} is {difference.recorded}, where the rules name {named}"
    total.runs += 1
    total.events += len(events)
    total.differences += problem is not None
    if output.as_json:
        output.json({"run": name, "events": len(events), "ok": problem is None, "version": version, "problem": problem})
    elif problem is not None:
        output.result(styled(f"run {clean(name)}: {clean(problem)}", "red"))
