"""The command ``check-proof``: what ``prove`` has printed, for whoever has nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import click

from trouper.audit import proof_check
from trouper.audit.proof_check import CheckedProof
from trouper.cli.codes import Exit, NotFoundError
from trouper.cli.command import command
from trouper.cli.output import Output, styled
from trouper.cli.pinned import PUBLIC, public_key
from trouper.narration.text import clean, count
from trouper_journal.proofs import InvalidProof

_MAX_SIZE = 10_000_000


@command
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@PUBLIC
def check_proof(output: Output, /, file: Path, *, pub: str | None) -> Exit:
    """Check a proof that `trouper prove` has printed to FILE, without any journal. Exit code 1 if it shows nothing.

    With --pub, also that the journal's checkpoint in it was signed; without, the root must be known from elsewhere.
    """
    key = None if pub is None else public_key(pub)
    found = proof_check.check_proof(_read(file), key)
    if output.as_json:
        output.json(attrs.asdict(found))
    else:
        output.result(styled(_shown(found), "green"))
        output.result(styled(_signed(found)), styled(f"journal {clean(found.journal_id)}, root {found.root}", "dim"))
    return Exit.OK


def _read(file: Path) -> dict[str, object]:
    if not file.exists():
        raise NotFoundError(f"there is no file {file}")
    with file.open("rb") as opened:
        data = opened.read(_MAX_SIZE)
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidProof(f"{file} holds no proof: it is no JSON object")
    return found


def _shown(found: CheckedProof) -> str:
    records = count(found.size, "record")
    if found.position is None:
        before, root = count(found.old_size or 0, "record"), clean(found.old_root or "")
        return f"a journal of {before} with the root {root} has only grown since, to {records}"
    if not found.record:
        return f"the leaf at position {found.position} is among {records}; the record itself is in an archive"
    return f"the record at position {found.position} is among {records}, and is what the proof says of it"


def _signed(found: CheckedProof) -> str:
    if found.signed_by is not None:
        return f"they are those that {clean(found.signed_by)} signed"
    return "nobody's signature was checked: the root must be known from elsewhere, or give --pub"
