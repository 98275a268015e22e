"""The bytes of sealed content: what stands in clear around it, and what the seal is bound to. No key is needed here.

Sealed content begins with the references to its large values, so that whoever has no key can still check those, copy
them and tell which of them nobody refers to. ``docs/format.md`` gives the bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Final

from trouper_journal._codec import SALT_SIZE, SEAL_OVERHEAD
from trouper_journal._digest import hmac_sha256
from trouper_journal._errors import JournalCorrupt
from trouper_journal._records import Record
from trouper_journal._values import Reference, references, repack, unpack_map

SEAL_FORMAT: Final = 1
"""Number of the sealed layout; the first byte of sealed content."""

NONCE: Final = 12
"""Bytes of a nonce."""

_HEAD: Final = struct.Struct(">BH")
_REFERENCE: Final = struct.Struct(">32sQ")
_LENGTH: Final = struct.Struct(">I")
_SCHEMA: Final = struct.Struct(">I")
_LAYOUT: Final = bytes([SEAL_FORMAT])
_CONTENT: Final = b"\x01"
_VALUE: Final = b"\x02"
_KEY: Final = b"\x03"


def header_of(refers_to: Sequence[Reference]) -> bytes:
    """What stands in clear before the nonce: the layout's number, and the references in the order of the content."""
    return _HEAD.pack(SEAL_FORMAT, len(refers_to)) + b"".join(
        _REFERENCE.pack(reference.digest, reference.size) for reference in refers_to
    )


def split_sealed(content: bytes) -> tuple[bytes, bytes, bytes]:
    """Sealed content as header, nonce, and ciphertext with its tag.

    Raises:
        JournalCorrupt: It is too short, or of a layout that this release does not know.
    """
    if len(content) < _HEAD.size:
        raise JournalCorrupt("sealed content is too short")
    number, count = _HEAD.unpack_from(content)
    if number != SEAL_FORMAT:
        raise JournalCorrupt(f"sealed content has the layout {number}, this release knows layout {SEAL_FORMAT}")
    end = _HEAD.size + count * _REFERENCE.size
    if len(content) < end + SEAL_OVERHEAD:
        raise JournalCorrupt("sealed content is too short")
    return content[:end], content[end : end + NONCE], content[end + NONCE :]


def sealed_references(content: bytes) -> tuple[Reference, ...]:
    """The references that stand in clear before sealed content.

    Raises:
        JournalCorrupt: It is none.
    """
    header, _, _ = split_sealed(content)
    return tuple(Reference(*found) for found in _REFERENCE.iter_unpack(header[_HEAD.size :]))


def listed_references(record: Record) -> tuple[Reference, ...]:
    """The references of a sealed record, for a check of the whole journal.

    Content that counts no large values may be sealed in any way: its leaf covers it, and nothing else is to be checked.

    Raises:
        JournalCorrupt: It counts large values, and does not list them.
    """
    return listed_in(record.content, record.large)


def listed_in(content: bytes, large: int) -> tuple[Reference, ...]:
    """As `listed_references`, of sealed content that counts so many large values."""
    return () if content[:1] != _LAYOUT and not large else sealed_references(content)


def references_of(record: Record) -> tuple[Reference, ...]:
    """Which large values a record refers to, whether its content is sealed or not, without any key.

    Raises:
        JournalCorrupt: Its content is malformed.
    """
    if record.key_id is not None:
        return sealed_references(record.content)
    return references(record.content[SALT_SIZE:]) if record.large else ()


def checked_references(record: Record) -> tuple[Reference, ...]:
    """Check that all of a record that can be read without a key is packed maps; the references in it.

    Raises:
        JournalCorrupt: It is not, or it refers to large values and counts none.
    """
    bytes_only = all(type(each) is bytes for each in (record.meta, record.facts, record.content))
    if not bytes_only or type(record.wake_at) not in {int, type(None)}:
        # An empty text is hashed as no bytes are.
        raise JournalCorrupt("a column holds what no record has there")
    unpack_map(record.meta)
    unpack_map(record.facts)
    if record.key_id is not None:
        return listed_references(record)
    if not record.content:
        return ()
    if len(record.content) <= SALT_SIZE:
        raise JournalCorrupt("content is shorter than its random bytes")
    if record.large:
        return references(record.content[SALT_SIZE:])
    unpack_map(record.content[SALT_SIZE:])
    return ()


def miscounted(record: Record, found: Sequence[Reference]) -> str | None:
    """What is wrong with the number of large values that a record counts; no digest covers that."""
    return None if len(found) == record.large else f"it counts {record.large} large values and refers to {len(found)}"


def content_context(journal_id: bytes, key_id: str, stream: str, type: str, schema: int, header: bytes = b"") -> bytes:
    """What a record's seal is bound to beside its key (the associated data)."""
    return b"".join((_CONTENT, journal_id, _name(key_id), _name(stream), _name(type), _SCHEMA.pack(schema), header))


def value_context(journal_id: bytes, key_id: str, domain: str) -> bytes:
    """What a large value's seal is bound to beside its key (the associated data)."""
    return b"".join((_VALUE, journal_id, _name(key_id), _name(domain)))


def key_context(key_id: str, journal_id: bytes, domain: str) -> bytes:
    """What a wrapped data key is bound to beside the master key (the associated data)."""
    return b"".join((_KEY, journal_id, _name(key_id), _name(domain)))


def value_nonce(key: bytes, data: bytes) -> bytes:
    """The nonce of a large value: made of the value, so that equal ones are sealed alike and stored once."""
    return hmac_sha256(hmac_sha256(key, b"trouper large value nonce"), data)[:NONCE]


def value_digest(sealed: bytes) -> Reference:
    """How sealed content refers to a sealed large value."""
    return Reference(hashlib.sha256(sealed).digest(), len(sealed))


def referring_to(content: bytes, sealed: dict[bytes, Reference]) -> tuple[bytes, tuple[Reference, ...]]:
    """Plain content that refers to sealed large values instead of plain ones, and these references in order."""
    found: list[Reference] = []

    def replaced(reference: Reference) -> Reference:
        found.append(sealed[reference.digest])
        return found[-1]

    return content[:SALT_SIZE] + repack(content[SALT_SIZE:], replaced), tuple(found)


def _name(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(data)) + data
