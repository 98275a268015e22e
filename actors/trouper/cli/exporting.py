"""The command ``export``: what a journal holds, for whoever has nothing but the export."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import click
from attrs import define, field

from trouper._clock import SystemClock
from trouper.audit import LineOptions, ReportOptions, Subject, export_jsonl, write_report
from trouper.cli.checking import progress
from trouper.cli.codes import ConflictError, Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import find_run, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.text import count
from trouper_journal import Journal

_CHUNK: Final = 1 << 16
"""Characters that are gathered before they are written."""


@command
@JOURNAL
@click.option("--run", "run_id", metavar="RUN", help="Only this run, with the runs of its sub-agents.")
@click.option("--session", metavar="SESSION", help="Only this session, with all of its turns.")
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "html"]), default="jsonl", show_default=True, help="What to make."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A new file; by default standard output.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only records behind this position.")
@click.option("--raw", is_flag=True, help="The stored bytes, too, from which anybody can compute the digests.")
@click.option("--redact", is_flag=True, help="Leave out what people, models and tools said.")
@click.option("--keep-going", is_flag=True, help="Write damaged records, too, each with what is wrong with it.")
@click.option("--no-verify", is_flag=True, help="html: do not check the whole journal first.")
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
    keep_going: bool,
    no_verify: bool,
) -> Exit:
    """Export a run, a session, or all: records for programs, or a report for people.

    The journal is only read, and its daemon is not disturbed.
    """
    if run_id is not None and session is not None:
        raise UsageError("--run and --session exclude each other")
    if form == "html" and run_id is None and session is None:
        raise UsageError("--format html needs a --run or a --session")
    options = LineOptions(raw=raw, redact=redact, keep_going=keep_going)

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            subject = await _subject(opened_journal, run_id, session)
            with _sink(output, out) as sink:
                if form == "html" and subject is not None:
                    written = await _report(output, opened_journal, subject, sink, verify=not no_verify, redact=redact)
                else:
                    with progress(output, "exporting") as told:
                        written = await export_jsonl(
                            opened_journal, sink.line, subject, after=after, options=options, progress=told
                        )
        _say(output, out, form, written)
        return Exit.OK

    return run_async(main)


async def _report(output: Output, journal: Journal, subject: Subject, sink: Sink, *, verify: bool, redact: bool) -> int:
    found = None
    if verify:
        with progress(output, "verifying") as told:
            found = await journal.verify(told)
    options = ReportOptions(SystemClock().now(), found, redact)
    with progress(output, "reading") as told:
        return await write_report(journal, subject, sink.line, options, told)


async def _subject(journal: Journal, run_id: str | None, session: str | None) -> Subject | None:
    if run_id is not None:
        return Subject("run", await find_run(journal, run_id))
    return None if session is None else Subject("session", session)


def _say(output: Output, out: Path | None, form: str, records: int) -> None:
    if out is None:
        return
    if output.as_json:
        output.json({"file": str(out), "format": form, "records": records, "bytes": out.stat().st_size})
    else:
        output.note(styled(f"{out}: {count(records, 'record')}, {count(out.stat().st_size, 'byte')}", "dim"))


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
    if path.exists():
        raise ConflictError(f"{path} is there already: nothing is overwritten")
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
