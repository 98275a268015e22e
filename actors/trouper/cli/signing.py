"""Commands for whoever runs a journal and vouches for it: ``keygen`` and ``checkpoint``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from trouper.audit.copies import standing_or_none
from trouper.cli.checking import JOBS, progress
from trouper.cli.codes import ConflictError, Exit, NotFoundError, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import opened_to_read
from trouper.cli.loading import http_witness, load_witness
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.cli.pinned import beside
from trouper.narration.text import clean, count
from trouper_journal import Journal
from trouper_journal._whole_file import make_file
from trouper_journal._workers import cores
from trouper_journal.signing import (
    CheckpointFile,
    Note,
    SignedCheckpoint,
    SignerKey,
    ask_witnesses,
    new_key,
    open_checkpoint,
    read_key,
    sign_head,
    write_key,
)

_WITNESSES = click.option(
    "--witness-py",
    "witnesses",
    multiple=True,
    metavar="FILE:NAME",
    help="A witness to ask for its signature: a variable in a Python file; again for more.",
)
_URLS = click.option(
    "--witness-url",
    "urls",
    type=(str, str),
    multiple=True,
    metavar="URL KEY",
    help="A witness behind HTTP: where, and its public key (its text, or a file that holds it); again for more.",
)


@command
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the holder, such as example.com/desk; for a journal unique to it.")
@click.option("--journal", type=click.Path(path_type=Path), help="Name it after this journal's id instead.")
@click.option("--witness", is_flag=True, help="A key that cosigns the checkpoints of others.")
def keygen(output: Output, /, file: Path, *, name: str | None, journal: Path | None, witness: bool) -> Exit:
    """Make a key to sign checkpoints with; prints the public key, for others to pin.

    FILE gets the private key, readable by its owner only; FILE.pub the public one. Give each journal a key of its own.
    Where FILE holds such a key already, and FILE.pub is gone, that is made again.
    """
    if (name is None) == (journal is None):
        raise UsageError("say with --name whose key it is, or with --journal for which journal")

    async def main() -> Exit:
        given = name
        if journal is not None:
            async with opened_to_read(journal) as opened_journal:
                given = f"trouper/{opened_journal.id.hex()}"
        public = Path(f"{file}.pub")
        key, there = _key_pair(file, public, given or "", witness=witness)
        text = str(key.verifier)
        if output.as_json:
            output.json(
                {
                    "name": key.name,
                    "public_key": text,
                    "file": str(file),
                    "public_file": str(public),
                    "witness": witness,
                }
            )
        else:
            output.raw(text)
            was = ", which was there" if there else ""
            output.note(styled(f"private key in {file}{was}, public key in {public}", "dim"))
        return Exit.OK

    return run_async(main)


@command
@JOURNAL
@click.option(
    "--key",
    "key_file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The private key's file, as keygen makes it.",
)
@_WITNESSES
@_URLS
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file that it is added to; JOURNAL.checkpoints by default.",
)
@JOBS
def checkpoint(
    output: Output,
    /,
    journal: Path,
    *,
    key_file: Path,
    witnesses: Sequence[str],
    urls: Sequence[tuple[str, str]],
    out: Path | None,
    jobs: int | None,
) -> Exit:
    """Verify a journal, and sign how many records it has and what they are; adds that to a file, and prints it.

    Nothing is signed that does not verify (exit code 5), or that contradicts what that file says was signed before
    (exit code 1, as where a witness does not sign). Keep a copy where those who can write the journal cannot write:
    `trouper verify --pub` compares the journal with it.
    """

    async def main() -> Exit:
        key = _own_key(key_file)
        asked = [*(load_witness(each) for each in witnesses), *(http_witness(*each) for each in urls)]
        file = CheckpointFile(out or beside(journal))
        async with opened_to_read(journal, whole=True) as opened_journal:
            signed, added = await _sign(output, opened_journal, key, file, jobs or cores())
            found = await ask_witnesses(opened_journal, signed, asked)
            if found.checkpoint.note != signed.note:
                file.add_cosignatures(found.checkpoint)
            stands = await standing_or_none(opened_journal)
        _print_checkpoint(output, found.checkpoint, file.path, added=added)
        if stands is not None and stands.bad:
            output.error(stands.text)
        for name, why in found.refusals:
            output.error(f"the witness {name} has not signed: {why}")
        return Exit.BAD if found.refusals else Exit.OK

    return run_async(main)


async def _sign(
    output: Output, journal: Journal, key: SignerKey, file: CheckpointFile, jobs: int
) -> tuple[SignedCheckpoint, bool]:
    """The last checkpoint in the file, and whether it was added now: there is a new one if anything was recorded."""
    if not await journal.position():
        raise ConflictError("the journal has no records yet: there is nothing to sign")
    earlier = [open_checkpoint(note, key.verifier) for note in file.read()]
    with progress(output, "verifying") as told:
        signed = await sign_head(journal, key, [each.checkpoint for each in earlier], progress=told, jobs=jobs)
    if earlier and earlier[-1].checkpoint == signed.checkpoint:
        return earlier[-1], False

    def check(notes: list[Note]) -> None:
        if len(notes) != len(earlier):
            raise ConflictError(f"{file.path} was added to by somebody else meanwhile: try again")

    file.append(signed, check)
    return signed, True


def _key_pair(file: Path, public: Path, name: str, *, witness: bool) -> tuple[SignerKey, bool]:
    """A key in two files, and whether the private one was there: interrupted between the two, it is the same key."""
    if public.exists():
        raise ConflictError(f"{public} is there already: no key is overwritten")
    key = new_key(name, witness=witness)
    there = file.exists()
    if there:
        found = read_key(file)
        if (found.name, found.kind) != (key.name, key.kind):
            raise ConflictError(f"{file} is there already, a key of {clean(found.name)}: no key is overwritten")
        key = found
    else:
        write_key(file, key)
    make_file(public, f"{key.verifier}\n".encode())
    public.chmod(0o644)
    return key, there


def _own_key(path: Path) -> SignerKey:
    if not path.exists():
        raise NotFoundError(f"there is no key {path}: trouper keygen makes one")
    return read_key(path)


def _print_checkpoint(output: Output, signed: SignedCheckpoint, path: str, *, added: bool) -> None:
    found = signed.checkpoint
    cosigned = [witness.name for witness in signed.witnesses]
    if output.as_json:
        output.json(
            {
                "origin": found.origin,
                "size": found.size,
                "root": found.root.hex(),
                "checkpoint": str(signed),
                "file": path,
                "added": added,
                "cosigned_by": cosigned,
            }
        )
        return
    output.raw(str(signed).removesuffix("\n"))
    where = "added to" if added else "nothing new was recorded since the last one in"
    by = f"; now cosigned by {', '.join(clean(name) for name in cosigned)}" if cosigned else ""
    output.note(styled(f"{count(found.size, 'record')} signed as {clean(found.origin)}; {where} {path}{by}", "dim"))
