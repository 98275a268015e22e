"""Check what ``trouper prove`` has printed, with the proof alone: no journal, and no word of whoever printed it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping

from attrs import frozen

from trouper.narration.plain import moment
from trouper_journal.proofs import InvalidProof, check_consistency, check_inclusion
from trouper_journal.signing import Checkpoint, VerifierKey, open_checkpoint

_HEADER = struct.Struct(">B16sQQqIBq")
_LENGTH = struct.Struct(">I")


@frozen
class CheckedProof:
    """What a proof shows.

    Attributes:
        journal_id: The journal's id in hexadecimal, as it stands in the record's header; as the proof says, where
            there is none.
        size: Of how many records the journal was.
        root: The root of the tree over them, in hexadecimal. Where nobody has signed it, whoever relies on the proof
            must know it from elsewhere.
        position: Where the record stands that is among them; None for a proof of growth.
        old_size: From how many records the journal has grown; None for a proof that a record is in it.
        old_root: The root of the tree over those, in hexadecimal, which must be known from elsewhere.
        record: Whether the leaf is that of the record's envelope, and not only one whose record is in an archive.
        signed_by: The name of the key that has signed the root; None where no key was given.
    """

    journal_id: str
    size: int
    root: str
    position: int | None
    old_size: int | None
    old_root: str | None
    record: bool
    signed_by: str | None


def check_proof(found: Mapping[str, object], key: VerifierKey | None = None) -> CheckedProof:
    """Check a proof that a record is in a journal, or that a journal only grew.

    Args:
        found: The JSON that ``trouper prove`` has printed.
        key: Whose signature the checkpoint in it must have.

    Raises:
        InvalidProof: It is no such proof, or does not show what it says.
        InvalidNote: The key has not signed the checkpoint that is in it.
        MissingExtra: A key is given, and the package ``cryptography`` is not installed.
    """
    size, root, path = _number(found, "size"), _bytes(found, "root"), _hashes(found)
    position = old = old_root = None
    record = False
    journal_id = _text(found, "journal_id")
    if "position" in found:
        position = _number(found, "position")
        leaf = _bytes(found, "leaf")
        check_inclusion(leaf, position - 1, size, path, root)
        record = _check_record(found, position, leaf)
    else:
        old = _number(found, "old_size")
        check_consistency(old, size, path, _bytes(found, "old_root"), root)
        old_root = _text(found, "old_root")
    if key is not None:
        _check_signed(open_checkpoint(_text(found, "checkpoint"), key).checkpoint, size, root)
    signed_by = None if key is None else key.name
    return CheckedProof(journal_id, size, root.hex(), position, old, old_root, record, signed_by)


def _check_signed(checkpoint: Checkpoint, size: int, root: bytes) -> None:
    if (checkpoint.size, checkpoint.root) != (size, root):
        raise InvalidProof(f"the proof leads to a tree of {size} records, and another one was signed")


def _check_record(found: Mapping[str, object], position: int, leaf: bytes) -> bool:
    """Whether the leaf is that of an envelope that says what is told of the record beside it."""
    record = found.get("record")
    if not isinstance(record, dict):
        raise InvalidProof("the proof does not say of which record it is")
    if "archived" in record:
        return False
    header = _bytes(record, "header")
    digests = b"".join(_bytes(record, f"{name}_sha256") for name in ("meta", "facts", "content"))
    if hashlib.sha256(b"\0" + header + digests).digest() != leaf:
        raise InvalidProof("the leaf is not that of the record's header and digests")
    told = {name: record.get(name) for name in ("stream", "version", "type", "schema", "recorded_at")}
    # As text: Python's True is 1.
    told |= {"journal_id": found["journal_id"], "position": position}
    if json.dumps(_envelope(header), sort_keys=True) != json.dumps(told, sort_keys=True):
        raise InvalidProof("the header says something else of the record than the proof does")
    return True


def _envelope(header: bytes) -> dict[str, object]:
    """What a record's header says (docs/format.md)."""
    try:
        _, journal_id, position, version, recorded_at, schema, _, _ = _HEADER.unpack_from(header)
        stream, at = _name(header, _HEADER.size)
        kind, _ = _name(header, at)
        return {
            "journal_id": journal_id.hex(),
            "position": position,
            "stream": stream,
            "version": version,
            "type": kind,
            "schema": schema,
            "recorded_at": moment(recorded_at),
        }
    except (struct.error, ValueError, OverflowError) as error:
        raise InvalidProof("the header is none") from error


def _name(header: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(header, at)
    end = at + _LENGTH.size + length
    return header[at + _LENGTH.size : end].decode("utf-8", "surrogatepass"), end


def _number(found: Mapping[str, object], name: str) -> int:
    value = found.get(name)
    if type(value) is not int or value < 0:
        raise InvalidProof(f"this is no proof: {name} is no number")
    return value


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise InvalidProof(f"this is no proof: {name} is no text, or not there")
    return value


def _bytes(found: Mapping[str, object], name: str) -> bytes:
    try:
        return bytes.fromhex(_text(found, name))
    except ValueError as error:
        raise InvalidProof(f"this is no proof: {name} is not hexadecimal") from error


def _hashes(found: Mapping[str, object]) -> list[bytes]:
    value = found.get("proof")
    if not isinstance(value, list):
        raise InvalidProof("this is no proof: proof is no list")
    return [_bytes({"proof": each}, "proof") for each in value]
