"""Digests: the leaf that covers a record, and keyed digests of content.

The leaf hash is that of RFC 6962, section 2.1 (SHA-256 over 0x00 and the leaf), over a fixed binary header and the
SHA-256 of the three byte strings as stored: nothing is encoded anew to verify a record. ``docs/format.md`` gives
the bytes.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from trouper_journal._canonical import canonical
from trouper_journal._records import Record
from trouper_journal._values import Value

FORMAT: Final = 1
"""Number of the leaf's format; its first byte."""

_HEADER: Final = struct.Struct(">BB16sQQqIBq")
_LENGTH: Final = struct.Struct(">I")
_EMPTY: Final = hashlib.sha256(b"").digest()
_sha256 = hashlib.sha256

_BLOCK: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def leaf_of(
    journal_id: bytes,
    position: int,
    stream: str,
    version: int,
    type: str,
    schema: int,
    recorded_at: int,
    key: str | None,
    label: str | None,
    wake_at: int | None,
    key_id: str | None,
    meta: bytes,
    facts: bytes,
    content: bytes,
) -> bytes:
    """The RFC 6962 leaf hash of a record, from its columns in the order of ``Record``."""
    around = leaf_frame(stream, key, label, key_id, meta)
    return leaf_within(journal_id, position, version, type, schema, recorded_at, wake_at, facts, content, around)


def leaf_frame(stream: str, key: str | None, label: str | None, key_id: str | None, meta: bytes) -> tuple[bytes, bytes]:
    """What the leaves of one write have in common: the bytes before the event's name, and those behind it."""
    name = stream.encode("utf-8", "surrogatepass")
    behind = (
        b"\0" if key is None else _optional(key),
        b"\0" if label is None else _optional(label),
        b"\0" if key_id is None else _optional(key_id),
        _sha256(meta).digest() if meta else _EMPTY,
    )
    return _LENGTH.pack(len(name)) + name, b"".join(behind)


def leaf_within(
    journal_id: bytes,
    position: int,
    version: int,
    type: str,
    schema: int,
    recorded_at: int,
    wake_at: int | None,
    facts: bytes,
    content: bytes,
    frame: tuple[bytes, bytes],
) -> bytes:
    """The leaf hash of a record within its write's frame."""
    # Many plain parameters, because this runs for every record, before the writer has made one.
    kind = type.encode("utf-8", "surrogatepass")
    head = _HEADER.pack(
        0, FORMAT, journal_id, position, version, recorded_at, schema, wake_at is not None, wake_at or 0
    )
    before, behind = frame
    return _sha256(
        b"".join(
            (
                head,
                before,
                _LENGTH.pack(len(kind)),
                kind,
                behind,
                _sha256(facts).digest() if facts else _EMPTY,
                _sha256(content).digest() if content else _EMPTY,
            )
        )
    ).digest()


def leaf_digest(journal_id: bytes, record: Record) -> bytes:
    """The RFC 6962 leaf hash that a record should have, from its other fields."""
    return leaf_of(
        journal_id,
        record.position,
        record.stream,
        record.version,
        record.type,
        record.schema,
        record.recorded_at,
        record.key,
        record.label,
        record.wake_at,
        record.key_id,
        record.meta,
        record.facts,
        record.content,
    )


def leaf_parts(journal_id: bytes, record: Record) -> tuple[bytes, tuple[bytes, bytes, bytes]]:
    """What a record's leaf is made of: the header, and the SHA-256 of meta, facts and content.

    The leaf is the SHA-256 of a zero byte and these four in order. They tell nothing of what meta, facts and content
    hold, as long as these cannot be guessed; content begins with random bytes.
    """
    around = leaf_frame(record.stream, record.key, record.label, record.key_id, b"")
    kind = record.type.encode("utf-8", "surrogatepass")
    head = _HEADER.pack(
        0,
        FORMAT,
        journal_id,
        record.position,
        record.version,
        record.recorded_at,
        record.schema,
        record.wake_at is not None,
        record.wake_at or 0,
    )
    before, behind = around
    digests = (
        _sha256(record.meta).digest(),
        _sha256(record.facts).digest(),
        _sha256(record.content).digest(),
    )
    return head[1:] + before + _LENGTH.pack(len(kind)) + kind + behind[: -len(_EMPTY)], digests


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA-256 (RFC 2104).

    As ``hmac.digest`` gives it; but that lets go of the interpreter's lock, however short the message is, and in a
    program with busy threads then waits for it longer than the digest takes.
    """
    if len(key) > _BLOCK:
        key = _sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    return _sha256(key.translate(_OUTER) + _sha256(key.translate(_INNER) + message).digest()).digest()


def content_digest(salt: bytes, value: Value) -> bytes:
    """HMAC-SHA-256 of a value's canonical form under the salt of its erasure domain.

    Once the salt is erased, the digest no longer helps to guess the value.

    Raises:
        InvalidValue: As ``pack``.
    """
    return hmac_sha256(salt, canonical(value))


def plain_digest(value: Value) -> bytes:
    """SHA-256 of a value's canonical form, for what is not secret.

    Raises:
        InvalidValue: As ``pack``.
    """
    return _sha256(canonical(value)).digest()


def _optional(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return b"\1" + _LENGTH.pack(len(data)) + data
