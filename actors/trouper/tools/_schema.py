"""From annotations to JSON Schema and to validators: one pydantic ``TypeAdapter`` for each parameter.

A model made of all parameters would lose names that begin with an underscore and clash with pydantic's own.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from trouper.core.conversation import Value
from trouper.errors import SchemaError
from trouper_journal._errors import InvalidValue

from ._bridge import bridged
from ._results import to_value
from ._shape import Schema, inlined, references, renamed, without
from ._signature import MISSING, Parameter, Signature

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

# Core schemas that a model cannot fill, or whose check would run within the tool.
_REFUSED = {
    "generator": "an iterator is checked only while it is read; use list",
    "callable": "a model cannot send a function",
}


@frozen
class Described:
    """A parameter ready for use.

    Attributes:
        parameter: The parameter.
        adapter: Validates a one-element list of its value.
        schema: Its JSON Schema, with its definitions.
    """

    parameter: Parameter
    adapter: TypeAdapter[tuple[object]]
    schema: Schema


def describe(tool: str, parameter: Parameter) -> Described:
    """Find out what a parameter takes.

    Raises:
        SchemaError: Its annotation has no JSON Schema; names tool and parameter.
    """
    import pydantic
    import pydantic_core

    # Wrapped in a tuple, because pydantic takes settings for a dataclass only where it stands inside something else.
    settings = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    try:
        wrapped: Any = types.GenericAlias(tuple, (bridged(parameter.annotation),))
        adapter: TypeAdapter[tuple[object]] = pydantic.TypeAdapter(wrapped, config=settings)
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
        first = str(error).strip().split("\n")[0]
        raise SchemaError(
            tool, parameter.name, f"{_written(parameter.annotation)} cannot be described: {first}"
        ) from error
    if refusal := next(_refusals(adapter.core_schema), None):
        raise SchemaError(tool, parameter.name, f"{_written(parameter.annotation)}: {refusal}")
    return Described(parameter, adapter, _unwrapped(schema))


def _unwrapped(schema: Mapping[str, Any]) -> Schema:
    inner: Schema = dict(schema["prefixItems"][0])
    if "$defs" in schema:
        inner["$defs"] = schema["$defs"]
    return inner


def _written(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)


def _refusals(core: object) -> Iterator[str]:
    if isinstance(core, Mapping):
        kind = core.get("type")
        if isinstance(kind, str) and kind in _REFUSED:
            yield _REFUSED[kind]
        for key, part in core.items():
            if key not in {"metadata", "default"}:
                yield from _refusals(part)
    elif isinstance(core, list | tuple):
        for part in core:
            yield from _refusals(part)


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
