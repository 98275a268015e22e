"""Witnesses: others who sign that they have seen a log grow up to a checkpoint, and never otherwise.

Whoever holds a log's key can sign two histories and show each to somebody else. A witness keeps the last checkpoint
that it has cosigned, and cosigns another only with a proof that the log grew from there. The rules and the form of a
submission are those of C2SP ``tlog-witness`` (c2sp.org/tlog-witness).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs
import trio

from trouper_journal._checkpoints import Checkpoint, SignedCheckpoint, check_cosignatures, cosign, open_checkpoint
from trouper_journal._clock import Clock, SystemClock
from trouper_journal._errors import InvalidKey, InvalidNote, InvalidProof, WitnessRefused
from trouper_journal._journal import Journal
from trouper_journal._key_files import CheckpointFile
from trouper_journal._notes import Note, NoteSignature, SignatureType, SignerKey, VerifierKey
from trouper_journal._printable import Plain
from trouper_journal._proofs import HASH_SIZE, check_consistency
from trouper_journal._proving import prove_growth

Prove: TypeAlias = Callable[[int], Awaitable[Sequence[bytes]]]
"""Gives the proof that the log grew from so many records to the checkpoint's."""

MAX_PROOF: Final = 63
"""Hashes of a submitted proof."""

_SECOND: Final = 1_000_000_000


@runtime_checkable
class Witness(Protocol):
    """Cosigns checkpoints; an adapter to somebody else, or a key and a file of one's own."""

    @property
    def key(self) -> VerifierKey:
        """The witness's public key."""
        ...

    async def add_checkpoint(self, checkpoint: SignedCheckpoint, prove: Prove) -> Sequence[NoteSignature]:
        """Hand a checkpoint in.

        Args:
            checkpoint: What the log has signed.
            prove: Gives the proof from the size that the witness has cosigned last.

        Returns:
            The witness's signature lines; whether they are right is checked by the caller.

        Raises:
            WitnessRefused: It does not cosign, or cannot be reached.
        """
        ...


@attrs.frozen(slots=False, repr=False, eq=False)
class Cosigned(Plain):
    """What witnesses have answered.

    Attributes:
        checkpoint: The checkpoint with the cosignatures that were given and are right.
        refusals: The names of the other witnesses, with what went wrong.
    """

    checkpoint: SignedCheckpoint
    refusals: tuple[tuple[str, str], ...]


async def ask_witnesses(journal: Journal, signed: SignedCheckpoint, witnesses: Sequence[Witness]) -> Cosigned:
    """Ask witnesses, one after the other, to cosign a checkpoint; one that refuses keeps nobody else from it.

    One whose signature is there already has nothing to add, and is not asked.

    Args:
        journal: The opened journal, from which proofs are made.
        signed: Its checkpoint.
        witnesses: Whom to ask.

    Raises:
        JournalCorrupt: No proof can be made.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    size = signed.checkpoint.size

    async def prove(old: int) -> Sequence[bytes]:
        if not 0 <= old <= size:
            raise WitnessRefused(f"the witness has seen {old} records, more than the {size} of the checkpoint", old)
        return (await prove_growth(journal, old, size)).path if old else ()

    refusals: list[tuple[str, str]] = []
    for witness in witnesses:
        if any(line.is_by(witness.key) for line in signed.note.signatures):
            continue
        try:
            lines = [line for line in await witness.add_checkpoint(signed, prove) if line.is_by(witness.key)]
            note = Note(signed.note.text, (*signed.note.signatures, *lines[:1]))
            found = tuple(check_cosignatures(note, [witness.key]))
            if not lines:
                raise WitnessRefused(f"{witness.key.name} has answered without a signature of its key")
        except (WitnessRefused, InvalidNote, InvalidKey) as error:
            refusals.append((witness.key.name, str(error)))
        else:
            signed = SignedCheckpoint(signed.checkpoint, note, (*signed.witnesses, *found))
    return Cosigned(signed, tuple(refusals))


class FileWitness:
    """A witness that keeps what it has cosigned in a file.

    It is worth something where its file and its key are beyond the reach of whoever writes the journal: another
    user's, on another machine, on a disk that is only appended to.

    Args:
        path: The file: a history of checkpoints, as of `CheckpointFile`.
        signer: The witness's private key.
        log: The key of the log that it watches.
        clock: Source of time.
    """

    def __init__(
        self, path: str | os.PathLike[str], signer: SignerKey, log: VerifierKey, *, clock: Clock | None = None
    ) -> None:
        if signer.kind is not SignatureType.COSIGNATURE:
            raise InvalidKey(f"the key of {signer.name} is not a witness's")
        self._file = CheckpointFile(path)
        self._signer = signer
        self._log = log
        self._clock = clock or SystemClock()

    @property
    def key(self) -> VerifierKey:
        """The witness's public key."""
        return self._signer.verifier

    async def add_checkpoint(self, checkpoint: SignedCheckpoint, prove: Prove) -> Sequence[NoteSignature]:
        """Cosign a checkpoint that follows the last one in the file, and keep it there first.

        Raises:
            WitnessRefused: The log has not signed it, it does not follow, or the file cannot be read or written.
        """
        try:
            submitted = open_checkpoint(checkpoint.note, self._log).checkpoint
            notes = await trio.to_thread.run_sync(self._file.read)
            latest = open_checkpoint(notes[-1], self._log).checkpoint if notes else None
            old = 0 if latest is None else latest.size
            # A log that was cut back cannot prove anything: what it could be asked for is not there any more.
            proof = await prove(old) if old <= submitted.size else ()
            check_submission(latest, submitted, old, proof)
            line = cosign(submitted, self._signer, self._clock.now() // _SECOND)
            if latest != submitted:
                note = Note(checkpoint.note.text, (*checkpoint.note.signatures, line))
                keep = partial(self._file.append, SignedCheckpoint(submitted, note), partial(self._unchanged, notes))
                await trio.to_thread.run_sync(keep)
        except (InvalidNote, InvalidProof, OSError) as error:
            raise WitnessRefused(f"{self._signer.name}: {error}") from error
        return [line]

    def _unchanged(self, before: Sequence[Note], now: Sequence[Note]) -> None:
        if list(before) != list(now):
            raise WitnessRefused(f"{self._signer.name} has cosigned another checkpoint meanwhile: ask again")


def check_submission(latest: Checkpoint | None, submitted: Checkpoint, old: int, proof: Sequence[bytes]) -> None:
    """Check what a witness must check before it cosigns; the log's signature was checked before.

    Args:
        latest: What it has cosigned last for this log; None for nothing.
        submitted: What it is to cosign.
        old: From which size the proof leads.
        proof: The proof.

    Raises:
        WitnessRefused: The proof does not start where the witness stands; its ``size`` says where that is.
        InvalidProof: The log did not grow from there.
    """
    size = 0 if latest is None else latest.size
    if old != size or size > submitted.size:
        raise WitnessRefused(f"{size} records were cosigned before, the checkpoint has {submitted.size}", size)
    if latest is None:
        if proof:
            raise InvalidProof("a proof from no records has no hashes")
        return
    if latest.size == submitted.size and latest.root != submitted.root:
        raise InvalidProof(f"split view: another history of {size} records was cosigned before")
    check_consistency(old, submitted.size, proof, latest.root, submitted.root)


def write_submission(old: int, proof: Sequence[bytes], note: Note) -> str:
    """The body of a request to cosign."""
    lines = [f"old {old}", *(base64.b64encode(each).decode() for each in proof)]
    return "".join(f"{line}\n" for line in lines) + f"\n{note}"


def read_submission(text: str) -> tuple[int, tuple[bytes, ...], Note]:
    """Read the body of a request to cosign: old size, proof, checkpoint.

    Raises:
        InvalidNote: It is none.
    """
    head, _, note = text.partition("\n\n")
    first, *rest = head.split("\n")
    number = first.removeprefix("old ")
    if first == number or not (number.isascii() and number.isdecimal()) or str(int(number[:20])) != number:
        raise InvalidNote("a submission begins with the old size")
    try:
        proof = tuple(base64.b64decode(line, validate=True) for line in rest)
    except ValueError as error:
        raise InvalidNote("a line of the proof is not in base64") from error
    if len(proof) > MAX_PROOF or any(len(each) != HASH_SIZE for each in proof):
        raise InvalidNote(f"a proof is at most {MAX_PROOF} hashes of {HASH_SIZE} bytes")
    return int(number), proof, Note.parse(note)
