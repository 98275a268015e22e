"""The forms that evidence is written in, for the program that checks bundles: signatures, checkpoints, trees, values.

Nothing but Python's standard library, because `verifier_source` puts this into the one file that goes with a bundle.
"""

from __future__ import annotations

import base64
import hashlib
import io
import struct
from typing import IO, Any


class Bad(Exception):
    """Something in the bundle does not hold."""


# ---- Ed25519 (RFC 8032, section 5.1), for checking only: nothing here is secret, so that nothing need be constant-time

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)  # noqa: E741 -- the RFC's name for the root of -1
Point = tuple[int, int, int, int]


def _add(one: Point, two: Point) -> Point:
    a = (one[1] - one[0]) * (two[1] - two[0]) % P
    b = (one[1] + one[0]) * (two[1] + two[0]) % P
    c = 2 * one[3] * two[3] * D % P
    d = 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(scalar: int, point: Point) -> Point:
    found: Point = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            found = _add(found, point)
        point = _add(point, point)
        scalar >>= 1
    return found


def _point(data: bytes) -> Point | None:
    """The point that 32 bytes stand for; None where they stand for none."""
    number = int.from_bytes(data, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * I % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _bytes_of(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


_B = _point(bytes([0x58]) + bytes([0x66]) * 31)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether an Ed25519 signature is that of a message by a key."""
    point = _point(public) if len(public) == 32 else None
    if point is None or _B is None or len(signature) != 64:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    if scalar >= L:
        return False
    hashed = hashlib.sha512(signature[:32] + public + message).digest()
    challenge = int.from_bytes(hashed, "little") % L
    negative = (P - point[0], point[1], point[2], P - point[3])
    return _bytes_of(_add(_times(scalar, _B), _times(challenge, negative))) == signature[:32]


# ---- signed notes and checkpoints (c2sp.org/signed-note, c2sp.org/tlog-checkpoint)


def parse_key(text: str) -> tuple[str, bytes, bytes]:
    """A public key as text: name, key id, 32 bytes."""
    name, _, rest = text.strip().partition("+")
    given, _, encoded = rest.partition("+")
    data = unbase64(encoded, "the public key")
    if not name or len(data) != 33 or data[0] != 1:
        raise Bad("this is not the public key of a journal, such as NAME+0123abcd+AX3...")
    identity = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
    if identity.hex() != given:
        raise Bad("the public key does not have the id that stands in it: it was changed")
    point = _point(data[1:])
    if point is None or _bytes_of(_times(8, point)) == bytes([1]) + bytes(31):
        raise Bad("this is a weak key: anybody could sign for it")
    return name, identity, data[1:]


def open_checkpoint(note: str, key: tuple[str, bytes, bytes]) -> tuple[int, bytes]:
    """Size and root of a checkpoint, once its signature by the key was checked."""
    body, blank, lines = note.rpartition("\n\n")
    name, identity, public = key
    # Lines end with a newline and with nothing else that some call the end of a line.
    if not blank or not lines.endswith("\n") or any(ord(each) < 32 and each != "\n" for each in note):
        raise Bad("the checkpoint is not a signed note")
    text = body + "\n"
    for line in lines[:-1].split("\n"):
        dash, _, rest = line.partition(" ")
        signer, _, encoded = rest.partition(" ")
        data = unbase64(encoded, "a signature of the checkpoint")
        if dash == "\N{EM DASH}" and signer == name and data[:4] == identity:
            if not is_signed(public, text.encode(), data[4:]):
                raise Bad(f"the signature of {name} is not one of this checkpoint")
            break
    else:
        raise Bad(f"the checkpoint was not signed by {name}")
    parts = text.split("\n")
    if len(parts) < 4 or parts[0] != name or not (parts[1].isascii() and parts[1].isdigit()):
        raise Bad(f"what {name} signed is not a checkpoint of its own")
    root = unbase64(parts[2], "the root of the checkpoint")
    if len(root) != 32:
        raise Bad("the root of the checkpoint is not a digest")
    return int(parts[1]), root


# ---- the Merkle tree (RFC 9162, section 2.1.3.2)


def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root that an inclusion proof leads to."""
    if not 0 <= index < size:
        raise Bad(f"a tree of {size} records has none at position {index + 1}")
    first, last, node = index, size - 1, leaf
    for each in path:
        if last == 0:
            raise Bad("the proof is too long")
        if first & 1 or first == last:
            node = hashlib.sha256(b"\1" + each + node).digest()
            while not first & 1 and first:
                first >>= 1
                last >>= 1
        else:
            node = hashlib.sha256(b"\1" + node + each).digest()
        first >>= 1
        last >>= 1
    if last:
        raise Bad("the proof is too short")
    return node


# ---- values (MessagePack, as docs/format.md of Trouper says)

# What a byte of MessagePack begins: a value itself, a number of that form, or something whose size has that form.
_SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q",
}  # fmt: skip
_SIZED = {
    0xC4: ("bytes", "B"), 0xC5: ("bytes", "H"), 0xC6: ("bytes", "I"),
    0xC7: ("extension", "B"), 0xC8: ("extension", "H"), 0xC9: ("extension", "I"),
    0xD9: ("text", "B"), 0xDA: ("text", "H"), 0xDB: ("text", "I"),
    0xDC: ("list", "H"), 0xDD: ("list", "I"), 0xDE: ("map", "H"), 0xDF: ("map", "I"),
}  # fmt: skip


def unpacked(data: bytes, apart: dict[str, bytes]) -> Any:
    """The one value that bytes hold; ``apart`` are values that are stored apart, by their digests."""
    stored = io.BytesIO(data)
    found = _value(stored, apart)
    if stored.read(1):
        raise Bad("stored bytes hold more than one value")
    return found


def _value(stored: IO[bytes], apart: dict[str, bytes]) -> Any:
    kind = _take(stored, 1)[0]
    if kind < 0x80 or kind >= 0xE0:
        return kind if kind < 0x80 else kind - 256
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _NUMBERS:
        return _number(stored, _NUMBERS[kind])
    what, size = _size(stored, kind)
    if what == "text":
        return _take(stored, size).decode("utf-8", "surrogatepass")
    if what == "bytes":
        return _take(stored, size)
    if what == "list":
        return [_value(stored, apart) for _ in range(size)]
    if what == "extension":
        return _extension(_number(stored, "b"), _take(stored, size), apart)
    found: dict[str, Any] = {}
    for _ in range(size):
        key = _value(stored, apart)
        if not isinstance(key, str) or key in found:
            raise Bad("a stored map has a key that is no text, or stands twice")
        found[key] = _value(stored, apart)
    return found


def _size(stored: IO[bytes], kind: int) -> tuple[str, int]:
    if kind < 0xC0:
        return ("map", kind & 15) if kind < 0x90 else ("list", kind & 15) if kind < 0xA0 else ("text", kind & 31)
    if 0xD4 <= kind <= 0xD8:
        return "extension", 1 << (kind - 0xD4)
    if kind not in _SIZED:
        raise Bad(f"stored bytes hold what no value begins with: {kind:#x}")
    what, form = _SIZED[kind]
    return what, _number(stored, form)


def _extension(kind: int, data: bytes, apart: dict[str, bytes]) -> Any:
    if kind == 1:
        return int.from_bytes(data, "big", signed=True)
    found = apart.get(data[:32].hex())
    if kind != 2 or len(data) != 40:
        raise Bad("stored bytes hold an unknown kind of value")
    if found is None or hashlib.sha256(found).digest() + len(found).to_bytes(8, "big") != data:
        raise Bad("a value that is stored apart is missing, or is not the one that was stored")
    return unpacked(found[16:], {})


def _number(stored: IO[bytes], form: str) -> Any:
    return struct.unpack(">" + form, _take(stored, struct.calcsize(form)))[0]


def _take(stored: IO[bytes], size: int) -> bytes:
    found = stored.read(size)
    if len(found) != size:
        raise Bad("stored bytes end in the middle of a value")
    return found


def packed(value: Any) -> bytes:
    """A value as digests are taken over it: the shortest form of each part, the keys of maps in order."""
    if value is None or isinstance(value, bool):
        return b"\xc0" if value is None else b"\xc3" if value else b"\xc2"
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return _sized(len(data), 0xA0, 32, (0xD9, 0xDA, 0xDB)) + data
    if isinstance(value, list):
        return _sized(len(value), 0x90, 16, (0, 0xDC, 0xDD)) + b"".join(map(packed, value))
    if isinstance(value, dict):
        return _sized(len(value), 0x80, 16, (0, 0xDE, 0xDF)) + b"".join(
            packed(key) + packed(value[key]) for key in sorted(value)
        )
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int) and -32 <= value < 128:
        return struct.pack("B", value & 0xFF)
    for kind in (0xCC, 0xCD, 0xCE, 0xCF) if value > 0 else (0xD0, 0xD1, 0xD2, 0xD3):
        try:
            return bytes([kind]) + struct.pack(">" + _NUMBERS[kind], value)
        except struct.error:
            pass
    raise Bad("a definition holds a value that no definition holds")


def _sized(size: int, short: int, limit: int, kinds: tuple[int, int, int]) -> bytes:
    if size < limit:
        return bytes([short | size])
    number = 0 if size < 1 << 8 and kinds[0] else 1 if size < 1 << 16 else 2
    return bytes([kinds[number]]) + struct.pack(">" + "BHI"[number], size)


def shown(value: Any) -> Any:
    """A stored value as a bundle shows it, in JSON: a key that begins with ``$`` has another one in front."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {"$" + key if key.startswith("$") else key: shown(item) for key, item in value.items()}
    return value


def unbase64(text: str, what: str) -> bytes:
    """Bytes from base64 in its one form."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        data, text = b"", "?"
    if base64.b64encode(data).decode() != text:
        raise Bad(f"{what} is not base64")
    return data


def unhex(text: str) -> bytes:
    """A digest from hexadecimal in its one form."""
    data = bytes.fromhex(text)
    if data.hex() != text or len(data) != 32:
        raise Bad("a digest is not 32 bytes in hexadecimal")
    return data
