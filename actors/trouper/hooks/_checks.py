"""Checks of the settings of shipped hooks."""

from __future__ import annotations

from attrs import Attribute

from trouper.errors import DefinitionError
from trouper.models import Model


def whole(hook: object, attribute: Attribute[int], value: object) -> None:
    """A whole number of at least 1.

    Raises:
        DefinitionError: It is none.
    """
    _check(hook, attribute.name, value)


def whole_or_none(hook: object, attribute: Attribute[int | None], value: object) -> None:
    """None, or a whole number of at least 1.

    Raises:
        DefinitionError: It is neither.
    """
    if value is not None:
        _check(hook, attribute.name, value)


def _check(hook: object, name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DefinitionError(f"{type(hook).__name__}, {name}: {value!r} is not a whole number of at least 1")


def a_model(hook: object, attribute: Attribute[Model], value: object) -> None:
    """A model.

    Raises:
        DefinitionError: It is none.
    """
    if isinstance(value, type) or not isinstance(value, Model):
        raise DefinitionError(f"{type(hook).__name__}, {attribute.name}: {value!r} is no model")
