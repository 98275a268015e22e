"""Strict-mode schemas: what a provider holds a model to word by word, and how its answers are read back.

Strict mode knows no optional property: each is required, and one that may be left out is nullable instead, so that a
null says "left out". It knows no objects with free keys, no tuples and nothing that joins or negates schemas.

Rules: https://platform.openai.com/docs/guides/structured-outputs (supported schemas).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from trouper.core.conversation import Value
from trouper.errors import SchemaError

from ._shape import Schema

# Levels of nesting, and properties in all.
_DEEPEST: Final = 10
_MOST: Final = 5000

_KEPT: Final = frozenset(
    {
        *("type", "description", "enum", "const", "items", "properties", "required", "additionalProperties", "anyOf"),
        *("$ref", "$defs", "pattern", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

# Narrow what may be sent without changing its shape: our own check still knows them, and the model is told in words.
_TOLD: Final = frozenset({"minLength", "maxLength", "uniqueItems", "format", "minProperties", "maxProperties"})
# Say nothing that a model must keep to.
_SILENT: Final = frozenset(
    {"default", "title", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"}
    | {"contentEncoding", "contentMediaType", "contentSchema"}
)


def strict_schema(tool: str, schema: Schema) -> Schema:
    """The schema of a tool's arguments as strict mode takes it.

    Raises:
        SchemaError: It cannot be said in strict mode; names tool and parameter.
    """
    properties = schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    if schema.get("additionalProperties", False) is not False:
        raise SchemaError(tool, "", "strict: its schema allows arguments without names")
    made = _Maker(tool)
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    done: Schema = {"type": "object"}
    if "description" in schema:
        done["description"] = schema["description"]
    done["properties"] = {
        name: made.property(name, inner, optional=name not in wanted)
        for name, inner in named.items()
        if isinstance(inner, dict)
    }
    done["required"] = [*named]
    done["additionalProperties"] = False
    definitions = schema.get("$defs")
    if isinstance(definitions, dict):
        done["$defs"] = {
            name: made.at(name).schema(inner) for name, inner in definitions.items() if isinstance(inner, dict)
        }
    if _depth(done) > _DEEPEST:
        raise SchemaError(tool, "", f"strict: its schema is nested deeper than {_DEEPEST} levels")
    if _count(done) > _MOST:
        raise SchemaError(tool, "", f"strict: its schema has more than {_MOST} properties")
    return done


class _Maker:
    """Rewrites the schemas of one tool, and knows which parameter it is at."""

    def __init__(self, tool: str, parameter: str = "") -> None:
        self.tool = tool
        self.parameter = parameter

    def at(self, parameter: str) -> _Maker:
        return _Maker(self.tool, parameter)

    def refuse(self, reason: str) -> SchemaError:
        return SchemaError(self.tool, self.parameter, f"strict: {reason}")

    def property(self, name: str, schema: Schema, *, optional: bool) -> Schema:
        """A property of an object, nullable where it may be left out."""
        here = self if self.parameter else self.at(name)
        inner = here.schema(schema)
        if not optional:
            return inner
        if _nullable(schema):
            if schema.get("default", None) is not None:
                raise here.refuse(f"a null for {name} would mean both null and left out; make its default None")
            return inner
        described = {"description": inner.pop("description")} if "description" in inner else {}
        return {"anyOf": [inner, {"type": "null"}], **described}

    def schema(self, schema: Schema) -> Schema:
        """A schema, with all that is within it."""
        schema = self._united(schema)
        notes: list[str] = []
        done: Schema = {}
        for key, value in schema.items():
            if key in _SILENT:
                continue
            if key in _TOLD and not (key == "format" and value in _FORMATS):
                notes.append(f"{key}: {json.dumps(value)}")
            elif key in _KEPT or key == "format":
                done[key] = self._value(key, value)
            else:
                raise self.refuse(f"{key} cannot be said in strict mode{_advice(key)}")
        if done.get("type") == "object" or "properties" in done:
            done = self._object(schema, done)
        if "type" not in done and ("enum" in done or "const" in done):
            done["type"] = _types(done)
        if not done.keys() & {"type", "anyOf", "$ref"}:
            raise self.refuse("a value of any kind cannot be said in strict mode; annotate what it is")
        if done.get("type") == "array" and "items" not in done:
            raise self.refuse("a list of anything cannot be said in strict mode; annotate what it holds")
        if notes:
            told = done.get("description")
            done["description"] = f"{told} ({'; '.join(notes)})" if isinstance(told, str) else f"({'; '.join(notes)})"
        return done

    def _united(self, schema: Schema) -> Schema:
        """A union whose members exclude each other is a union."""
        if "oneOf" not in schema:
            return schema
        if "anyOf" in schema:
            raise self.refuse("oneOf beside anyOf cannot be said in strict mode")
        return {("anyOf" if key == "oneOf" else key): value for key, value in schema.items() if key != "discriminator"}

    def _value(self, key: str, value: Value) -> Value:
        if key == "items" and isinstance(value, dict):
            return self.schema(value)
        if key == "anyOf" and isinstance(value, list):
            return [self.schema(inner) for inner in value if isinstance(inner, dict)]
        return value

    def _object(self, schema: Schema, done: Schema) -> Schema:
        properties = schema.get("properties")
        if schema.get("additionalProperties", False) is not False or not isinstance(properties, dict):
            raise self.refuse("an object with free keys cannot be said in strict mode; use a class or a list of pairs")
        required = schema.get("required")
        wanted = required if isinstance(required, list) else []
        done["properties"] = {
            name: self.property(name, inner, optional=name not in wanted)
            for name, inner in properties.items()
            if isinstance(inner, dict)
        }
        return {**done, "required": [*properties], "additionalProperties": False}


def _advice(key: str) -> str:
    return "; use a class or a list in place of the tuple" if key == "prefixItems" else ""


_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _types(schema: Schema) -> Value:
    """The types of the values that a schema lists; a schema without one is refused by providers."""
    listed = schema.get("enum", [schema.get("const")])
    found = {_NAMES[type(value)] for value in (listed if isinstance(listed, list) else []) if type(value) in _NAMES}
    return next(iter(found)) if len(found) == 1 else [*sorted(found)]


def _nullable(schema: Schema) -> bool:
    kind, values = schema.get("type"), schema.get("enum")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    if "const" in schema:
        return schema["const"] is None
    if isinstance(values, list):
        return None in values
    unions = (schema.get("anyOf"), schema.get("oneOf"))
    return any(
        isinstance(inner, dict) and _nullable(inner) for union in unions if isinstance(union, list) for inner in union
    )


def _members(schema: Schema) -> list[Schema]:
    """The members of a union."""
    found: list[Value] = []
    for key in ("anyOf", "oneOf"):
        union = schema.get(key)
        found += union if isinstance(union, list) else []
    return [each for each in found if isinstance(each, dict)]


def _inner(schema: Schema) -> list[Schema]:
    found: list[Value] = [schema.get("items")]
    for group in ("properties", "$defs"):
        named = schema.get(group)
        found += list(named.values()) if isinstance(named, dict) else []
    return [*(each for each in found if isinstance(each, dict)), *_members(schema)]


def _depth(schema: Schema) -> int:
    below = max((_depth(inner) for inner in _inner(schema)), default=0)
    return below + (1 if "properties" in schema else 0)


def _count(schema: Schema) -> int:
    own = schema.get("properties")
    return (len(own) if isinstance(own, dict) else 0) + sum(_count(inner) for inner in _inner(schema))


class LeftOut:
    """Takes out of a strict call's arguments the nulls that stand for what was left out.

    Args:
        schema: The schema as it was before it was made strict.
    """

    def __init__(self, schema: Schema) -> None:
        definitions = schema.get("$defs")
        self._schema = schema
        self._definitions = definitions if isinstance(definitions, dict) else {}

    def arguments(self, arguments: Mapping[str, Value]) -> dict[str, Value]:
        """The arguments without such nulls, at every depth."""
        done = self._read(dict(arguments), self._schema)
        return done if isinstance(done, dict) else {}

    def _read(self, value: Value, schema: Schema) -> Value:
        if not isinstance(value, dict | list):
            return value
        schema = self._found(value, schema)
        if isinstance(value, list):
            items = schema.get("items")
            return [self._read(item, items) for item in value] if isinstance(items, dict) else value
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            return value
        wanted = required if isinstance(required, list) else []
        done: dict[str, Value] = {}
        for name, item in value.items():
            inner = properties.get(name)
            if item is None and isinstance(inner, dict) and name not in wanted:
                continue
            done[name] = self._read(item, inner) if isinstance(inner, dict) else item
        return done

    def _found(self, value: Value, schema: Schema) -> Schema:
        """The schema that is about this value, behind references and in unions."""
        target = schema.get("$ref")
        if isinstance(target, str):
            inner = self._definitions.get(target.rpartition("/")[2].replace("~1", "/").replace("~0", "~"))
            return self._found(value, inner) if isinstance(inner, dict) else schema
        for each in _members(schema):
            if self._fits(value, found := self._found(value, each)):
                return found
        return schema

    def _fits(self, value: Value, schema: Schema) -> bool:
        """Whether a strict model can have meant this member of a union: it sends all properties, and no others."""
        if isinstance(value, list):
            return schema.get("type") == "array"
        properties = schema.get("properties")
        if not isinstance(value, dict) or not isinstance(properties, dict) or value.keys() != properties.keys():
            return False
        return all(_may_be(value[name], inner) for name, inner in properties.items() if isinstance(inner, dict))


def _may_be(value: Value, schema: Schema) -> bool:
    if "const" in schema:
        return value == schema["const"]
    allowed = schema.get("enum")
    return not isinstance(allowed, list) or value is None or value in allowed
