"""From annotations to JSON Schema and to validators: one pydantic ``TypeAdapter`` for each parameter.

A model made of all parameters would lose names that begin with an underscore and clash with pydantic's own.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import frozen

from trouper.core.conversation import Value
from trouper.errors import SchemaError
from trouper_journal import Plain
from trouper_journal._errors import InvalidValue

from ._bridge import Bridge
from ._refusals import annotation_refusal, core_refusals, schema_refusals
from ._results import to_value
from ._shape import Schema, inlined, references, renamed, without
from ._signature import MISSING, Parameter, Signature

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema


@frozen(slots=False, repr=False, eq=False)
class Described(Plain):
    """A parameter ready for use.

    Attributes:
        parameter: The parameter.
        adapter: Validates a one-element list of its value.
        schema: Its JSON Schema, with its definitions.
    """

    parameter: Parameter
    adapter: TypeAdapter[tuple[object]]
    schema: Schema


def describe(tool: str, parameter: Parameter, names: Mapping[str, object] | None = None) -> Described:
    """Find out what a parameter takes.

    Args:
        tool: The tool's name, for messages.
        parameter: The parameter.
        names: Local names that annotations within its classes may use.

    Raises:
        SchemaError: Its annotation has no JSON Schema; names tool, parameter and annotation.
    """
    import pydantic
    import pydantic_core

    def refused(reason: str) -> SchemaError:
        return SchemaError(tool, parameter.name, f"{_written(parameter.annotation)} {reason}")

    if reason := annotation_refusal(parameter.annotation, parameter.default):
        raise refused(reason)
    # Wrapped in a tuple, because pydantic takes settings for a dataclass only where it stands inside something else.
    settings = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    try:
        wrapped: Any = types.GenericAlias(tuple, (Bridge(names or {}).over(parameter.annotation),))
        adapter: TypeAdapter[tuple[object]] = pydantic.TypeAdapter(wrapped, config=settings)
        if not adapter.pydantic_complete:
            adapter.rebuild(_types_namespace=dict(names or {}))
        schema = adapter.json_schema(schema_generator=_generator(), mode="validation")
    except (
        pydantic.PydanticUserError,
        pydantic_core.SchemaError,
        NameError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise refused(f"cannot be described: {_first(error)}") from error
    if refusal := next(chain(core_refusals(adapter.core_schema), schema_refusals(_unwrapped(schema))), None):
        raise refused(f"cannot be described: {refusal}")
    return Described(parameter, adapter, _unwrapped(schema))


def _first(error: Exception) -> str:
    """What is wrong, without pydantic's advice on settings that nobody can reach here."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    # The first lines of an error in building a validator name only the validators.
    told = " ".join(lines[:4]) if lines and lines[0].endswith(":") else lines[0] if lines else type(error).__name__
    return told.partition(". Set `arbitrary_types_allowed")[0]


def _unwrapped(schema: Mapping[str, Any]) -> Schema:
    inner: Schema = dict(schema["prefixItems"][0])
    if "$defs" in schema:
        inner["$defs"] = schema["$defs"]
    return inner


def _written(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def emit_warning(self, kind: Any, detail: str) -> None:
            # A member of a union that has no schema would be left out, and yet be accepted.
            if kind == "skipped-choice":
                raise PydanticInvalidForJsonSchema(detail)

        def decimal_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ARG002
            # pydantic's own pattern changes between its releases, which would look like a change of the tool.
            return {"anyOf": [{"type": "number"}, {"type": "string"}]}

    return Generator


def parameters_schema(described: Iterable[Described], told: Mapping[str, str]) -> Schema:
    """The JSON Schema of all parameters: one object, nothing beside them.

    Args:
        described: The parameters.
        told: What the docstring says about them.
    """
    properties: Schema = {}
    definitions: Schema = {}
    for each in described:
        schema, kept = _property(each, told.get(each.parameter.name))
        clashes = {
            name: f"{name}_{each.parameter.name}" for name in kept if definitions.get(name, kept[name]) != kept[name]
        }
        if clashes:
            schema = renamed(schema, clashes)
            kept = {clashes.get(name, name): renamed(inner, clashes) for name, inner in kept.items()}
        properties[each.parameter.name] = schema
        definitions |= kept
    required: list[Value] = [each.parameter.name for each in described if each.parameter.required]
    result: Schema = {"type": "object", "properties": properties}
    if required:
        result["required"] = required
    result["additionalProperties"] = False
    if definitions:
        result["$defs"] = definitions
    return result


def _property(each: Described, told: str | None) -> tuple[Schema, dict[str, Schema]]:
    # A Field's own description stands beside a reference, a class's within it: the first wins over the docstring.
    own = each.schema.get("description")
    schema = without(inlined(each.schema), "title", "discriminator")
    definitions = schema.pop("$defs", {})
    if told and own is None:
        schema["description"] = told
    if each.parameter.default is not MISSING:
        try:
            schema["default"] = to_value(each.parameter.default)
        except InvalidValue:
            # A default with no JSON is the function's own business.
            schema.pop("default", None)
    kept = definitions if isinstance(definitions, dict) else {}
    return schema, {name: inner for name, inner in kept.items() if isinstance(inner, dict)}


def explicit_schema(tool: str, given: Mapping[str, object], signature: Signature) -> Schema:
    """Check a schema that was given instead of the derived one.

    Raises:
        SchemaError: It is no schema of an object, refers to elsewhere, or does not fit the function.
    """
    try:
        value = to_value(given)
    except InvalidValue as error:
        raise SchemaError(tool, error.path, error.reason) from error
    if not isinstance(value, dict) or value.get("type") != "object":
        raise SchemaError(tool, "", 'the schema must describe an object: {"type": "object", ...}')
    if outside := [target for target in references(value) if not target.startswith("#")]:
        raise SchemaError(tool, "", f"the schema refers to {outside[0]}, outside itself")
    schema = without(inlined(value), "title")
    properties = schema.setdefault("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise SchemaError(tool, "", "properties must be an object, and required a list")
    known = {parameter.name for parameter in signature.parameters}
    for name in properties:
        if name in signature.secrets or name == signature.context:
            raise SchemaError(tool, name, "it is injected, so the schema must not offer it")
        if name not in known and not signature.takes_any:
            raise SchemaError(tool, name, "the schema has it, but the function does not")
    for parameter in signature.parameters:
        if parameter.required and parameter.name not in required:
            raise SchemaError(tool, parameter.name, "it has no default, so the schema must require it")
    if not signature.takes_any:
        schema["additionalProperties"] = False
    return schema
