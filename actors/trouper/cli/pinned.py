"""What an auditor pins: keys, and the checkpoints that they must have signed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from trouper.cli.codes import NotFoundError, UsageError
from trouper_journal import SystemClock
from trouper_journal.signing import (
    CheckpointFile,
    InvalidNote,
    SignedCheckpoint,
    VerifierKey,
    open_checkpoint,
    read_public_key,
)

_SECOND = 1_000_000_000
_SKEW = 3600
"""Seconds by which a witness's clock may be ahead of this one."""

CHECKPOINTS = click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of signed checkpoints; again for more. With --pub alone: those beside the journal.",
)
PUBLIC = click.option(
    "--pub", metavar="KEY", help="The public key that must have signed checkpoints: its text, or a file that holds it."
)
WITNESSES = click.option(
    "--witness",
    "witnesses",
    multiple=True,
    metavar="KEY",
    help="The public key of a witness that is trusted: its text, or a file that holds it; again for more.",
)


def signed_checkpoints(journal: Path, files: Sequence[Path], pub: str | None) -> list[SignedCheckpoint]:
    """The checkpoints that a command line names, with their signatures checked.

    Raises:
        UsageError: No key is given.
        NotFoundError: There is no such file, or nothing in it.
        InvalidNote: One of the files holds what the key has not signed.
    """
    signed, refused = look_at_checkpoints(journal, files, pub)
    if refused:
        raise InvalidNote(refused[0])
    return signed


def look_at_checkpoints(
    journal: Path, files: Sequence[Path], pub: str | None, witnesses: Sequence[str] = ()
) -> tuple[list[SignedCheckpoint], list[str]]:
    """As `signed_checkpoints`; what the key has not signed is told, and the others are given nevertheless.

    Raises:
        UsageError: No key is given.
        NotFoundError: There is no such file, or nothing in it.
    """
    if pub is None:
        if files or witnesses:
            raise UsageError(
                "say with --pub whose signature a checkpoint must have: a key that comes with it is worth nothing"
            )
        return [], []
    key = public_key(pub)
    trusted = [public_key(each) for each in witnesses]
    signed: list[SignedCheckpoint] = []
    refused: list[str] = []
    for path in files or [beside(journal)]:
        _open_file(path, key, trusted, signed, refused)
    return signed, refused


def _open_file(
    path: Path, key: VerifierKey, trusted: Sequence[VerifierKey], signed: list[SignedCheckpoint], refused: list[str]
) -> None:
    now = SystemClock().now() // _SECOND + _SKEW
    try:
        notes = CheckpointFile(path).read()
    except InvalidNote as error:
        refused.append(str(error))
        return
    if not notes:
        raise NotFoundError(f"there are no checkpoints in {path}")
    for number, note in enumerate(notes, 1):
        try:
            signed.append(open_checkpoint(note, key, trusted, now=now))
        except InvalidNote as error:
            refused.append(f"{path}, checkpoint {number}: {error}")


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
