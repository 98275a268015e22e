"""How values of each field type are written and read: strict both ways.

Nothing is coerced as a converter's usual hooks would: what does not have the declared type is refused before it is
written, and again when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType
from typing import Final, TypeAlias, TypeVar, cast

import attrs

from trouper_journal._errors import InvalidRegistry, InvalidValue
from trouper_journal._printable import Printable
from trouper_journal._values import MAX_DEPTH, Value, plain


class Erased(Enum):
    """The type of ``ERASED``, which stands where content cannot be read any more."""

    ERASED = "ERASED"

    def __repr__(self) -> str:
        return "ERASED"


ERASED: Final = Erased.ERASED
"""What a content field holds when its record is sealed and the key is not at hand, or gone for good."""

T = TypeVar("T")
Content: TypeAlias = T | Erased
"""Annotate a field of an event with ``Content[X]`` to store it as content, apart from the facts."""


Fields: TypeAlias = dict[str, object]
Write: TypeAlias = Callable[[object], object]
Read: TypeAlias = Callable[[object, object], object]
Parts: TypeAlias = Callable[[object], Iterator[tuple[str, "Shape", object]]]


class MisfitError(ValueError):
    """A value that is not of the declared type; the message does not quote it, because it may be personal."""

    def __init__(self, wanted: str, value: object) -> None:
        if value is ERASED:
            super().__init__("erased content cannot be written")
        else:
            super().__init__(f"{type(value).__name__} is not {wanted}")


def _no_parts(_: object) -> Iterator[tuple[str, Shape, object]]:
    return iter(())


@attrs.define(slots=True, eq=False, repr=False)
class Shape(Printable):
    """How values of one type are written and read.

    Attributes:
        wire: Types that a written value may have.
        live: Types that a value in memory may have.
        write: From the value in memory to plain data.
        read: Back again; the second argument is ignored.
        parts: The parts of a value, in memory or written, with their paths and shapes: to find what is wrong.
    """

    wire: tuple[type, ...]
    live: tuple[type, ...]
    write: Write
    read: Read
    parts: Parts = _no_parts


READ_ERRORS: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a misfit, a validator or a constructor raises."""

TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH}"


def explain(
    shape: Shape, value: object, attempt: Callable[[Shape, object], object], depth: int = 0
) -> tuple[str, str] | None:
    """Path and reason of the first part of a value on which the attempt fails; None if it does not fail."""
    try:
        attempt(shape, value)
    except InvalidValue as error:
        inner, reason = error.path, error.reason
    except KeyError as error:
        inner, reason = "", f"lacks the field {error}"
    except RecursionError:
        inner, reason = "", TOO_DEEP
    except READ_ERRORS as error:
        inner, reason = "", str(error)
    else:
        return None
    if depth < MAX_DEPTH:
        for suffix, part, item in shape.parts(value):
            found = explain(part, item, attempt, depth + 1)
            if found is not None:
                return suffix + found[0], found[1]
    return (f".{inner}" if inner and not inner.startswith("[") else inner), reason


def _write_text(value: object) -> object:
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise MisfitError("text", value)


def _write_int(value: object) -> object:
    if type(value) is int:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise MisfitError("an integer", value)


def _write_float(value: object) -> object:
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
        raise InvalidValue("", f"{value!r} is not a number that can be stored")
    raise MisfitError("a number", value)


def _exact(kind: type, wanted: str) -> Shape:
    def write(value: object) -> object:
        if type(value) is not kind:
            raise MisfitError(wanted, value)
        return value

    def read(value: object, _: object) -> object:
        if type(value) is not kind:
            raise MisfitError(wanted, value)
        return value

    return Shape((kind,), (kind,), write, read)


def _leaf(kind: type, wanted: str, write: Write) -> Shape:
    shape = _exact(kind, wanted)
    shape.write = write
    return shape


def _write_value(value: object) -> object:
    return plain(value)


def _read_value(value: object, _: object) -> object:
    return value


_TEXT: Final = _leaf(str, "text", _write_text)
_INT: Final = _leaf(int, "an integer", _write_int)
_FLOAT: Final = attrs.evolve(_leaf(float, "a number", _write_float), live=(float, int))
VALUE: Final = Shape((object,), (object,), _write_value, _read_value)
LEAVES: Final[Mapping[object, Shape]] = {
    str: _TEXT,
    int: _INT,
    float: _FLOAT,
    bool: _exact(bool, "true or false"),
    bytes: _exact(bytes, "bytes"),
    NoneType: _exact(NoneType, "nothing"),
    None: _exact(NoneType, "nothing"),
    Value: VALUE,
}


def literal(allowed: tuple[object, ...], where: str) -> Shape:
    """Some texts, integers, true, false or None, and no others."""
    kinds = tuple({type(item) for item in allowed})
    if not set(kinds) <= {str, int, bool, NoneType}:
        raise InvalidRegistry(f"{where}: a Literal holds texts, integers, true, false and None")
    pairs = frozenset((type(item), item) for item in allowed)
    wanted = f"one of {', '.join(map(repr, allowed))}"

    def check(value: object, _: object = None) -> object:
        if type(value) not in kinds or (type(value), value) not in pairs:
            raise MisfitError(wanted, value)
        return value

    return Shape(kinds, kinds, check, check)


def enum(cls: type[Enum], where: str) -> Shape:
    """Members of an enumeration, written as their values."""
    members = {(type(member.value), member.value): member for member in cls}
    kinds = tuple({kind for kind, _ in members})
    if not set(kinds) <= {str, int}:
        raise InvalidRegistry(f"{where}: the members of {cls.__qualname__} need texts or integers as values")

    def write(value: object) -> object:
        if type(value) is not cls:
            raise MisfitError(cls.__qualname__, value)
        return value.value

    def read(value: object, _: object) -> object:
        member = members.get((type(value), value)) if type(value) in kinds else None
        if member is None:
            raise MisfitError(f"a value of {cls.__qualname__}", value)
        return member

    return Shape(kinds, (cls,), write, read)


def sequence(item: Shape) -> Shape:
    """Tuples of any length, written as lists."""

    def write(value: object) -> object:
        if not isinstance(value, (tuple, list)):
            raise MisfitError("a tuple", value)
        return [item.write(part) for part in value]

    def read(value: object, _: object) -> object:
        if type(value) is not list:
            raise MisfitError("a list", value)
        return tuple([item.read(part, None) for part in value])

    def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
        if isinstance(value, (tuple, list)):
            yield from ((f"[{index}]", item, part) for index, part in enumerate(value))

    return Shape((list,), (tuple, list), write, read, parts)


def fixed(items: tuple[Shape, ...]) -> Shape:
    """Tuples with a type for each place, written as lists."""

    def write(value: object) -> object:
        if not isinstance(value, tuple) or len(value) != len(items):
            raise MisfitError(f"a tuple of {len(items)}", value)
        return [item.write(part) for item, part in zip(items, value, strict=True)]

    def read(value: object, _: object) -> object:
        if type(value) is not list or len(value) != len(items):
            raise MisfitError(f"a list of {len(items)}", value)
        return tuple([item.read(part, None) for item, part in zip(items, value, strict=True)])

    def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
        if isinstance(value, (tuple, list)):
            yield from ((f"[{at}]", item, part) for at, (item, part) in enumerate(zip(items, value, strict=False)))

    return Shape((list,), (tuple,), write, read, parts)


def mapping(item: Shape) -> Shape:
    """Maps from texts."""

    def write(value: object) -> object:
        if not isinstance(value, Mapping):
            raise MisfitError("a map", value)
        if item is VALUE:
            return plain(value)
        return {cast("str", _write_text(key)): item.write(part) for key, part in value.items()}

    def read(value: object, _: object) -> object:
        if type(value) is not dict:
            raise MisfitError("a map", value)
        if item is VALUE:
            return value
        return {key: item.read(part, None) for key, part in value.items()}

    def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
        if isinstance(value, Mapping):
            yield from ((f".{key}", item, part) for key, part in value.items())

    return Shape((dict,), (Mapping,), write, read, parts)


def optional(inner: Shape) -> Shape:
    """The shape's values, or None."""
    write_inner, read_inner = inner.write, inner.read

    def write(value: object) -> object:
        return None if value is None else write_inner(value)

    def read(value: object, kind: object) -> object:
        return None if value is None else read_inner(value, kind)

    def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
        return iter(()) if value is None else inner.parts(value)

    return Shape((*inner.wire, NoneType), (*inner.live, NoneType), write, read, parts)


def one_of(members: Sequence[Shape], where: str) -> Shape:
    """A union; its members are told apart by the types of what is written.

    Raises:
        InvalidRegistry: Two members are written alike.
    """
    by_wire: dict[type, Shape] = {}
    for member in members:
        for kind in member.wire:
            if by_wire.setdefault(kind, member) is not member:
                raise InvalidRegistry(f"{where}: two members of the union are both written as {kind.__name__}")
    exact = {kind: member for member in members for kind in member.live}
    # An int may stand for a float, but not where the union has int itself.
    exact |= {kind: member for member in members for kind in member.wire if kind in member.live}
    wanted = "one of " + ", ".join(sorted(kind.__name__ for kind in exact))

    def live(value: object) -> Shape | None:
        found = exact.get(type(value))
        return found or next((member for member in members if isinstance(value, member.live)), None)

    def write(value: object) -> object:
        member = live(value)
        if member is None:
            raise MisfitError(wanted, value)
        return member.write(value)

    def read(value: object, kind: object) -> object:
        member = by_wire.get(type(value))
        if member is None:
            raise MisfitError(wanted, value)
        return member.read(value, kind)

    def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
        member = live(value) or by_wire.get(type(value))
        if member is not None:
            yield from member.parts(value)

    return Shape(tuple(by_wire), tuple(exact), write, read, parts)
