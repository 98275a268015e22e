"""The command ``prove``: that a record is in a journal, or that it only grew, for whoever must not see the journal."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from attrs import frozen

from trouper.cli.checking import progress
from trouper.cli.codes import Exit, NotFoundError, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output
from trouper.cli.pinned import CHECKPOINTS, PUBLIC, signed_checkpoints
from trouper.narration.plain import moment
from trouper_journal import Archived, Journal, JournalCorrupt, Record, leaf_digest
from trouper_journal.proofs import Growth, Inclusion, leaf_parts, prove_growth, prove_inclusion
from trouper_journal.signing import SignedCheckpoint


@frozen
class _Asked:
    """What is to be proved: that the record at a position is there, or growth from so many records.

    Attributes:
        size: Over how many records; None for all.
        signed: The last checkpoint; None where no key is given.
    """

    position: int | None
    old: int
    size: int | None
    signed: SignedCheckpoint | None


@command
@JOURNAL
@click.argument("position", type=click.IntRange(min=1), required=False)
@click.option(
    "--from",
    "old",
    type=click.IntRange(min=0),
    metavar="N",
    help="Prove instead that the journal grew from so many records.",
)
@click.option(
    "--to",
    "size",
    type=click.IntRange(min=0),
    metavar="N",
    help="Over how many records; by default all, or the checkpoint's.",
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
        async with opened_to_read(journal, whole=True) as opened_journal:
            signed = signed_checkpoints(journal, checkpoints, pub)
            last = max(signed, key=lambda each: each.checkpoint.size, default=None)
            if last is not None and size not in (None, last.checkpoint.size):
                raise UsageError(f"--to {size} is not the size of the last checkpoint, {last.checkpoint.size}")
            asked = _Asked(position, old or 0, size if last is None else last.checkpoint.size, last)
            await _check_there(opened_journal, asked)
            with progress(output, "proving") as told:
                found, root = await _prove(opened_journal, asked, told)
            if last is not None and last.checkpoint.root != root:
                output.error("the journal is not the one that was signed: verify tells more")
                return Exit.BAD
            output.json({"journal_id": opened_journal.id.hex(), **found})
        return Exit.OK

    return run_async(main)


async def _check_there(journal: Journal, asked: _Asked) -> None:
    total = await journal.position()
    if asked.size is not None and asked.size > total:
        raise NotFoundError(f"the journal has {total} records, not {asked.size}")
    upto, wanted = total if asked.size is None else asked.size, max(asked.position or 0, asked.old)
    if wanted > upto:
        raise NotFoundError(f"there are {upto} records, not {wanted}")


async def _prove(journal: Journal, asked: _Asked, told: Callable[[int, int], None]) -> tuple[dict[str, object], bytes]:
    """The proof as JSON, and the root that it leads to."""
    if asked.position is not None:
        proof = await prove_inclusion(journal, [asked.position], size=asked.size, progress=told)
        found, root = await _inclusion_json(journal, asked.position, proof), proof.root
    else:
        growth = await prove_growth(journal, asked.old, asked.size, progress=told)
        found, root = _growth_json(growth), growth.new_root
    return found if asked.signed is None else {**found, "checkpoint": str(asked.signed)}, root


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
