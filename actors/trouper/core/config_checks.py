"""Checks of the settings of model calls: at the door, because they would else come out when a run is under way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from attrs import Attribute

from trouper.errors import DefinitionError


def texts(given: object) -> tuple[str, ...]:
    """Texts; a text alone is one, not its letters.

    Raises:
        DefinitionError: Something else.
    """
    found = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(one, str) for one in found):
        raise DefinitionError(f"model config, stop: {given!r} are no texts"[:200])
    return tuple(str(one) for one in found)


def number(_: object, attribute: Attribute[float | None], value: object) -> None:
    """A finite number, or None."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if value is not None and not fits:
        raise _refusal(attribute.name, value, "a finite number")


def whole(_: object, attribute: Attribute[int | None], value: object) -> None:
    """A whole number, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _refusal(attribute.name, value, "a whole number")


def count(_: object, attribute: Attribute[int | None], value: object) -> None:
    """A whole number of at least 1, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise _refusal(attribute.name, value, "a whole number of at least 1")


def text(_: object, attribute: Attribute[str | None], value: object) -> None:
    """A text, or None."""
    if value is not None and not isinstance(value, str):
        raise _refusal(attribute.name, value, "a text")


def truth(_: object, attribute: Attribute[bool | None], value: object) -> None:
    """True, False, or None."""
    if value is not None and not isinstance(value, bool):
        raise _refusal(attribute.name, value, "true or false")


def mapping(_: object, attribute: Attribute[Mapping[str, object]], value: object) -> None:
    """Values by name."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _refusal(attribute.name, value, "a mapping of values by name")


def _refusal(name: str, value: object, wanted: str) -> DefinitionError:
    return DefinitionError(f"model config, {name}: {value!r} is not {wanted}"[:200])
