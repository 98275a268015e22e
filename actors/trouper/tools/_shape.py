"""Pure work on JSON Schemas: inlining references, dropping titles, the normal form, the descriptions apart.

Words are taken apart from data everywhere: a parameter may be called ``title`` or ``description``, and a default may
hold such keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from trouper.core.conversation import Value

Schema: TypeAlias = dict[str, Value]

# Keywords whose value maps names, not keywords, to schemas; and those whose value is data (JSON Schema 2020-12).
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"default", "enum", "const", "examples", "required", "dependentRequired"})
_DEFINITIONS = ("$defs", "definitions")


def _each(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with a change made to each schema directly within it."""

    def changed(value: Value) -> Value:
        if isinstance(value, dict):
            return change(value)
        return [changed(item) for item in value] if isinstance(value, list) else value

    result: Schema = {}
    for key, value in schema.items():
        if key in _DATA:
            result[key] = value
        elif key in _NAMED and isinstance(value, dict):
            result[key] = {name: changed(inner) for name, inner in value.items()}
        else:
            result[key] = changed(value)
    return result


def without(schema: Schema, *keywords: str) -> Schema:
    """The schema without these keywords, at every depth."""
    return _each(
        {key: value for key, value in schema.items() if key not in keywords},
        lambda inner: without(inner, *keywords),
    )


def _definitions(schema: Schema) -> dict[str, Schema]:
    """Each definition by the reference that names it."""
    found: dict[str, Schema] = {}
    for group in _DEFINITIONS:
        named = schema.get(group)
        if isinstance(named, dict):
            found |= {f"#/{group}/{_pointer(name)}": inner for name, inner in named.items() if isinstance(inner, dict)}
    return found


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def references(schema: Schema) -> Iterator[str]:
    """Every reference in the schema."""
    target = schema.get("$ref")
    if isinstance(target, str):
        yield target
    found: list[str] = []

    def collect(inner: Schema) -> Schema:
        found.extend(references(inner))
        return inner

    _each(schema, collect)
    yield from found


def _recursive(definitions: Mapping[str, Schema]) -> set[str]:
    edges = {name: set(references(schema)) & definitions.keys() for name, schema in definitions.items()}

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(edges[name])
        while waiting:
            if (following := waiting.pop()) not in seen:
                seen.add(following)
                waiting.extend(edges[following])
        return seen

    return {name for name in definitions if name in reached(name)}


def inlined(schema: Schema) -> Schema:
    """The schema with its definitions put where they are used; only those of recursive types stay."""
    definitions = _definitions(schema)
    recursive = _recursive(definitions)

    def resolved(inner: Schema) -> Schema:
        target = inner.get("$ref")
        if isinstance(target, str) and target in definitions and target not in recursive:
            beside = {key: value for key, value in inner.items() if key != "$ref"}
            return resolved({**definitions[target], **beside})
        return _each(inner, resolved)

    body = resolved({key: value for key, value in schema.items() if key not in _DEFINITIONS})
    for group in _DEFINITIONS:
        named = schema.get(group)
        if isinstance(named, dict):
            kept = {
                name: resolved(inner)
                for name, inner in named.items()
                if isinstance(inner, dict) and f"#/{group}/{_pointer(name)}" in recursive
            }
            if kept:
                body[group] = {**kept}
    return body


def renamed(schema: Schema, names: Mapping[str, str]) -> Schema:
    """The schema with its references to ``$defs`` renamed."""
    changes = {f"#/$defs/{_pointer(old)}": f"#/$defs/{_pointer(new)}" for old, new in names.items()}

    def change(inner: Schema) -> Schema:
        target = inner.get("$ref")
        if isinstance(target, str) and target in changes:
            inner = {**inner, "$ref": changes[target]}
        return _each(inner, change)

    return change(schema)


def normal(schema: Schema) -> Schema:
    """What a schema demands, in one form: keys and required names sorted, no titles, no descriptions."""
    plain = without(schema, "title", "description")

    def ordered(value: Value, key: str = "") -> Value:
        if isinstance(value, dict):
            return {name: ordered(value[name], name) for name in sorted(value)}
        if isinstance(value, list):
            names = [item for item in value if isinstance(item, str)]
            if key == "required" and len(names) == len(value):
                return [*sorted(names)]
            return [ordered(item) for item in value]
        return value

    return {name: ordered(plain[name], name) for name in sorted(plain)}


def descriptions(schema: Schema, path: str = "") -> dict[str, Value]:
    """Every description in a schema by the path of what it describes, such as ``ship.address.city``."""
    found: dict[str, Value] = {}
    words = schema.get("description")
    if isinstance(words, str):
        found[path] = words
    for key, value in schema.items():
        if key in _DATA:
            continue
        if key in _NAMED and isinstance(value, dict):
            prefix = path if key == "properties" else _joined(path, key)
            inner = {_joined(prefix, name): part for name, part in value.items()}
        elif isinstance(value, list):
            inner = {f"{_joined(path, key)}[{index}]": part for index, part in enumerate(value)}
        else:
            inner = {_joined(path, key): value}
        for place, part in inner.items():
            if isinstance(part, dict):
                found |= descriptions(part, place)
    return dict(sorted(found.items()))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
