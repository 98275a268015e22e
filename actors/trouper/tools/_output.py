"""What an agent's output must be: a type or a JSON Schema, told to models as the schema of an object, and checked here.

Models and providers take objects only. Anything else stands under ``result`` in one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from attrs import field, frozen

from trouper.core.conversation import Value
from trouper.errors import DefinitionError, SchemaError
from trouper_journal import Plain, Printable
from trouper_journal._errors import InvalidValue

from ._arguments import Check, Problem, converted, schema_check
from ._documents import NotFound, find_document
from ._results import to_value
from ._schema import Described, describe, parameters_schema
from ._shape import Schema, inlined, references, without
from ._signature import MISSING, Parameter
from ._strict import LeftOut, strict_schema

WRAPPER = "result"
"""The key under which an output stands that is no object."""

_WHOLE = "output"
_SHOWN = 20


@frozen(slots=False, repr=False, eq=False)
class Misfit(Plain):
    """What is wrong with an output, for a model to read."""

    reason: str


@frozen(slots=False, repr=False, eq=False)
class Fit(Plain):
    """An output that fits.

    Attributes:
        value: As JSON.
        typed: As the type that was asked for.
    """

    value: Value
    typed: object


@frozen(slots=False, eq=False, repr=False)
class OutputShape(Printable):
    """What an output must be.

    Attributes:
        schema: JSON Schema of the object that a model is asked for.
        wrapped: Whether the output stands under `WRAPPER` in it.
    """

    schema: Schema
    wrapped: bool
    _described: Described | None = field(default=None, alias="described", repr=False)
    _check: Check | None = field(default=None, alias="check", repr=False)

    def find(self, text: str) -> Value | Misfit:
        """The document in a text."""
        found = find_document(text, objects_only=not self.wrapped)
        return Misfit(f"- {found.reason}") if isinstance(found, NotFound) else found.value

    def unwrap(self, document: Value) -> Fit | Misfit:
        """Read the output out of a document as the schema has it, or without the object around it."""
        if self.wrapped and isinstance(document, dict) and document.keys() == {WRAPPER}:
            return self.read(document[WRAPPER])
        return self.read(document)

    def read(self, value: Value) -> Fit | Misfit:
        """Check an output. What is made of it shares nothing that can be changed with the value."""
        problems: list[Problem] = []
        typed: object = copy.deepcopy(value)
        if self._check is not None:
            problems = [*self._check({_WHOLE: value})]
        elif self._described is not None:
            problems, typed = converted(_WHOLE, value, self._described.adapter)
        if not problems:
            return Fit(value, typed)
        lines = list(dict.fromkeys(f"- {_place(problem.path)}: {problem.reason}" for problem in problems))
        if len(lines) > _SHOWN:
            lines[_SHOWN:] = [f"- and {len(lines) - _SHOWN} more"]
        return Misfit("\n".join(lines))


def _place(path: str) -> str:
    return path.removeprefix(f"{_WHOLE}.") if path != _WHOLE else "the output"


def output_shape(asked: object) -> OutputShape:
    """What a type, an annotation or a JSON Schema asks for.

    Raises:
        DefinitionError: It cannot be described to a model.
    """
    if isinstance(asked, Mapping):
        return _of_schema(asked)
    if isinstance(asked, str):
        raise DefinitionError(f"{asked!r} is a text; give the type itself")
    try:
        described = describe(_WHOLE, Parameter(WRAPPER, asked, MISSING))
    except SchemaError as error:
        raise DefinitionError(error.reason) from error
    schema = without(inlined(described.schema), "title", "discriminator")
    if schema.get("type") == "object":
        return OutputShape(schema, wrapped=False, described=described)
    return OutputShape(parameters_schema([described], {}), wrapped=True, described=described)


def _of_schema(given: Mapping[object, object]) -> OutputShape:
    try:
        value = to_value(given)
    except InvalidValue as error:
        raise DefinitionError(f"{error.path}: {error.reason}") from error
    assert isinstance(value, dict)  # to_value makes one of every mapping
    if outside := [target for target in references(value) if not target.startswith("#")]:
        raise DefinitionError(f"the schema refers to {outside[0]}, outside itself")
    try:
        schema_check(value)
    except ValueError as error:
        raise DefinitionError(f"no valid JSON Schema: {error}") from error
    schema = without(inlined(value), "title")
    wrapped = schema.get("type") != "object"
    return OutputShape(
        _within(schema, WRAPPER) if wrapped else schema, wrapped, check=schema_check(_within(schema, _WHOLE))
    )


def _within(schema: Schema, key: str) -> Schema:
    """The schema of an object that holds it; its definitions stay where references look for them."""
    inner = dict(schema)
    groups: Schema = {group: inner.pop(group) for group in ("$defs", "definitions") if group in inner}
    around: Schema = {"type": "object", "properties": {key: inner}, "required": [key], "additionalProperties": False}
    return {**around, **groups}


# ---- strict schemas


def strict_output(shape: OutputShape) -> Schema:
    """The schema as strict mode takes it: what may be left out is nullable instead; see `without_nulls`.

    Raises:
        DefinitionError: It cannot be said in strict mode.
    """
    if "definitions" in shape.schema:
        raise DefinitionError("definitions cannot be said in strict mode; use $defs")
    try:
        around = strict_schema(_WHOLE, _within(shape.schema, _WHOLE))
    except SchemaError as error:
        raise DefinitionError(error.reason.removeprefix("strict: ")) from error
    properties = around["properties"]
    assert isinstance(properties, dict)  # that is what it was made of
    made = properties[_WHOLE]
    assert isinstance(made, dict)
    return {**made, **({"$defs": around["$defs"]} if "$defs" in around else {})}


def without_nulls(shape: OutputShape, document: Value) -> Value:
    """A document in strict mode without the nulls that stand for what was left out."""
    return LeftOut(shape.schema).arguments(document) if isinstance(document, dict) else document
