"""Reading what a model sent: strict JSON first, then the function's own types, and errors that a model can act on."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from attrs import field, frozen

from trouper.core.conversation import Value
from trouper.errors import ArgumentsError
from trouper_journal import Plain

from ._outcomes import described, is_fatal, outcome_types
from ._results import MAX_BITS, MAX_DEPTH

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from pydantic import TypeAdapter

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 20
_WIDTH = 80
_MAX_DIGITS = 4299
# Kinds of pydantic errors whose place ends with the key that they are about.
_ABOUT_KEYS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "is not a field here",
    "unexpected_keyword_argument": "is not a field here",
}


def parse_arguments(raw: str) -> dict[str, Value]:
    """Read a call's argument text as one JSON object, by the letter of RFC 8259.

    Empty text counts as ``{}``, as some providers send it for a call without arguments; ``null`` does not.

    Raises:
        ArgumentsError: It is not JSON, or not an object; it has NaN, an infinity, a number that does not fit, a key
            twice, half of a surrogate pair, or nesting beyond 128 levels.
    """
    if not raw.strip():
        return {}
    try:
        value: Value = READER.decode(raw)
    except json.JSONDecodeError as error:
        raise _unread(f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise _unread("nested too deeply") from error
    if not isinstance(value, dict):
        raise _unread(f"it is {_kind(value)}, not an object")
    check_readable(value)
    return value


class Unreadable(ArgumentsError):
    """JSON that cannot be read.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The arguments could not be read: {reason}. Nothing was run. "
            'Call again with one JSON object of arguments, such as {"name": "value"}.'
        )
        self.reason = reason


def _unread(reason: str) -> Unreadable:
    return Unreadable(reason)


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    entries: dict[str, Value] = {}
    for key, value in pairs:
        if key in entries:
            raise _unread(f"key {_brief(key)} stands twice in one object")
        entries[key] = value
    return entries


def _constant(name: str) -> float:
    raise _unread(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _unread(f"number {_brief(text)} is too large")
    return number


def _int(text: str) -> int:
    # Measured before it is read: CPython refuses 4,300 digits and more by an error of its own.
    if len(text) > _MAX_DIGITS or (number := int(text)).bit_length() > MAX_BITS:
        raise _unread(f"a number of {len(text)} digits is too large")
    return number


READER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
)


def check_readable(value: Value) -> None:
    """Refuse a value that JSON can say and that is not fit to be kept.

    Raises:
        Unreadable: It holds half of a surrogate pair, or is nested too deeply.
    """
    _check(value, "", MAX_DEPTH)


def _check(value: Value, path: str, depth: int) -> None:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise _unread(f"{path} holds half of a surrogate pair")
        return
    if not isinstance(value, dict | list):
        return
    if depth == 0:
        raise _unread(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            _check(key, f"a key of {path or 'the object'}", depth)
            _check(item, f"{path}.{key}" if path else key, depth - 1)
    else:
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth - 1)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"


@frozen(slots=False, repr=False, eq=False)
class Problem(Plain):
    """One thing that is wrong with arguments: where, and what."""

    path: str
    reason: str


class Check(Protocol):
    """Finds what is wrong with arguments as a whole."""

    def __call__(self, arguments: Mapping[str, Value], /) -> Iterable[Problem]:
        """What is wrong; nothing where they fit."""
        ...


@frozen(slots=False, repr=False, eq=False)
class Reader(Plain):
    """Turns a call's arguments into what the function takes.

    Attributes:
        tool: The tool's name, for messages.
        adapters: A validator for each parameter; None where the value is passed as it came.
        required: Parameters without a default.
        check: What the arguments must pass as a whole; None where the parameters say it all.
    """

    tool: str
    adapters: Mapping[str, TypeAdapter[tuple[object]] | None]
    required: frozenset[str]
    takes_any: bool = False
    check: Check | None = field(default=None, repr=False)

    def read(self, arguments: Mapping[str, Value]) -> dict[str, object]:
        """Validate and convert.

        Raises:
            ArgumentsError: They do not fit; its message lists every misfit by its path.
        """
        problems = [
            Problem(name, "is missing") for name in self.adapters if name in self.required and name not in arguments
        ]
        values: dict[str, object] = {}
        if self.check is not None:
            seen = {problem.path for problem in problems}
            problems += [problem for problem in self.check(arguments) if problem.path not in seen]
        for name, value in arguments.items():
            if name in self.adapters:
                adapter = self.adapters[name]
                found, values[name] = ([], value) if adapter is None else converted(name, value, adapter)
                problems += found
            elif self.takes_any:
                values[name] = value
            else:
                problems.append(Problem(name, self._unknown()))
        if problems:
            raise ArgumentsError(self._message(problems))
        return values

    def _unknown(self) -> str:
        takes = ", ".join(self.adapters) or "none"
        return f"is no parameter of {self.tool} (parameters: {takes})"

    def _message(self, problems: Sequence[Problem]) -> str:
        lines = list(dict.fromkeys(f"- {problem.path}: {problem.reason}" for problem in problems))
        if len(lines) > _SHOWN:
            lines[_SHOWN:] = [f"- and {len(lines) - _SHOWN} more"]
        return "\n".join(
            [f"The arguments do not fit {self.tool}, so nothing was run. Mend this and call again:", *lines]
        )


def converted(name: str, value: Value, adapter: TypeAdapter[tuple[object]]) -> tuple[list[Problem], object]:
    """A value of the parameter's own type, or what is wrong with it."""
    import pydantic

    try:
        # As JSON text, so that pydantic is strict about JSON's types and yet reads dates, enums and the like from text.
        text = json.dumps([value], allow_nan=False)
        return [], adapter.validate_json(text, strict=True)[0]
    except pydantic.ValidationError as error:
        return [_problem(name, value, each) for each in error.errors(include_url=False, include_context=False)], None
    except outcome_types() as error:
        # A validator of the user's own may raise anything about bad input.
        if is_fatal(error):
            raise
        return [Problem(name, described(error))], None


def _problem(name: str, value: Value, error: Mapping[str, object]) -> Problem:
    place = error["loc"]
    steps = place[1:] if isinstance(place, tuple) else ()
    if reason := _ABOUT_KEYS.get(str(error["type"])):
        return Problem(f"{_path(name, value, steps[:-1])}.{steps[-1]}", reason)
    return Problem(_path(name, value, steps), f"{error['msg']} (got {_brief(error['input'])})")


def _path(name: str, value: Value, place: Sequence[object]) -> str:
    """Where in the arguments; pydantic's places also name members of unions, which nobody sent."""
    path = name
    inner: object = value
    for step in place:
        if isinstance(step, int) and isinstance(inner, list) and step < len(inner):
            path, inner = f"{path}[{step}]", inner[step]
        elif isinstance(inner, dict) and step in inner:
            path, inner = f"{path}.{step}", inner[step]
    return path


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def schema_check(schema: Mapping[str, Value]) -> Check:
    """A check against a JSON Schema that was given, by the ``jsonschema`` package.

    Raises:
        ValueError: It is no valid schema.
    """
    import jsonschema

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise ValueError(f"{error.json_path}: {error.message}") from error
    return functools.partial(_misfits, kind(dict(schema)))


def _misfits(validator: Validator, arguments: Mapping[str, Value]) -> Iterator[Problem]:
    for error in validator.iter_errors(dict(arguments)):
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        path = "".join(steps).lstrip(".")
        wanted, got = error.validator_value, error.instance
        if error.validator == "required" and isinstance(wanted, list) and isinstance(got, dict):
            missing = (name for name in wanted if name not in got)
            yield from (Problem(f"{path}.{name}".lstrip("."), "is missing") for name in missing)
        else:
            yield Problem(path or "arguments", str(error.message)[: 4 * _WIDTH])
