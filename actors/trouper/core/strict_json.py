"""JSON as the standard has it: no NaN, no lone surrogates, and no surprise while reading what a model wrote."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from trouper_journal._errors import InvalidValue
from trouper_journal._values import MAX_DEPTH, MAX_INT_BYTES

from .conversation import Value

_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_text(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be written as UTF-8."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _no_number(_: str) -> None:
    return None


def parse(text: str, *, lenient: bool = False) -> tuple[bool, Value]:
    """Read JSON.

    Args:
        text: The JSON.
        lenient: Whether NaN and infinities, which some servers send among their figures, are read as null.

    Returns:
        Whether it is standard JSON that can be read, and what it says. Numbers of thousands of digits and nesting
        beyond the journal's limit count as unreadable.
    """
    try:
        value: Value = json.loads(text, parse_constant=_no_number if lenient else _refuse_constant)
    except (ValueError, RecursionError):
        return False, None
    if text.count("[") + text.count("{") > MAX_DEPTH and not keepable_depth(value):
        return False, None
    return True, value


def keepable_depth(value: Value) -> bool:
    """Whether a value is nested no deeper than the journal takes."""
    level: list[Value] = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [item for item in level if isinstance(item, dict | list)]
        if not nested:
            return True
        level = [item for items in nested for item in (items.values() if isinstance(items, dict) else items)]
    return False


def arguments_object(raw: str) -> dict[str, Value] | None:
    """The JSON object that a call's argument text is; None where it is anything else."""
    _, value = parse(raw)
    return value if isinstance(value, dict) else None


def dump(value: Value) -> str:
    """Compact standard JSON of a value; refuses what `checked` refuses."""
    return json.dumps(checked(value, ""), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def checked(value: object, path: str) -> Value:
    """A copy of a value that is fit for the wire: valid text, lists and dicts only.

    Raises:
        InvalidValue: For NaN, infinities, bytes, keys that are not text, and anything that JSON has no word for.
    """
    match value:
        case str():
            return valid_text(value)
        case None | bool() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise InvalidValue(path, f"{value} is not JSON")
            return value
        case Mapping():
            return {_key(key, path): checked(item, f"{path}.{key}") for key, item in value.items()}
        case list() | tuple():
            return [checked(item, f"{path}[{index}]") for index, item in enumerate(value)]
        case _:
            raise InvalidValue(path, f"{type(value).__name__} is not JSON")


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidValue(path, f"key {key!r} is not text")
    return valid_text(key)


def keepable(value: Value, depth: int = 64) -> bool:
    """Whether a field that a provider sent can be journaled and sent back.

    It has no NaN or infinity, no endless number, and is nested at most ``depth`` deep, which leaves the journal room
    for the event around it.
    """
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return value.bit_length() <= 8 * MAX_INT_BYTES
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(keepable(item, depth - 1) for item in items)
    return True
