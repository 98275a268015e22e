"""The command ``export``: what a journal holds, for whoever has nothing but the export."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import click
from attrs import define, field, frozen

from trouper._clock import SystemClock
from trouper.audit import (
    BundleOptions,
    LineOptions,
    ReportOptions,
    Subject,
    export_jsonl,
    write_bundle,
    write_report,
)
from trouper.audit.subjects import runs_of
from trouper.cli.archives import tell_left_out
from trouper.cli.checking import progress
from trouper.cli.codes import ConflictError, Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.damage import KEEP_GOING, keeps_going, note_problems, noted
from trouper.cli.journals import find_run, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.cli.pinned import CHECKPOINTS, PUBLIC, public_key, signed_checkpoints
from trouper.narration.text import count
from trouper_journal import Journal
from trouper_journal.archive import refuse_archived
from trouper_journal.signing import SignedCheckpoint, VerifierKey, verify_signed

_CHUNK: Final = 1 << 16
"""Characters that are gathered before they are written."""


@frozen
class _Asked:
    """What the command line asks for."""

    journal: Path
    form: str
    out: Path | None
    after: int
    lines: LineOptions
    verify: bool
    signed: Sequence[SignedCheckpoint]
    key: VerifierKey | None


@command
@JOURNAL
@click.option("--run", "run_id", metavar="RUN", help="Only this run, with the runs of its sub-agents.")
@click.option("--session", metavar="SESSION", help="Only this session, with all of its turns.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "html", "bundle"]),
    default="jsonl",
    show_default=True,
    help="Records for programs, a report for people, or evidence with proofs.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A new file; by default standard output.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="jsonl: only records behind this position.")
@click.option("--raw", is_flag=True, help="jsonl: the stored bytes, too, from which anybody can compute the digests.")
@click.option("--redact", is_flag=True, help="Leave out what people, models and tools said.")
@KEEP_GOING
@click.option("--no-verify", is_flag=True, help="html, bundle: do not check the whole journal first.")
@CHECKPOINTS
@PUBLIC
def export(
    output: Output,
    /,
    journal: Path,
    *,
    run_id: str | None,
    session: str | None,
    form: str,
    out: Path | None,
    after: int,
    raw: bool,
    redact: bool,
    no_verify: bool,
    checkpoints: Sequence[Path],
    pub: str | None,
) -> Exit:
    """Export a run, a session, or all: records for programs, a report for people, or a bundle of evidence.

    The journal is only read, and its daemon is not disturbed. With --pub, a report says whether the journal matches its
    checkpoints, and a bundle proves that its records are among those that were signed last. Exit code 1 if anything
    was found to be damaged.
    """
    if run_id is not None and session is not None:
        raise UsageError("--run and --session exclude each other")
    if form != "jsonl" and run_id is None and session is None:
        raise UsageError(f"--format {form} needs a --run or a --session")
    if form != "jsonl" and (after or raw):
        raise UsageError("--after and --raw are for --format jsonl")
    if form == "bundle" and keeps_going():
        raise UsageError("--keep-going is not for --format bundle: evidence is whole, or none")
    if form == "bundle" and out is None:
        raise UsageError("--format bundle needs --out FILE: a zip file is not for a terminal")

    async def main() -> Exit:
        asked = _Asked(
            journal,
            form,
            out,
            after,
            LineOptions(raw=raw, redact=redact, keep_going=keeps_going()),
            not no_verify,
            signed_checkpoints(journal, checkpoints, pub),
            None if pub is None else public_key(pub),
        )
        async with opened_to_read(journal) as opened_journal:
            subject = await _subject(opened_journal, run_id, session)
            _say(output, asked, await _export(output, opened_journal, subject, asked))
            if subject is None:
                await tell_left_out(output, opened_journal, after=after)
        return Exit.OK

    return run_async(main)


async def _export(output: Output, journal: Journal, subject: Subject | None, asked: _Asked) -> int:
    if asked.form == "jsonl" or subject is None:
        with _sink(output, asked.out) as sink, progress(output, "exporting") as told:
            return await export_jsonl(
                journal, sink.line, subject, after=asked.after, options=asked.lines, progress=told, damaged=noted
            )
    found = None
    if asked.out is not None:
        _check_new(asked.out)
    if asked.verify:
        with progress(output, "verifying") as told:
            found = await verify_signed(journal, asked.signed, told)
        note_problems(found)
    now, redact = SystemClock().now(), asked.lines.redact
    if asked.form == "html" or asked.out is None:
        with _sink(output, asked.out) as sink, progress(output, "reading") as told:
            return await write_report(journal, subject, sink.line, ReportOptions(now, found, redact), told)
    last = max(asked.signed, key=lambda each: each.checkpoint.size, default=None)
    options = BundleOptions(now, last, asked.key, found, redact)
    with new_file(asked.out) as file, progress(output, "proving") as told:
        return await write_bundle(journal, subject, file, options, told)


async def _subject(journal: Journal, run_id: str | None, session: str | None) -> Subject | None:
    if run_id is None and session is None:
        return None
    found = Subject("run", await find_run(journal, run_id)) if run_id is not None else Subject("session", session or "")
    await refuse_archived(journal, found.stream, *(f"run/{run}" for run in await runs_of(journal, found)))
    return found


def _say(output: Output, asked: _Asked, records: int) -> None:
    out = asked.out
    if out is None:
        return
    size = out.stat().st_size
    if output.as_json:
        output.json({"file": str(out), "format": asked.form, "records": records, "bytes": size})
        return
    output.note(styled(f"{out}: {count(records, 'record')}, {count(size, 'byte')}", "dim"))
    if asked.form == "bundle" and not asked.signed:
        output.note(
            styled("nobody has signed what is in it: `trouper checkpoint` signs, --pub takes that along", "yellow")
        )


@define
class Sink:
    """Gathers lines for standard output, or for a file."""

    _write: Callable[[str], object]
    _parts: list[str] = field(factory=list)
    _size: int = 0

    def line(self, text: str) -> None:
        """Write a line, in good time."""
        self._parts.append(text)
        self._size += len(text) + 1
        if self._size >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._parts:
            self._write("\n".join(self._parts))
            self._parts.clear()
            self._size = 0


@contextmanager
def _sink(output: Output, out: Path | None) -> Iterator[Sink]:
    if out is None:
        sink = Sink(output.raw)
        yield sink
        sink.flush()
        return
    with new_file(out) as file:
        sink = Sink(lambda text: file.write(f"{text}\n".encode()))
        yield sink
        sink.flush()


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there whole once the block has ended well, and not at all otherwise.

    Raises:
        ConflictError: There is one of that name already.
        OSError: It cannot be written.
    """
    _check_new(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _check_new(path: Path) -> None:
    if path.exists():
        raise ConflictError(f"{path} is there already: nothing is overwritten")
