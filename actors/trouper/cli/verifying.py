"""The command ``verify``: whether a journal is whole, and the one that was signed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from trouper.audit.copies import Standing, standing_or_none
from trouper.cli.archiving import verify_archive
from trouper.cli.checking import JOBS, progress
from trouper.cli.codes import Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.cli.pinned import CHECKPOINTS, PUBLIC, WITNESSES, look_at_checkpoints, public_key
from trouper.narration.grade import grade_meaning, grade_text
from trouper.narration.plain import plain
from trouper.narration.text import clean, count
from trouper_journal import Problem, Verification
from trouper_journal._workers import cores
from trouper_journal.archive import ArchiveStore
from trouper_journal.signing import verify_signed


@command
@JOURNAL
@CHECKPOINTS
@PUBLIC
@WITNESSES
@click.option(
    "--quorum",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many of the witnesses must have signed; by default one.",
)
@JOBS
@click.option(
    "--at-least",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of how many records the last checkpoint must be, as was heard elsewhere.",
)
def verify(
    output: Output,
    /,
    journal: Path,
    *,
    checkpoints: Sequence[Path],
    pub: str | None,
    witnesses: Sequence[str],
    quorum: int | None,
    jobs: int | None,
    at_least: int | None,
) -> Exit:
    """Check every record against its digest and the Merkle tree. Exit code 1 if anything disagrees.

    With --pub, also against the checkpoints that were signed: whatever was changed since, cut off or replaced by
    another history is found. An archive can be verified by itself, too; with --pub, against a checkpoint of the size
    that its journal had when it was made.
    """
    if pub is None and at_least is not None:
        raise UsageError("--at-least is about checkpoints: say with --pub whose")
    if quorum is not None and quorum > (trusted := len({public_key(each).public for each in witnesses})):
        raise UsageError(f"--quorum {quorum} needs as many witnesses: {count(trusted, 'key')} given with --witness")

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            signed, refused = look_at_checkpoints(journal, checkpoints, pub, witnesses)
            archive = isinstance(opened_journal.store, ArchiveStore)
            with progress(output, "verifying") as told:
                if archive:
                    found = await verify_archive(journal, signed, told, quorum=quorum or 1)
                else:
                    found = await verify_signed(opened_journal, signed, told, quorum=quorum or 1, jobs=jobs or cores())
            stands = None if archive else await standing_or_none(opened_journal)
        found = _judged(found, refused, quorum, at_least, stands)
        if output.as_json:
            output.json(_verification_json(found, stands))
        else:
            _print_verification(output, found, stands)
        return Exit.OK if found.ok else Exit.BAD

    return run_async(main)


def _judged(
    found: Verification,
    refused: Sequence[str],
    quorum: int | None,
    at_least: int | None,
    stands: Standing | None,
) -> Verification:
    """What was found, and what is wrong with the checkpoints themselves and by the file beside the journal."""
    problems = [Problem(None, None, "checkpoint", each) for each in refused]
    if stands is not None and stands.bad:
        problems.append(Problem(None, None, "rolled_back", stands.text))
    if found.ok and at_least is not None and found.signed < at_least:
        message = f"the last checkpoint is of {count(found.signed, 'record')}, not of at least {at_least:,}"
        problems.append(Problem(None, None, "checkpoint", message))
    if found.ok and quorum is not None and found.grade != "witnessed":
        message = f"fewer than {quorum} of the witnesses that are trusted have signed the last checkpoint"
        problems.append(Problem(None, None, "witness", message))
    return attrs.evolve(found, problems=(*problems, *found.problems), found=found.found + len(problems))


def _verification_json(found: Verification, stands: Standing | None) -> dict[str, object]:
    fields = attrs.asdict(found, recurse=False)
    return {
        **{name: plain(value) for name, value in fields.items() if name not in ("problems", "roots", "checkpoints")},
        "ok": found.ok,
        "problems": [attrs.asdict(problem) for problem in found.problems],
        "side_file": None if stands is None else stands.to_json(),
        "checkpoints": [{**attrs.asdict(each), "witnesses": list(each.witnesses)} for each in found.checkpoints],
    }


def _print_verification(output: Output, found: Verification, stands: Standing | None) -> None:
    for problem in found.problems:
        output.result(styled(_problem_text(problem), "red"))
    if found.found > len(found.problems):
        output.result(styled(f"and {count(found.found - len(found.problems), 'more problem')}", "red"))
    checked = f"{count(found.records, 'record')}, {count(found.streams, 'stream')}"
    if found.values:
        checked += f", {count(found.values, 'large value')}"
    if found.archived:
        output.result(
            styled(
                f"{count(found.archived, 'record')} of {found.records:,} in archives: that their digests are in the "
                "tree was checked, and nothing that is said of them; with --archive FILE that is, too",
                "yellow",
            )
        )
    grade = grade_text(found)
    if stands is not None and stands.bad:
        grade += ", and not as it was left"
    elif stands is not None and stands.found.state not in {"matches", "missing"}:
        accepted = "" if stands.accepted is None else f"; that was accepted (position {stands.accepted:,})"
        output.note(styled(f"{stands.text}{accepted}", "yellow"))
    output.result(styled(f"{grade}: {checked}", "bold green" if found.ok else "bold red"))
    output.result(styled(grade_meaning(found)))
    if found.checkpoints:
        last = found.checkpoints[-1]
        text = f"{count(len(found.checkpoints), 'checkpoint')} by {clean(last.origin)}"
        text += f", the last of {count(last.size, 'record')}"
        if last.witnesses:
            text += f", cosigned by {', '.join(clean(name) for name in last.witnesses)}"
        output.result(styled(text, "dim"))
    output.result(styled(f"journal {found.journal_id}, root {found.root}", "dim"))


def _problem_text(problem: Problem) -> str:
    place = "" if problem.position is None else f"position {problem.position}"
    stream = "" if problem.stream is None else f"stream {clean(problem.stream)}"
    whole = "checkpoints" if problem.kind in {"checkpoint", "split", "witness"} else "journal"
    where = ", ".join(part for part in (place, stream) if part) or whole
    return f"{where}: {clean(problem.message)} ({problem.kind})"
