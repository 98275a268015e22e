"""Checkpoints: a journal's size and root, signed, in the format of C2SP ``tlog-checkpoint`` (c2sp.org/tlog-checkpoint).

A checkpoint that is kept where the journal's writer cannot change it is what makes ``verify`` mean more than that a
file agrees with itself. Witnesses sign a checkpoint too, with the time (c2sp.org/tlog-cosignature).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from trouper_journal import _ed25519
from trouper_journal._errors import InvalidKey, InvalidNote
from trouper_journal._notes import (
    Note,
    NoteSignature,
    SignatureType,
    SignerKey,
    VerifierKey,
    check_text,
    parse_signature,
    sign_note,
    trusted_signatures,
)
from trouper_journal._printable import Plain
from trouper_journal._proofs import HASH_SIZE

MAX_RECORDS: Final = 2**63 - 1
"""Records that a journal can have."""

_TIME: Final = struct.Struct(">Q")


@attrs.frozen(slots=False, repr=False, eq=False)
class Checkpoint(Plain):
    """What is signed.

    Attributes:
        origin: Name of the log, unique to the journal.
        size: Number of records.
        root: Root of the Merkle tree over them, 32 bytes.
        extensions: Further lines, without meaning here.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text that is signed."""
        return "".join(f"{line}\n" for line in (self.origin, self.size, _encoded(self.root), *self.extensions))

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read the text of a checkpoint.

        Raises:
            InvalidNote: It is none.
        """
        check_text(text)
        lines = text.removesuffix("\n").split("\n")
        if len(lines) < 3 or not all(lines):
            raise InvalidNote("a checkpoint has at least three lines, none of them empty: origin, size, root")
        origin, size, root, *more = lines
        if not (size.isascii() and size.isdecimal()) or (size != "0" and size.startswith("0")) or len(size) > 19:
            raise InvalidNote(f"the size of a checkpoint is a number, not {size[:40]!r}")
        try:
            data = base64.b64decode(root, validate=True)
        except ValueError:
            data = b""
        if len(data) != HASH_SIZE or _encoded(data) != root or int(size) > MAX_RECORDS:
            raise InvalidNote(f"the root of a checkpoint is {HASH_SIZE} bytes in base64, not {root[:80]!r}")
        return cls(origin, int(size), data, tuple(more))


@attrs.frozen(slots=False, repr=False, eq=False)
class Cosignature(Plain):
    """A witness's word that it has seen a log grow up to a checkpoint and not otherwise.

    Attributes:
        name: The witness.
        time: When it signed, seconds since 1970-01-01 UTC.
    """

    name: str
    time: int


@attrs.frozen(slots=False, repr=False, eq=False)
class SignedCheckpoint(Plain):
    """A checkpoint whose signature was checked.

    Attributes:
        checkpoint: What was signed.
        note: It with all of its signatures, as it stands in a file.
        witnesses: Cosignatures of witnesses that are trusted.
    """

    checkpoint: Checkpoint
    note: Note
    witnesses: tuple[Cosignature, ...] = ()

    def __str__(self) -> str:
        """The note."""
        return str(self.note)


def sign_checkpoint(checkpoint: Checkpoint, key: SignerKey) -> SignedCheckpoint:
    """Sign a checkpoint with the key of its log.

    Raises:
        InvalidKey: The key has another name than the log.
        InvalidNote: No checkpoint can look like this.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    if key.name != checkpoint.origin:
        raise InvalidKey(f"the key of {key.name} does not sign for {checkpoint.origin}")
    text = str(checkpoint)
    if Checkpoint.parse(text) != checkpoint:
        raise InvalidNote("the checkpoint would read otherwise than it is")
    return SignedCheckpoint(checkpoint, Note(text, (sign_note(text, key),)))


def open_checkpoint(
    note: Note | str, key: VerifierKey, witnesses: Sequence[VerifierKey] = (), *, now: int | None = None
) -> SignedCheckpoint:
    """Check a checkpoint's signature.

    Args:
        note: The checkpoint.
        key: The log's key, as pinned.
        witnesses: Keys of the witnesses that are trusted; cosignatures of others are passed over.
        now: The time, seconds since 1970-01-01 UTC; a cosignature of later is not believed.

    Raises:
        InvalidNote: It is none, or is not signed by the key, or is the checkpoint of another log.
        InvalidKey: A witness's key is given for the log's, or the other way round.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    if isinstance(note, str):
        note = Note.parse(note)
    if key.kind is not SignatureType.NOTE:
        raise InvalidKey(f"the key of {key.name} is a witness's: it signs no checkpoints of its own")
    trusted_signatures(note, [key])
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != key.name:
        raise InvalidNote(f"the key of {key.name} does not speak for {checkpoint.origin}")
    return SignedCheckpoint(checkpoint, note, tuple(check_cosignatures(note, witnesses, now=now)))


def cosign(checkpoint: Checkpoint, key: SignerKey, time: int) -> NoteSignature:
    """A witness's signature of a checkpoint.

    Args:
        checkpoint: What the witness has seen to be consistent with all that it signed before.
        key: The witness's key.
        time: Seconds since 1970-01-01 UTC.

    Raises:
        InvalidKey: It is not a witness's key.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    if key.kind is not SignatureType.COSIGNATURE:
        raise InvalidKey(f"the key of {key.name} is not a witness's")
    signature = _ed25519.sign(key.seed, _cosigned(str(checkpoint), time))
    return NoteSignature(key.name, key.verifier.key_id, _TIME.pack(time) + signature)


def check_cosignatures(
    note: Note, witnesses: Sequence[VerifierKey], *, now: int | None = None
) -> Iterator[Cosignature]:
    """The cosignatures of these witnesses; what others signed is passed over.

    A key that is given several times, or under several names, is one witness.

    Raises:
        InvalidNote: A signature of one of them is wrong.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    seen: set[bytes] = set()
    for key in witnesses:
        if key.kind is not SignatureType.COSIGNATURE:
            raise InvalidKey(f"the key of {key.name} is not a witness's")
        if key.public in seen:
            continue
        signature = next((each for each in note.signatures if each.is_by(key)), None)
        if signature is None:
            continue
        if len(signature.data) != _TIME.size + _ed25519.SIGNATURE_SIZE:
            raise InvalidNote(f"the cosignature of {key.name} does not have the length of one")
        (time,) = _TIME.unpack(signature.data[: _TIME.size])
        if not _ed25519.is_signed(key.public, _cosigned(note.text, time), signature.data[_TIME.size :]):
            raise InvalidNote(f"the cosignature of {key.name} is not one of this checkpoint")
        if now is not None and time > now:
            raise InvalidNote(f"the cosignature of {key.name} is from the future: look at the clocks")
        seen.add(key.public)
        yield Cosignature(key.name, time)


def split_notes(text: str) -> Iterator[Note]:
    """The notes of a history: checkpoints one behind the other, with blank lines between. Nothing is checked.

    Raises:
        InvalidNote: It is no such history; the message names the line.
    """
    body: list[str] = []
    signatures: list[NoteSignature] = []
    signing = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            if signatures:
                yield Note("".join(body), tuple(signatures))
                body, signatures = [], []
            signing = bool(body)
        elif signing:
            try:
                signatures.append(parse_signature(line))
            except InvalidNote as error:
                raise InvalidNote(f"line {number}: {error}") from error
        else:
            body.append(f"{line}\n")
    if body or signatures:
        raise InvalidNote("the last checkpoint is cut off in the middle: remove its lines")


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
