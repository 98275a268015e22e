"""Signed notes, and the keys that sign them, in the formats of C2SP ``signed-note`` (c2sp.org/signed-note).

A note is a text with a blank line and signature lines behind it. Keys are written as Go's ``sumdb/note`` and the
tools around it write them: ``<name>+<key id>+<base64>`` for whoever checks, ``PRIVATE+KEY+...`` for whoever signs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import attrs

from trouper_journal import _ed25519
from trouper_journal._errors import InvalidKey, InvalidNote
from trouper_journal._printable import Plain

MAX_NOTE: Final = 1_000_000
"""Bytes of a note that are read."""

MAX_SIGNATURES: Final = 100
"""Signature lines of a note that are read."""

_DASH: Final = "\N{EM DASH} "
_PRIVATE: Final = "PRIVATE+KEY+"
_ID_SIZE: Final = 4


class SignatureType(IntEnum):
    """What a key signs: the byte that its id and its text contain."""

    NOTE = 1
    """Ed25519 over the note's text."""
    COSIGNATURE = 4
    """Ed25519 over a checkpoint and a time (c2sp.org/tlog-cosignature): a witness's."""


@attrs.frozen(slots=False, repr=False, eq=False)
class VerifierKey(Plain):
    """A public key with the name of its holder: what somebody who checks signatures has pinned.

    Attributes:
        name: The holder's, such as ``example.com/desk``; for a log that is its origin.
        public: The Ed25519 public key, 32 bytes.
        kind: What it signs.
    """

    name: str
    public: bytes
    kind: SignatureType = SignatureType.NOTE

    def __attrs_post_init__(self) -> None:
        check_key_name(self.name)
        _check_size(self.public)
        if _ed25519.is_weak(self.public):
            raise InvalidKey(f"the public key of {self.name} is a weak one: anybody could sign for it")

    @property
    def key_id(self) -> bytes:
        """The four bytes that stand before its signatures."""
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(named).digest()[:_ID_SIZE]

    def __str__(self) -> str:
        """As ``parse`` reads it."""
        return f"{self.name}+{self.key_id.hex()}+{_encoded(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read a key as text.

        Raises:
            InvalidKey: It is none.
        """
        if text.strip().startswith(_PRIVATE):
            raise InvalidKey("this is a private key: give the public one")
        name, kind, data, given = _parts(text.strip(), "public")
        key = cls(name, data, kind)
        if key.key_id.hex() != given:
            raise InvalidKey("the public key does not have the id that stands in it: it was changed")
        return key


@attrs.frozen(slots=False, repr=False, eq=False)
class SignerKey(Plain):
    """A private key with the name of its holder.

    Attributes:
        name: The holder's.
        seed: The Ed25519 private key, 32 bytes. Keep it from logs.
        kind: What it signs.
    """

    name: str
    seed: bytes = attrs.field(repr=False)
    kind: SignatureType = SignatureType.NOTE

    def __attrs_post_init__(self) -> None:
        check_key_name(self.name)
        _check_size(self.seed)

    @property
    def verifier(self) -> VerifierKey:
        """The public key to it.

        Raises:
            MissingExtra: The package ``cryptography`` is not installed.
        """
        return VerifierKey(self.name, _ed25519.public_key(self.seed), self.kind)

    def secret_text(self) -> str:
        """As ``parse`` reads it: the private key itself.

        Raises:
            MissingExtra: The package ``cryptography`` is not installed.
        """
        data = _encoded(bytes([self.kind]) + self.seed)
        return f"{_PRIVATE}{self.name}+{self.verifier.key_id.hex()}+{data}"

    @classmethod
    def parse(cls, text: str) -> SignerKey:
        """Read a private key as text.

        Raises:
            InvalidKey: It is none.
            MissingExtra: The package ``cryptography`` is not installed.
        """
        text = text.strip()
        if not text.startswith(_PRIVATE):
            raise InvalidKey(f"this is no private key: one begins with {_PRIVATE}")
        name, kind, data, given = _parts(text.removeprefix(_PRIVATE), "private")
        key = cls(name, data, kind)
        if key.verifier.key_id.hex() != given:
            raise InvalidKey("the private key does not have the id that stands in it: it was changed")
        return key


@attrs.frozen(slots=False, repr=False, eq=False)
class NoteSignature(Plain):
    """One signature line of a note.

    Attributes:
        name: The name of the key, as claimed.
        key_id: The four bytes that tell the key.
        data: The signature; its form depends on the kind of key.
    """

    name: str
    key_id: bytes
    data: bytes

    def __str__(self) -> str:
        """The line, without its newline."""
        return f"{_DASH}{self.name} {_encoded(self.key_id + self.data)}"

    def is_by(self, key: VerifierKey) -> bool:
        """Whether it claims to be by this key."""
        return (self.name, self.key_id) == (key.name, key.key_id)


@attrs.frozen(slots=False, repr=False, eq=False)
class Note(Plain):
    """A text and who signed it; nothing of it is to be believed before a signature was checked.

    Attributes:
        text: The text, with its final newline.
        signatures: Its signatures.
    """

    text: str
    signatures: tuple[NoteSignature, ...]

    def __str__(self) -> str:
        """The note as it stands in a file."""
        return f"{self.text}\n" + "".join(f"{signature}\n" for signature in self.signatures)

    @classmethod
    def parse(cls, text: str) -> Note:
        """Read a note; signatures are not checked.

        Raises:
            InvalidNote: It is none.
        """
        if len(text) > MAX_NOTE:
            raise InvalidNote(f"the note is longer than {MAX_NOTE:,} characters")
        check_text(text)
        body, blank, lines = text.rpartition("\n\n")
        if not blank or not body or not lines:
            raise InvalidNote("a note is a text, a blank line, and at least one signature")
        signatures = lines.removesuffix("\n").split("\n")
        if len(signatures) > MAX_SIGNATURES:
            raise InvalidNote(f"the note has more than {MAX_SIGNATURES} signatures")
        return cls(body + "\n", tuple(parse_signature(line) for line in signatures))


def sign_note(text: str, key: SignerKey) -> NoteSignature:
    """Sign a text.

    Raises:
        InvalidNote: No note can have this text.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    check_text(text)
    if key.kind is not SignatureType.NOTE:
        raise InvalidKey(f"the key of {key.name} is a witness's, which signs no notes of its own")
    return NoteSignature(key.name, key.verifier.key_id, _ed25519.sign(key.seed, text.encode()))


def trusted_signatures(note: Note, keys: Sequence[VerifierKey]) -> list[VerifierKey]:
    """The keys among these that have signed a note; cosignatures are not looked at here.

    Raises:
        InvalidNote: A signature of one of the keys is wrong, or none of the keys has signed.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    message = note.text.encode()
    found: list[VerifierKey] = []
    for key in keys:
        # A second signature of the same key adds nothing.
        signature = next((each for each in note.signatures if each.is_by(key)), None)
        if signature is None or key.kind is not SignatureType.NOTE:
            continue
        if not _ed25519.is_signed(key.public, message, signature.data):
            raise InvalidNote(f"the signature of {key.name} is not one of this text: text or signature was changed")
        found.append(key)
    if not found:
        names = ", ".join(sorted({signature.name for signature in note.signatures}))
        raise InvalidNote(f"none of the keys that are trusted has signed this; it claims to be signed by {names}")
    return found


def parse_signature(line: str) -> NoteSignature:
    """Read a signature line.

    Raises:
        InvalidNote: It is none.
    """
    name, _, data = line.removeprefix(_DASH).partition(" ")
    try:
        if not line.startswith(_DASH):
            raise InvalidKey("it does not begin as one")
        check_key_name(name)
        signature = _decoded(data)
    except InvalidKey as error:
        raise InvalidNote(f"{line[:100]!r} is not a signature line: {error}") from error
    if len(signature) <= _ID_SIZE:
        raise InvalidNote(f"{line[:100]!r} is not a signature line: the signature is too short")
    return NoteSignature(name, signature[:_ID_SIZE], signature[_ID_SIZE:])


def check_text(text: str) -> None:
    """Check that a note may have this text.

    Raises:
        InvalidNote: It may not.
    """
    if not text.endswith("\n"):
        raise InvalidNote("a note ends with a newline")
    if any(character < " " and character != "\n" for character in text):
        raise InvalidNote("a note has no control characters but newlines")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidNote("a note is text that can be written as UTF-8")


def check_key_name(name: str) -> None:
    """Check that a key may have this name.

    Raises:
        InvalidKey: It may not.
    """
    if not name or "+" in name or not name.isprintable() or any(character.isspace() for character in name):
        raise InvalidKey(f"{name!r} cannot name a key: it has no spaces and no plus, example.com/desk for example")


def _parts(text: str, what: str) -> tuple[str, SignatureType, bytes, str]:
    name, _, rest = text.partition("+")
    given, _, data = rest.partition("+")
    try:
        key = _decoded(data)
        if not name or len(given) != 2 * _ID_SIZE or not key:
            raise InvalidKey("it has not three parts")
        return name, SignatureType(key[0]), key[1:], given
    except ValueError as error:
        raise InvalidKey(f"this is no {what} key, which is written as NAME+ID+DATA: {error}") from error


def _check_size(data: bytes) -> None:
    if len(data) != _ed25519.KEY_SIZE:
        raise InvalidKey(f"an Ed25519 key has {_ed25519.KEY_SIZE} bytes, not {len(data)}")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidKey(f"it is not in base64: {error}") from error
    # Other texts that mean the same bytes would let a note be changed without notice.
    if _encoded(data) != text:
        raise InvalidKey("it is not in base64 as it is always written")
    return data
