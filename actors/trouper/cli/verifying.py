"""Commands for whoever must rely on a journal: ``verify`` its bytes, ``prove`` what is in it to others."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from trouper.cli.archiving import verify_archive
from trouper.cli.checking import progress
from trouper.cli.codes import Exit, NotFoundError, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.plain import moment, plain
from trouper.narration.text import clean, count
from trouper_journal import Archived, Journal, JournalCorrupt, Problem, Record, SystemClock, Verification, leaf_digest
from trouper_journal._workers import cores
from trouper_journal.archive import is_archive
from trouper_journal.proofs import Growth, Inclusion, leaf_parts, prove_growth, prove_inclusion
from trouper_journal.signing import (
    CheckpointFile,
    SignedCheckpoint,
    VerifierKey,
    open_checkpoint,
    read_public_key,
    verify_signed,
)

_GRADES = {
    "self-consistent": "records, indexes and Merkle tree agree. Only a root kept elsewhere can show a file made anew",
    "inconsistent": "the file is damaged, or somebody has changed it",
    "matches checkpoint": "the records are those that were signed, and all that follow agree with each other",
    "witnessed": "the records are those that were signed, and witnesses have seen no others",
}
_SECOND = 1_000_000_000
_SKEW = 3600
"""Seconds by which a witness's clock may be ahead of this one."""

CHECKPOINTS = click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of signed checkpoints; again for more. With --pub alone: those beside the journal.",
)
PUBLIC = click.option("--pub", help="The public key that must have signed them: its text, or a file that holds it.")
WITNESSES = click.option(
    "--witness", "witnesses", multiple=True, help="The public key of a witness that is trusted; again for more."
)


# ---- verify


@command
@JOURNAL
@CHECKPOINTS
@PUBLIC
@WITNESSES
@click.option("--jobs", type=click.IntRange(min=1), help="How many processes work; by default as many as cores.")
@click.option("--quorum", type=click.IntRange(min=1), help="How many of them must have signed; by default one.")
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
) -> Exit:
    """Check every record against its digest and the Merkle tree. Exit code 1 if anything disagrees.

    With --pub, also against the checkpoints that were signed: whatever was changed since, cut off or replaced by
    another history is found. An archive can be verified by itself, too; with --pub, against a checkpoint of the size
    that its journal had when it was made.
    """

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            signed = signed_checkpoints(journal, checkpoints, pub, witnesses)
            with progress(output, "verifying") as told:
                if is_archive(journal):
                    found = await verify_archive(journal, signed, told, quorum=quorum or 1)
                else:
                    found = await verify_signed(opened_journal, signed, told, quorum=quorum or 1, jobs=jobs or cores())
        if output.as_json:
            output.json({**_verification_json(found)})
        else:
            _print_verification(output, found)
        short = quorum is not None and found.grade != "witnessed"
        if short and found.ok:
            output.error(f"fewer than {quorum} of the witnesses that are trusted have signed the last checkpoint")
        return Exit.OK if found.ok and not short else Exit.BAD

    return run_async(main)


def signed_checkpoints(
    journal: Path, files: Sequence[Path], pub: str | None, witnesses: Sequence[str] = ()
) -> list[SignedCheckpoint]:
    """The checkpoints that a command line names, with their signatures checked.

    Raises:
        UsageError: No key is given.
        NotFoundError: There is no such file.
        InvalidNote: One of the files holds what the key has not signed.
    """
    if pub is None:
        if files or witnesses:
            raise UsageError(
                "say with --pub whose signature a checkpoint must have: a key that comes with it is worth nothing"
            )
        return []
    key = public_key(pub)
    trusted = [public_key(each) for each in witnesses]
    now = SystemClock().now() // _SECOND + _SKEW
    found: list[SignedCheckpoint] = []
    for path in files or [beside(journal)]:
        notes = CheckpointFile(path).read()
        if not notes:
            raise NotFoundError(f"there are no checkpoints in {path}")
        found += [open_checkpoint(note, key, trusted, now=now) for note in notes]
    return found


def public_key(given: str) -> VerifierKey:
    """A public key that a command line gives: its text, or the name of a file.

    Raises:
        NotFoundError: It is the name of a file that is not there.
        InvalidKey: It is no public key.
    """
    # A key's text has its parts between plus signs.
    if given.count("+") < 2 and not Path(given).exists():
        raise NotFoundError(f"there is no file {given}, and that is no public key itself")
    return read_public_key(given)


def beside(journal: Path) -> Path:
    """Where a journal's checkpoints are kept unless another file is named."""
    return journal.with_name(f"{journal.name}.checkpoints")


def _verification_json(found: Verification) -> dict[str, object]:
    fields = attrs.asdict(found, recurse=False)
    return {
        **{name: plain(value) for name, value in fields.items() if name not in ("problems", "roots", "checkpoints")},
        "ok": found.ok,
        "problems": [attrs.asdict(problem) for problem in found.problems],
        "checkpoints": [{**attrs.asdict(each), "witnesses": list(each.witnesses)} for each in found.checkpoints],
    }


def _print_verification(output: Output, found: Verification) -> None:
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
                f"{count(found.archived, 'record')} of them in archives: only that their digests are in the tree was "
                "checked; with --archive FILE they are, too",
                "yellow",
            )
        )
    output.result(styled(f"{found.grade}: {checked}", "bold green" if found.ok else "bold red"))
    output.result(styled(_GRADES[found.grade]))
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
    where = ", ".join(part for part in (place, stream) if part) or "journal"
    return f"{where}: {clean(problem.message)} ({problem.kind})"


# ---- prove


@command
@JOURNAL
@click.argument("position", type=click.IntRange(min=1), required=False)
@click.option(
    "--from", "old", type=click.IntRange(min=0), help="Prove instead that the journal grew from so many records."
)
@click.option(
    "--to", "size", type=click.IntRange(min=0), help="Over how many records; by default all, or the checkpoint's."
)
@CHECKPOINTS
@PUBLIC
def prove(
    output: Output,
    /,
    journal: Path,
    *,
    position: int | None,
    old: int | None,
    size: int | None,
    checkpoints: Sequence[Path],
    pub: str | None,
) -> Exit:
    """Print a proof as JSON: that one record is in the journal, or that the journal only grew.

    Whoever has the root of a checkpoint can check the proof without the journal. It says nothing of what the record
    holds beyond its envelope. With --pub the proof is for the last checkpoint, which is added to it.
    """
    if (position is None) == (old is None):
        raise UsageError("give the position of a record, or --from with a number of records")

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            signed = signed_checkpoints(journal, checkpoints, pub)
            last = max(signed, key=lambda each: each.checkpoint.size, default=None)
            upto = size if last is None else last.checkpoint.size
            if last is not None and size not in (None, upto):
                raise UsageError(f"--to {size} is not the size of the last checkpoint, {upto}")
            total = await opened_journal.position()
            if upto is not None and upto > total:
                raise NotFoundError(f"the journal has {total} records, not {upto}")
            if max(position or 0, old or 0) > (total if upto is None else upto):
                raise NotFoundError(
                    f"there are {total if upto is None else upto} records, not {max(position or 0, old or 0)}"
                )
            with progress(output, "proving") as told:
                if position is not None:
                    proof = await prove_inclusion(opened_journal, [position], size=upto, progress=told)
                    found = await _inclusion_json(opened_journal, position, proof)
                    root = proof.root
                else:
                    growth = await prove_growth(opened_journal, old or 0, upto, progress=told)
                    found, root = _growth_json(growth), growth.new_root
            if last is not None:
                found["checkpoint"] = str(last)
                if last.checkpoint.root != root:
                    output.error("the journal is not the one that was signed: verify tells more")
                    return Exit.BAD
            output.json({"journal_id": opened_journal.id.hex(), **found})
        return Exit.OK

    return run_async(main)


async def _inclusion_json(journal: Journal, position: int, proof: Inclusion) -> dict[str, object]:
    record = await _whole_record(journal, position, proof.leaves[position])
    return {
        "position": position,
        "size": proof.size,
        "root": proof.root.hex(),
        "leaf": proof.leaves[position].hex(),
        "proof": [each.hex() for each in proof.paths[position]],
        "record": _archived(record) if isinstance(record, Archived) else _envelope(journal.id, record),
    }


async def _whole_record(journal: Journal, position: int, leaf: bytes) -> Record:
    """The record whose leaf was proved.

    Raises:
        JournalCorrupt: It does not have that leaf: a proof would say nothing about it.
    """
    for record in await journal.store.read_all(position - 1, 1):
        try:
            if record.position == position and (
                isinstance(record, Archived) or leaf_digest(journal.id, record) == leaf
            ):
                return record
        except (struct.error, TypeError, AttributeError, ValueError):
            break
    raise JournalCorrupt("the record is not what its leaf says: verify tells more", position)


def _archived(record: Archived) -> dict[str, object]:
    """Of a record that is not here any more: the leaf is proved, the archive shows that it is the record's."""
    return {"stream": record.stream, "version": record.version, "archived": record.file}


def _envelope(journal_id: bytes, record: Record) -> dict[str, object]:
    header, digests = leaf_parts(journal_id, record)
    return {
        "stream": record.stream,
        "version": record.version,
        "type": record.type,
        "schema": record.schema,
        "recorded_at": moment(record.recorded_at),
        "header": header.hex(),
        **{f"{name}_sha256": digest.hex() for name, digest in zip(("meta", "facts", "content"), digests, strict=True)},
    }


def _growth_json(growth: Growth) -> dict[str, object]:
    return {
        "old_size": growth.old,
        "size": growth.new,
        "old_root": growth.old_root.hex(),
        "root": growth.new_root.hex(),
        "proof": [each.hex() for each in growth.path],
    }
