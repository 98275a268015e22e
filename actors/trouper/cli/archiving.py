"""The command ``archive``: what is finished leaves the journal for a file of its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from trouper.audit.archivable import Selection
from trouper.audit.archiving import ArchiveReport, archive_finished
from trouper.cli.changing import AS, REASON
from trouper.cli.codes import Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import find_listed_run, opened, person
from trouper.cli.output import Output, styled
from trouper.narration.text import clean, count
from trouper_journal import JournalCorrupt, Problem, Verification
from trouper_journal._comparing import compare
from trouper_journal.archive import check_archive, open_archive
from trouper_journal.signing import SignedCheckpoint

_SHOWN: Final = 4


@command
@click.argument("journal", type=click.Path(path_type=Path, readable=False))
@click.option("--out", "target", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The archive.")
@click.option("--before", metavar="DATE", help="What is over, and has no record since: 2027-01-31, or a moment.")
@click.option("--run", "run_ids", metavar="RUN", multiple=True, help="This run, with all below it; again for more.")
@click.option("--session", "sessions", metavar="SESSION", multiple=True, help="This session, with all of its turns.")
@AS
@REASON
def archive(
    output: Output,
    /,
    journal: Path,
    *,
    target: Path,
    before: str | None,
    run_ids: Sequence[str],
    sessions: Sequence[str],
    name: str | None,
    reason: str | None,
) -> Exit:
    """Move what is finished out of a journal to an archive; positions, proofs and command ids stay.

    Nobody may drive the journal meanwhile. If it is interrupted, give the same command again: it goes on where it was.
    """
    if not (before or run_ids or sessions):
        raise UsageError("say what to archive: --before DATE, --run RUN or --session SESSION")
    moment = None if before is None else _moment(before)

    async def main() -> Exit:
        async with opened(journal) as opened_journal:
            runs = tuple([await find_listed_run(opened_journal, run) for run in run_ids])
            selection = Selection(runs, tuple(sessions), moment)
            with _progress(output) as told:
                done = await archive_finished(
                    opened_journal, target, selection, by=person(name), reason=reason, progress=told
                )
        if output.as_json:
            output.json(_json(done, target))
        else:
            _print(output, done, target)
        return Exit.OK

    return run_async(main)


def _moment(given: str) -> int:
    """A day (from its beginning in UTC) or a moment, in nanoseconds."""
    try:
        found = dt.datetime.fromisoformat(given)
    except ValueError:
        raise UsageError(f"--before: {given!r} is neither a day nor a moment in ISO 8601, such as 2027-01-31") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=dt.UTC)
    return int(found.timestamp()) * 1_000_000_000


@contextmanager
def _progress(output: Output) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage, on standard error, where that is a terminal."""
    if not output.notes.is_terminal:
        yield lambda _what, _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=output.notes, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _json(done: ArchiveReport, target: Path) -> dict[str, object]:
    archive = done.archive
    return {
        "file": str(target),
        "archive_id": None if archive is None else archive.info.id.hex(),
        "records": 0 if archive is None else archive.records,
        "streams": 0 if archive is None else archive.streams,
        "size": None if archive is None else archive.info.size,
        "root": None if archive is None else archive.info.root.hex(),
        "moved": done.moved,
        "resumed": done.resumed,
        "kept": list(done.kept),
        "refused": [{"stream": each.name, "reason": each.reason} for each in done.refused],
        "bytes_before": done.before,
        "bytes_after": done.after,
        "shrunk": done.shrunk,
    }


def _print(output: Output, done: ArchiveReport, target: Path) -> None:
    for refused in done.refused:
        output.note(styled(f"{clean(refused.name)} stays: {clean(refused.reason)}", "yellow"))
    if done.archive is None:
        output.result(styled("nothing is finished that was selected: no archive was made"))
        return
    if done.resumed:
        output.note(styled(f"{clean(str(target))} was there: what was begun with it is finished", "dim"))
    if done.kept:
        kept = ", ".join(clean(name) for name in done.kept[:_SHOWN]) + (", ..." if done.kept[_SHOWN:] else "")
        text = f"{count(len(done.kept), 'stream')} in the archive, and still here, because they may not leave any more"
        output.note(styled(f"{text}: {kept}", "yellow"))
    if not done.shrunk:
        text = "another process uses the file, which keeps its size for now; give the command again later"
        output.note(styled(text, "yellow"))
    archived = f"{count(done.archive.records, 'record')} of {count(done.archive.streams, 'stream')}"
    output.result(styled(f"{archived} are in {clean(str(target))}; {count(done.moved, 'record')} left the journal now"))
    small = ": too little left it to outweigh the tombstones" if done.shrunk and done.after >= done.before else ""
    output.result(styled(f"the journal's file had {done.before:,} bytes and has {done.after:,}{small}"))
    output.result(styled("keep the archive: with --archive it can be read and checked beside the journal", "dim"))


async def verify_archive(
    path: Path, signed: Sequence[SignedCheckpoint], told: Callable[[int, int], None], *, quorum: int
) -> Verification:
    """Check an archive by itself, and against checkpoints of the size that the journal had when it was made.

    Raises:
        UsageError: None of the checkpoints is of that size.
    """
    async with open_archive(path) as archive:
        info = archive.info
    try:
        found = await check_archive(path, told)
    except JournalCorrupt as error:
        problem = Problem(error.position, None, "unreadable", str(error))
        return Verification(info.journal_id.hex(), 0, 0, 0, info.root.hex(), "inconsistent", (problem,), 1)
    roots = {info.size: info.root.hex()}
    fitting = [each for each in signed if each.checkpoint.size == info.size]
    if signed and not fitting:
        raise UsageError(f"none of the checkpoints is of the archive's tree, which has {info.size} records")
    whole = Verification(
        info.journal_id.hex(),
        found.records,
        found.streams,
        found.values,
        info.root.hex(),
        "self-consistent",
        (),
        0,
        roots,
    )
    return compare(whole, fitting, quorum=quorum)
