"""Types at the door: what is of the wrong one is refused where it is given, and not where it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import Attribute

from trouper.errors import InvalidValue

_T = TypeVar("_T")


def must_be(given: _T, kind: type, place: str) -> _T:
    """Pass a value on.

    Raises:
        InvalidValue: It is of another kind.
    """
    if not isinstance(given, kind):
        raise InvalidValue(place, f"{type(given).__name__} is no {kind.__name__}")
    return given


def is_a(kind: type) -> Callable[[object, Attribute[_T], _T], None]:
    """A validator for attrs: of that kind."""

    def check(_: object, attribute: Attribute[_T], given: _T) -> None:
        must_be(given, kind, attribute.name)

    return check


def is_a_or_none(kind: type) -> Callable[[object, Attribute[_T], _T], None]:
    """A validator for attrs: of that kind, or None."""

    def check(_: object, attribute: Attribute[_T], given: _T) -> None:
        if given is not None:
            must_be(given, kind, attribute.name)

    return check


def whole(given: object, least: int, place: str) -> None:
    """Refuse what is no whole number of at least so much.

    Raises:
        InvalidValue: It is none.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InvalidValue(place, f"{given!r} is not a whole number of at least {least}"[:200])


def by_name(_: object, attribute: Attribute[_T], given: _T) -> None:
    """A validator for attrs: values by name."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidValue(attribute.name, f"{type(given).__name__} is no mapping of values by name")
