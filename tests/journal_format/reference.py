"""The format a second time, written from docs/format.md alone: slow, plain, and without the library's code."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping


def text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def sized(tiny: tuple[int, int] | None, codes: Mapping[int, int], data: bytes, count: int | None = None) -> bytes:
    """A MessagePack head with the shortest length, and the data."""
    size = len(data) if count is None else count
    if tiny is not None and size < tiny[1]:
        return bytes([tiny[0] | size]) + data
    width = next(width for width in codes if size < 1 << (8 * width))
    return bytes([codes[width]]) + size.to_bytes(width, "big") + data


def pack_int(value: int) -> bytes:
    if 0 <= value < 128 or -32 <= value < 0:
        return value.to_bytes(1, "big", signed=value < 0)
    for width, unsigned, signed in ((1, 0xCC, 0xD0), (2, 0xCD, 0xD1), (4, 0xCE, 0xD2), (8, 0xCF, 0xD3)):
        if 0 <= value < 1 << (8 * width):
            return bytes([unsigned]) + value.to_bytes(width, "big")
        if -(1 << (8 * width - 1)) <= value < 0:
            return bytes([signed]) + value.to_bytes(width, "big", signed=True)
    width = 9
    while not -(1 << (8 * width - 1)) <= value < 1 << (8 * width - 1):
        width += 1
    return extension(1, value.to_bytes(width, "big", signed=True))


def extension(code: int, data: bytes) -> bytes:
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
    if len(data) in fixed:
        return bytes([fixed[len(data)], code]) + data
    if len(data) < 256:
        return bytes([0xC7, len(data), code]) + data
    return b"\xc8" + len(data).to_bytes(2, "big") + bytes([code]) + data


def pack(value: object, *, ordered: bool = False) -> bytes:
    """The packed value; ``ordered`` gives the canonical form."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return pack_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return sized((0xA0, 32), {1: 0xD9, 2: 0xDA, 4: 0xDB}, text(value))
    if isinstance(value, bytes):
        return sized(None, {1: 0xC4, 2: 0xC5, 4: 0xC6}, value)
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: text(pair[0])) if ordered else value.items()
        data = b"".join(pack(key) + pack(item, ordered=ordered) for key, item in pairs)
        return sized((0x80, 16), {2: 0xDE, 4: 0xDF}, data, len(value))
    assert isinstance(value, (list, tuple))
    data = b"".join(pack(item, ordered=ordered) for item in value)
    return sized((0x90, 16), {2: 0xDC, 4: 0xDD}, data, len(value))


def header(journal_id: bytes, fields: Mapping[str, object]) -> bytes:
    """The header of a record's leaf."""

    def number(name: str, width: int, *, signed: bool = False) -> bytes:
        value = fields[name]
        assert isinstance(value, int)
        return value.to_bytes(width, "big", signed=signed)

    def name(value: object) -> bytes:
        assert isinstance(value, str)
        return len(text(value)).to_bytes(4, "big") + text(value)

    def optional(value: object) -> bytes:
        return b"\x00" if value is None else b"\x01" + name(value)

    wake_at = bytes(9) if fields["wake_at"] is None else b"\x01" + number("wake_at", 8, signed=True)
    return b"".join(
        (
            b"\x01",
            journal_id,
            number("position", 8),
            number("version", 8),
            number("recorded_at", 8, signed=True),
            number("schema", 4),
            wake_at,
            name(fields["stream"]),
            name(fields["type"]),
            optional(fields["key"]),
            optional(fields["label"]),
            optional(fields["key_id"]),
        )
    )


def leaf(head: bytes, meta: bytes, facts: bytes, content: bytes) -> bytes:
    parts = b"".join(hashlib.sha256(part).digest() for part in (meta, facts, content))
    return hashlib.sha256(b"\x00" + head + parts).digest()


def root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, over leaf hashes."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + root(leaves[:split]) + root(leaves[split:])).digest()


def path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962, section 2.1.1."""
    if len(leaves) == 1:
        return []
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if index < split:
        return [*path(index, leaves[:split]), root(leaves[split:])]
    return [*path(index - split, leaves[split:]), root(leaves[:split])]


def proof(old: int, leaves: list[bytes], *, known: bool = True) -> list[bytes]:
    """PROOF and SUBPROOF of RFC 6962, section 2.1.2."""
    if old == len(leaves):
        return [] if known else [root(leaves)]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if old <= split:
        return [*proof(old, leaves[:split], known=known), root(leaves[split:])]
    return [*proof(old - split, leaves[split:], known=False), root(leaves[:split])]


def named(value: str) -> bytes:
    return len(text(value)).to_bytes(4, "big") + text(value)


def bound_content(journal_id: bytes, key_id: str, stream: str, type: str, schema: int, head: bytes) -> bytes:
    return b"\x01" + journal_id + named(key_id) + named(stream) + named(type) + schema.to_bytes(4, "big") + head


def bound_value(journal_id: bytes, key_id: str, domain: str) -> bytes:
    return b"\x02" + journal_id + named(key_id) + named(domain)


def bound_key(journal_id: bytes, key_id: str, domain: str) -> bytes:
    return b"\x03" + journal_id + named(key_id) + named(domain)


def gcm(key: bytes, nonce: bytes, plain: bytes, bound: bytes) -> bytes:
    """Nonce, ciphertext and tag, from the cipher's parts."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(bound)
    return nonce + encryptor.update(plain) + encryptor.finalize() + encryptor.tag
