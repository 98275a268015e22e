"""The one form of a value that digests are taken over."""

from __future__ import annotations

import math
from typing import cast

from trouper_journal._values import LEAVES, MAX_DEPTH, Value, pack_plain, plain


def canonical(value: Value, path: str = "") -> bytes:
    """The one form of a value that digests are taken over: packed, with the keys of every map in UTF-8 order.

    ``1`` and ``1.0`` differ, ``True`` and ``1`` differ, a tuple and a list do not.

    Raises:
        InvalidValue: As ``pack``.
    """
    if _is_canonical(value, 0):
        return pack_plain(value, path)
    return pack_plain(_sorted(plain(value, path)), path)


def _is_canonical(value: object, depth: int) -> bool:
    """Whether all parts have exact plain types and the keys of all maps are in order: most values need no copy."""
    kind = type(value)
    if kind in LEAVES:
        return True
    if kind is float:
        return math.isfinite(cast("float", value))
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        before = ""
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str or key < before:
                return False
            if type(item) not in LEAVES and not _is_canonical(item, depth + 1):
                return False
            before = key
        return True
    if kind is list or kind is tuple:
        for item in cast("list[object]", value):
            if type(item) not in LEAVES and not _is_canonical(item, depth + 1):
                return False
        return True
    return False


def _sorted(value: Value) -> Value:
    # Texts sort by code point, which is the order of their UTF-8 bytes.
    if type(value) is dict:
        return {key: _sorted(value[key]) for key in sorted(value)}
    if type(value) is list or type(value) is tuple:
        return [_sorted(item) for item in value]
    return value
