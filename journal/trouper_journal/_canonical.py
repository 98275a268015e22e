"""The one form of a value that digests are taken over."""

from __future__ import annotations

from typing import Final, cast

from trouper_journal._values import Value, pack_plain, plain

_NESTED: Final = frozenset({dict, list, tuple})


def canonical(value: Value, path: str = "") -> bytes:
    """The one form of a value that digests are taken over: packed, with the keys of every map in UTF-8 order.

    ``1`` and ``1.0`` differ, ``True`` and ``1`` differ, a tuple and a list do not.

    Raises:
        InvalidValue: As ``pack``.
    """
    value = plain(value, path)
    return pack_plain(value if _in_order(value) else _sorted(value), path)


def _in_order(value: object) -> bool:
    """Whether the keys of all maps are in order; most values are, and then need no sorted copy."""
    kind = type(value)
    if kind is dict:
        before = ""
        for key, item in cast("dict[str, object]", value).items():
            if key < before or (type(item) in _NESTED and not _in_order(item)):
                return False
            before = key
    elif kind in _NESTED:
        for item in cast("list[object]", value):
            if type(item) in _NESTED and not _in_order(item):
                return False
    return True


def _sorted(value: Value) -> Value:
    # Texts sort by code point, which is the order of their UTF-8 bytes.
    if type(value) is dict:
        return {key: _sorted(value[key]) for key in sorted(value)}
    if type(value) is list or type(value) is tuple:
        return [_sorted(item) for item in value]
    return value
