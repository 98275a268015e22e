"""What OpenAI's strict mode refuses about a schema, as far as it is documented.

Source: https://platform.openai.com/docs/guides/structured-outputs (supported schemas).
"""

from __future__ import annotations

from collections.abc import Iterator

from trouper.core.conversation import Value

_UNKNOWN = (
    *("oneOf", "allOf", "not", "if", "then", "else", "prefixItems", "patternProperties", "propertyNames"),
    *("dependentRequired", "dependentSchemas", "default", "minLength", "maxLength", "uniqueItems"),
)
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")


def strict_complaints(schema: Value, path: str) -> Iterator[str]:
    """What is wrong with a schema that is declared strict."""
    if not isinstance(schema, dict):
        yield f"{path}: is no schema"
        return
    yield from (f"{path}: {key!r} is not permitted" for key in _UNKNOWN if key in schema)
    if not schema.keys() & {"type", "anyOf", "$ref"}:
        yield f"{path}: schema must have a 'type' key"
    if schema.get("format", "date") not in _FORMATS:
        yield f"{path}: format {schema['format']!r} is not supported"
    kinds = schema.get("type")
    if kinds == "object" or "properties" in schema:
        yield from _object(schema, path)
    if kinds == "array":
        yield from strict_complaints(schema.get("items"), f"{path}.items")
    union, definitions = schema.get("anyOf", []), schema.get("$defs", {})
    for place, inner in enumerate(union if isinstance(union, list) else []):
        yield from strict_complaints(inner, f"{path}.anyOf[{place}]")
    for name, inner in definitions.items() if isinstance(definitions, dict) else ():
        yield from strict_complaints(inner, f"{path}.$defs.{name}")


def _object(schema: dict[str, Value], path: str) -> Iterator[str]:
    properties, required = schema.get("properties"), schema.get("required")
    if schema.get("additionalProperties") is not False:
        yield f"{path}: 'additionalProperties' is required to be supplied and to be false"
    if not isinstance(properties, dict) or not isinstance(required, list) or set(required) != set(properties):
        yield f"{path}: 'required' is required to be supplied and to include every key in properties"
        return
    for name, inner in properties.items():
        yield from strict_complaints(inner, f"{path}.{name}")
