"""Values that a journal can hold, and their packed bytes.

Packed values are MessagePack with two extensions: 1 for integers beyond 64 bits, 2 for a reference to a large
value that is stored apart. Text is UTF-8 that lets lone surrogates pass, because model output contains them.
``docs/format.md`` gives the bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, cast

import attrs
import msgpack

from trouper_journal._errors import InvalidValue, JournalCorrupt
from trouper_journal._printable import Plain, Printable

MAX_DEPTH: Final = 200
"""How deep lists and maps may be nested."""

MAX_SIZE: Final = 64 * 1024 * 1024
"""How many bytes one packed value may have."""

MAX_INT_BYTES: Final = 1784
"""Bytes of the largest integer: 4,297 digits, which Python still prints (its limit is 4,300)."""

EXT_INT: Final = 1
EXT_REFERENCE: Final = 2

if TYPE_CHECKING:
    Value: TypeAlias = bool | int | float | str | bytes | Sequence["Value"] | Mapping[str, "Value"] | None
else:

    class Value:
        """Anything a journal can hold: None, bool, int, float, str, bytes, and lists and maps of them.

        Maps have text keys. Tuples are taken and come back as lists; subclasses come back as the plain type.
        Not a number, infinities, cycles and any other object are refused.
        """


LEAVES: Final = frozenset({NoneType, bool, int, str, bytes})
"""Exact types of values without parts, any of which can be stored; a float must be finite."""

_REFERENCE: Final = struct.Struct(">32sQ")

# Each list or map costs at least one of these bytes, so that few of them prove that nothing is nested deep.
_CONTAINERS: Final = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
# What starts a float, or a timestamp (an extension that msgpack decodes by itself); also common inside of texts.
_SUSPECTS: Final = bytes([0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD6, 0xD7])
_HARMLESS: Final = bytes(sorted(set(range(256)) - set(_CONTAINERS) - set(_SUSPECTS)))
# For the fast way: everything but the heads of lists, maps, floats and extensions.
_ARRAYS: Final = bytes([*range(0x90, 0xA0), 0xDC, 0xDD])
_SMALL: Final = bytes(sorted(set(_HARMLESS) - {0xD4, 0xD5, 0xD8}))


@attrs.frozen(slots=False, repr=False, eq=False)
class Reference(Plain):
    """Stands for a large value that is stored apart.

    Attributes:
        digest: SHA-256 of the stored bytes.
        size: How many bytes are stored.
    """

    digest: bytes
    size: int


def pack(value: Value, path: str = "") -> bytes:
    """Pack a value.

    Args:
        value: What to pack.
        path: What the value is called in errors.

    Raises:
        InvalidValue: It cannot be journaled; the error names the place.
    """
    return pack_plain(plain(value, path), path)


def check_value(value: object, path: str = "") -> None:
    """Refuse what cannot be journaled, naming the place of the bad part.

    Raises:
        InvalidValue: Not a number, an infinity, a cycle, a key that is not text, an object that is not data, nesting
            beyond 200, an integer or a whole beyond the size limit.
    """
    pack_plain(plain(value, path), path)


def unpack(data: bytes, values: Mapping[bytes, bytes] | None = None, overhead: int = 0) -> Value:
    """Read a packed value; any bytes give a value or ``JournalCorrupt``.

    Args:
        data: The packed value.
        values: Large values by digest, for the references in ``data``; None where it may hold no references.
        overhead: By how many bytes the stored large values are longer than these, because they are sealed.

    Raises:
        JournalCorrupt: The bytes are not a packed value, or refer to a large value that is not given.
    """
    if len(data) > MAX_SIZE:
        raise JournalCorrupt(f"a packed value of {len(data)} bytes is beyond the limit of {MAX_SIZE}")
    value = _unpack(data, _Extensions(values, overhead))
    if _may_be_bad(data) and not _is_plain(value, 0):
        raise JournalCorrupt("a packed value holds not-a-number, a timestamp, or is nested too deep")
    return cast("Value", value)


def pack_map(fields: Mapping[str, Value], path: str = "") -> bytes:
    """Pack a map; the empty map is no bytes at all.

    Raises:
        InvalidValue: As ``pack``.
    """
    return pack(fields, path) if fields else b""


def unpack_map(data: bytes, values: Mapping[bytes, bytes] | None = None, overhead: int = 0) -> dict[str, Value]:
    """Read what ``pack_map`` wrote.

    Raises:
        JournalCorrupt: As ``unpack``, or the value is not a map.
    """
    if not data:
        return {}
    if _is_simple(data):
        return _unpack_simple(data)
    fields = unpack(data, values, overhead)
    if type(fields) is not dict:
        raise JournalCorrupt("a packed value is not a map")
    return fields


def references(data: bytes) -> tuple[Reference, ...]:
    """Which large values a packed value refers to, in the order of the bytes.

    Raises:
        JournalCorrupt: The bytes are not a packed value.
    """
    found = _Collector()
    _unpack(data, found)
    return tuple(found.references)


def repack(data: bytes, replaced: Callable[[Reference], Reference]) -> bytes:
    """The same packed value with other references."""

    def extension(code: int, stored: bytes) -> object:
        return _unpack_int(stored) if code == EXT_INT else replaced(_unpack_reference(stored))

    return pack_plain(_unpack(data, extension))


def plain(value: object, path: str = "") -> Value:
    """The value itself if it is made of exact plain types, else a copy that is.

    Raises:
        InvalidValue: As ``check_value``, except for the limits of size.
    """
    if _is_plain(value, 0):
        return value
    return _plain_copy(value, path, [])


def pack_plain(value: object, path: str = "") -> bytes:
    """Pack what ``plain`` returned; references are packed as such.

    Raises:
        InvalidValue: The value is beyond the limits of size.
    """
    # A packer of its own for each call: a shared one would mix outputs if a finaliser packed in between, and a
    # small first buffer makes this as fast.
    packer = msgpack.Packer(unicode_errors="surrogatepass", default=_pack_other, buf_size=1024)
    try:
        data: bytes = packer.pack(value)
    except _BadIntError:
        raise InvalidValue(_find_big(value, path), f"an integer of more than {MAX_INT_BYTES} bytes") from None
    except ValueError as error:
        raise InvalidValue(path, str(error)) from None
    if len(data) > MAX_SIZE:
        raise InvalidValue(path, f"{len(data)} bytes when packed, at most {MAX_SIZE} can be stored")
    return data


def too_deep(data: bytes) -> bool:
    """Whether a packed value is nested beyond the limit."""
    if len(data) <= MAX_DEPTH or len(data) - len(data.translate(None, _CONTAINERS)) <= MAX_DEPTH:
        return False
    return not _is_plain(_unpack(data, _Collector()), 0)


class _BadIntError(Exception):
    """An integer beyond the limit was met while packing."""


def _is_plain(value: object, depth: int) -> TypeGuard[Value]:
    """Whether all parts have exact plain types and may be stored; the loops keep leaves from costing a call."""
    kind = type(value)
    if kind in LEAVES:
        return True
    if kind is float:
        return math.isfinite(cast("float", value))
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str or (type(item) not in LEAVES and not _is_plain(item, depth + 1)):
                return False
        return True
    if kind is list or kind is tuple:
        for item in cast("list[object]", value):
            if type(item) not in LEAVES and not _is_plain(item, depth + 1):
                return False
        return True
    return False


def _plain_copy(value: object, path: str, parents: list[object]) -> Value:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(path, f"{float(value)!r} is not a number that can be stored")
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if not isinstance(value, (list, tuple, Mapping)):
        raise InvalidValue(path, f"an object of type {type(value).__name__} is not data")
    if any(parent is value for parent in parents):
        raise InvalidValue(path, "contains itself")
    if len(parents) >= MAX_DEPTH:
        raise InvalidValue(path, f"nested deeper than {MAX_DEPTH}")
    parents.append(value)
    result: Value
    if isinstance(value, Mapping):
        result = {
            _plain_key(key, path): _plain_copy(item, f"{path}.{key}" if path else str(key), parents)
            for key, item in value.items()
        }
    else:
        result = [_plain_copy(item, f"{path}[{index}]", parents) for index, item in enumerate(value)]
    parents.pop()
    return result


def _plain_key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidValue(path, f"the key {key!r} is not text")
    return str.__str__(key)


def _find_big(value: object, path: str) -> str:
    """Path of the first integer beyond the limit."""
    if type(value) is dict:
        parts = [(f"{path}.{key}" if path else key, item) for key, item in value.items()]
    elif type(value) is list or type(value) is tuple:
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return path
    return next((_find_big(item, where) for where, item in parts if _has_big(item)), path)


def _has_big(value: object) -> bool:
    try:
        pack_plain(value)
    except InvalidValue:
        return True
    return False


def _pack_other(value: object) -> msgpack.ExtType:
    """Called by the packer for integers beyond 64 bits and for references."""
    if isinstance(value, Reference):
        return msgpack.ExtType(EXT_REFERENCE, _REFERENCE.pack(value.digest, value.size))
    assert isinstance(value, int)
    data = _int_bytes(value)
    if len(data) > MAX_INT_BYTES:
        raise _BadIntError
    return msgpack.ExtType(EXT_INT, data)


def _int_bytes(value: int) -> bytes:
    """Shortest two's complement, most significant byte first."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _unpack_int(data: bytes) -> int:
    value = int.from_bytes(data, "big", signed=True)
    if len(data) > MAX_INT_BYTES or -(2**63) <= value < 2**64 or _int_bytes(value) != data:
        raise JournalCorrupt("a big integer is not in its shortest form, or beyond the limit")
    return value


def _unpack_reference(data: bytes) -> Reference:
    if len(data) != _REFERENCE.size:
        raise JournalCorrupt("a reference to a large value has the wrong length")
    return Reference(*_REFERENCE.unpack(data))


@attrs.define(slots=True, repr=False)
class _Extensions(Printable):
    """Reads extensions; references are replaced by what they stand for."""

    values: Mapping[bytes, bytes] | None
    overhead: int = 0

    def __call__(self, code: int, data: bytes) -> object:
        if code == EXT_INT:
            return _unpack_int(data)
        if code != EXT_REFERENCE or self.values is None:
            raise JournalCorrupt(f"extension {code} has no meaning in a value")
        reference = _unpack_reference(data)
        stored = self.values.get(reference.digest)
        if stored is None:
            raise JournalCorrupt(f"the large value {reference.digest.hex()} is missing")
        if len(stored) + self.overhead != reference.size:
            raise JournalCorrupt(f"the large value {reference.digest.hex()} has the wrong length")
        return unpack(stored[16:])


@attrs.define(slots=True, repr=False)
class _Collector(Printable):
    """Reads extensions and notes the references among them."""

    references: list[Reference] = attrs.Factory(list)

    def __call__(self, code: int, data: bytes) -> object:
        if code == EXT_INT:
            return _unpack_int(data)
        if code != EXT_REFERENCE:
            raise JournalCorrupt(f"extension {code} has no meaning in a value")
        self.references.append(_unpack_reference(data))
        return None


def _unpack(data: bytes, extensions: Callable[[int, bytes], object]) -> object:
    try:
        return msgpack.unpackb(data, unicode_errors="surrogatepass", object_pairs_hook=_pairs, ext_hook=extensions)
    except _MISFITS as error:
        raise _misfit(error) from None


_MISFITS: Final = (ValueError, TypeError, OverflowError, msgpack.UnpackException)


def _misfit(error: Exception) -> JournalCorrupt:
    # The library's messages may quote the bytes, which may be personal.
    return JournalCorrupt(f"the bytes are not a packed value ({type(error).__name__})")


def _is_simple(data: bytes) -> bool:
    """Whether the bytes certainly are no more than a map of a few texts, integers, bytes and lists: most are."""
    if not 0x80 <= data[0] < 0x90 or len(data) > MAX_SIZE:
        return False
    heads = data.translate(None, _SMALL)
    return len(heads) == 1 or (len(heads) <= MAX_DEPTH and len(heads.translate(None, _ARRAYS)) == 1)


def _unpack_simple(data: bytes) -> dict[str, Value]:
    """Unpack without calling back for each map: there is but one."""
    try:
        fields: dict[str, Value] = msgpack.unpackb(data, unicode_errors="surrogatepass")
        "".join(fields)
    except _MISFITS as error:
        raise _misfit(error) from None
    if len(fields) != data[0] & 0x0F:
        raise JournalCorrupt("a map has the same key twice")
    return fields


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A map; bytes keys, which the unpacker lets pass, make ``join`` fail."""
    result = dict(pairs)
    "".join(result)
    if len(result) != len(pairs):
        raise JournalCorrupt("a map has the same key twice")
    return result


def _may_be_bad(data: bytes) -> bool:
    """Whether the bytes might hold a bad number, a timestamp or too much depth; False is certain, and fast."""
    rest = data.translate(None, _HARMLESS)
    return len(rest) > MAX_DEPTH or bool(rest.translate(None, _CONTAINERS))
