"""The command ``export``: what a journal holds, for whoever has nothing but the export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, TypedDict, Unpack

import click
import trio
from attrs import frozen

from trouper._clock import SystemClock
from trouper.audit import (
    BundleOptions,
    LineOptions,
    ReportOptions,
    Subject,
    export_jsonl,
    verify_bundle,
    verify_forms,
    write_bundle,
    write_report,
)
from trouper.audit.subjects import runs_of
from trouper.cli.archives import tell_left_out
from trouper.cli.checking import progress
from trouper.cli.codes import Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.damage import KEEP_GOING, keeps_going, note_problems, noted
from trouper.cli.journals import find_run, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.new_file import new_file, refuse_what_is_there, sink_to
from trouper.cli.output import Output, styled
from trouper.cli.pinned import CHECKPOINTS, PUBLIC, public_key, signed_checkpoints
from trouper.errors import BundleError
from trouper.narration.text import count
from trouper_journal import Journal, Verification
from trouper_journal.archive import refuse_archived
from trouper_journal.signing import SignedCheckpoint, VerifierKey, verify_signed


class _Given(TypedDict):
    """The options."""

    run_id: str | None
    session: str | None
    form: str
    out: Path | None
    after: int
    raw: bool
    redact: bool
    no_verify: bool
    checkpoints: Sequence[Path]
    pub: str | None


@frozen
class _Asked:
    """What the command line asks for."""

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
def export(output: Output, /, journal: Path, **given: Unpack[_Given]) -> Exit:
    """Export a run, a session, or all: records for programs, a report for people, or a bundle of evidence.

    The journal is only read, and its daemon is not disturbed. With --pub, a report says whether the journal matches its
    checkpoints, and a bundle proves that its records are among those that were signed last. Exit code 1 if anything
    was found to be damaged.
    """
    _check_together(given)
    form, out, pub = given["form"], given["out"], given["pub"]

    async def main() -> Exit:
        asked = _Asked(
            out,
            given["after"],
            LineOptions(raw=given["raw"], redact=given["redact"], keep_going=keeps_going()),
            not given["no_verify"],
            signed_checkpoints(journal, given["checkpoints"], pub),
            None if pub is None else public_key(pub),
        )
        async with opened_to_read(journal) as opened_journal:
            subject = await _subject(opened_journal, given["run_id"], given["session"])
            if form == "jsonl" or subject is None:
                records = await _jsonl(output, opened_journal, subject, asked)
            else:
                records = await (_html if form == "html" else _bundle)(output, opened_journal, subject, asked)
            _say(output, form, out, records)
            if subject is None:
                await tell_left_out(output, opened_journal, after=asked.after)
        return Exit.OK

    return run_async(main)


def _check_together(given: _Given) -> None:
    """Refuse options that do not go together."""
    form = given["form"]
    if given["run_id"] is not None and given["session"] is not None:
        raise UsageError("--run and --session exclude each other")
    if form != "jsonl" and given["run_id"] is None and given["session"] is None:
        raise UsageError(f"--format {form} needs a --run or a --session")
    if form != "jsonl" and (given["after"] or given["raw"]):
        raise UsageError("--after and --raw are for --format jsonl")
    if form == "bundle" and keeps_going():
        raise UsageError("--keep-going is not for --format bundle: evidence is whole, or none")
    if form == "bundle" and given["out"] is None:
        raise UsageError("--format bundle needs --out FILE: a zip file is not for a terminal")


async def _jsonl(output: Output, journal: Journal, subject: Subject | None, asked: _Asked) -> int:
    with sink_to(output, asked.out) as sink, progress(output, "exporting") as told:
        return await export_jsonl(
            journal, sink.line, subject, after=asked.after, options=asked.lines, progress=told, damaged=noted
        )


async def _html(output: Output, journal: Journal, subject: Subject, asked: _Asked) -> int:
    found = await _verified(output, journal, asked)
    # What has come since was not verified.
    upto = found.records if found is not None and found.ok else None
    options = ReportOptions(SystemClock().now(), found, asked.lines.redact, upto=upto)
    with sink_to(output, asked.out) as sink, progress(output, "reading") as told:
        return await write_report(journal, subject, sink.line, options, told)


async def _bundle(output: Output, journal: Journal, subject: Subject, asked: _Asked) -> int:
    found = await _verified(output, journal, asked)
    last = max(asked.signed, key=lambda each: each.checkpoint.size, default=None)
    options = BundleOptions(SystemClock().now(), last, asked.key, found, asked.lines.redact)
    assert asked.out is not None
    with new_file(asked.out) as file:
        with progress(output, "proving") as told:
            records = await write_bundle(journal, subject, file, options, told)
        file.seek(0)
        holds = await trio.to_thread.run_sync(_check, file, None if last is None else str(asked.key))
    if last is None:
        output.note(
            styled("nobody has signed what is in it: `trouper checkpoint` signs, --pub takes that along", "yellow")
        )
    if holds["sealed"]:
        sealed = (
            f"what was said in {holds['sealed']:,} of the records is sealed: the bundle proves it, and tells no word"
        )
        output.note(styled(sealed, "yellow"))
    return records


def _check(file: IO[bytes], key: str | None) -> dict[str, Any]:
    """Check a bundle as whoever receives it will.

    Raises:
        BundleError: It would not hold.
    """
    try:
        return verify_bundle.check(verify_bundle.read_files(file), key)
    except Exception as error:  # as the program does: records that somebody made up can break any form
        reason = str(error) if isinstance(error, verify_forms.Bad) else f"{type(error).__name__}: {error}"
        raise BundleError(f"the bundle would not hold, and is not written: {reason}") from error


async def _verified(output: Output, journal: Journal, asked: _Asked) -> Verification | None:
    if asked.out is not None:
        refuse_what_is_there(asked.out)
    if not asked.verify:
        return None
    with progress(output, "verifying") as told:
        found = await verify_signed(journal, asked.signed, told)
    note_problems(found)
    return found


async def _subject(journal: Journal, run_id: str | None, session: str | None) -> Subject | None:
    if run_id is None and session is None:
        return None
    found = Subject("run", await find_run(journal, run_id)) if run_id is not None else Subject("session", session or "")
    await refuse_archived(journal, found.stream, *(f"run/{run}" for run in await runs_of(journal, found)))
    return found


def _say(output: Output, form: str, out: Path | None, records: int) -> None:
    if out is None:
        return
    size = out.stat().st_size
    if output.as_json:
        output.json({"file": str(out), "format": form, "records": records, "bytes": size})
    else:
        output.note(styled(f"{out}: {count(records, 'record')}, {count(size, 'byte')}", "dim"))
