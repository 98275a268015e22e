"""What tools return, as values that can be journaled and as text that a model reads."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import math
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Final, cast

import attrs

from trouper.core.conversation import Value
from trouper.core.media import Audio, File, Image
from trouper.core.strict_json import valid_text
from trouper_journal._errors import InvalidValue
from trouper_journal._values import MAX_INT_BYTES

# The journal stores 200 levels; a result or an argument stands a few levels deep in its event.
MAX_DEPTH = 128
MAX_BITS = 8 * MAX_INT_BYTES - 1


class Alone:
    """What a tool returns as it is: inside a value it would be written out, its unseen parts with it."""

    __slots__ = ()


def to_value(result: object) -> Value:
    """What is journaled of a tool's result.

    Text, numbers, booleans, None and bytes stay; mappings, sequences and sets, dataclasses, attrs and pydantic objects,
    enums, dates, times, UUIDs, decimals and paths become their JSON. Sets are sorted, so that the record does
    not depend on hashing; NaN and the infinities become text, since JSON has no word for them.

    Raises:
        InvalidValue: For anything else, for keys that collide as text, and for nesting beyond 128 levels.
    """
    return _value(result, "", MAX_DEPTH)


# Exact types that stay as they are; most parts of most results have one of them.
_SAME: Final = frozenset({str, bool, bytes, type(None)})


def _value(item: object, path: str, depth: int) -> Value:
    if type(item) in _SAME:
        return cast("Value", item)
    if isinstance(item, Enum):
        return _value(item.value, path, depth)
    # Subclasses (numpy's, Django's) are reduced to the plain type that they extend.
    if isinstance(item, int):
        return _whole(int(item), path)
    if isinstance(item, str):
        return str.__str__(item)
    if isinstance(item, float):
        return _number(float(item))
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    if type(item) is not dict and (text := _as_text(item)) is not None:
        return text
    if depth == 0:
        raise InvalidValue(_place(path), f"nested deeper than {MAX_DEPTH} levels, or in a cycle")
    if isinstance(item, list | tuple):
        return [_value(part, f"{path}[{index}]", depth - 1) for index, part in enumerate(item)]
    if isinstance(item, set | frozenset):
        return sorted((_value(part, f"{path}{{}}", depth - 1) for part in item), key=_order)
    if isinstance(item, Image | Audio | File | Alone):
        raise InvalidValue(_place(path), f"{_name(item)} stands inside a value; return it alone, or in a list")
    if (fields := _fields(item, path)) is not None:
        return _mapping(fields, path, depth)
    raise InvalidValue(
        _place(path), f"{_name(item)} is neither JSON nor a dataclass, attrs or pydantic object; return one of those"
    )


def _whole(number: int, path: str) -> int:
    if number.bit_length() > MAX_BITS:
        raise InvalidValue(_place(path), "a whole number of more than 4,296 digits cannot be journaled")
    return number


def _number(number: float) -> Value:
    if math.isnan(number):
        return "NaN"
    return number if math.isfinite(number) else ("Infinity" if number > 0 else "-Infinity")


def _loaded(module: str, name: str) -> tuple[type, ...]:
    """A class of a module; none where nobody has imported that, for then nothing can be an instance of it."""
    found: object = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def _as_text(item: object) -> str | None:
    if isinstance(item, dt.datetime | dt.date | dt.time):
        return item.isoformat()
    if isinstance(item, (PurePath, *_loaded("uuid", "UUID"), *_loaded("decimal", "Decimal"))):
        return str(item)
    if isinstance(item, dt.timedelta):
        return f"{'-' if item < dt.timedelta(0) else ''}PT{_seconds(abs(item))}S"
    return None


def _seconds(span: dt.timedelta) -> str:
    whole = span.days * 86_400 + span.seconds
    return f"{whole}.{span.microseconds:06d}".rstrip("0") if span.microseconds else str(whole)


def _fields(item: object, path: str) -> Iterable[tuple[object, object]] | None:
    if isinstance(item, Mapping):
        return item.items()
    if isinstance(item, type):
        return None
    if dataclasses.is_dataclass(item):
        return [(each.name, getattr(item, each.name)) for each in dataclasses.fields(item)]
    kind = type(item)
    if attrs.has(kind):
        return [(each.name, getattr(item, each.name)) for each in attrs.fields(kind)]
    return _pydantic_fields(item, path)


def _pydantic_fields(item: object, path: str) -> Iterable[tuple[object, object]] | None:
    # If pydantic was never imported, nothing can be a pydantic object: importing it costs more than most runs.
    if "pydantic" not in sys.modules:
        return None
    import pydantic
    from pydantic_core import PydanticSerializationError

    if not isinstance(item, pydantic.BaseModel):
        return None
    try:
        dumped: dict[str, object] = item.model_dump(mode="json")
    except PydanticSerializationError as error:
        raise InvalidValue(_place(path), f"{_name(item)}: {error}") from error
    return dumped.items()


def _mapping(fields: Iterable[tuple[object, object]], path: str, depth: int) -> Value:
    entries: dict[str, Value] = {}
    for key, part in fields:
        name = _key(key, path)
        if name in entries:
            raise InvalidValue(_place(path), f"two keys become {name!r} in JSON")
        entries[name] = (
            cast("Value", part) if type(part) in _SAME else _value(part, f"{path}.{name}" if path else name, depth - 1)
        )
    return entries


def _key(key: object, path: str) -> str:
    if type(key) is str:
        return key
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    if (text := _as_text(key)) is not None:
        return text
    raise InvalidValue(_place(path), f"a key of type {_name(key)} cannot be a key in JSON")


def _order(value: Value) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _name(item: object) -> str:
    return type(item).__qualname__


def _place(path: str) -> str:
    return path or "result"


def to_text(value: Value) -> str:
    """What a model reads of a result: text as it is, anything else as compact JSON; bytes in it as base64.

    Lone surrogates, which cannot be sent, become U+FFFD.
    """
    if isinstance(value, str):
        return valid_text(value)
    return valid_text(_COMPACT.encode(value))


def _base64(item: object) -> str:
    if isinstance(item, bytes):
        return base64.b64encode(item).decode("ascii")
    raise TypeError(f"{_name(item)} is not a journal value")


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_base64)
