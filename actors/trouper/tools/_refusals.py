"""What pydantic would take, but no model can send: refused where a tool is made, not when it is called."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Final

from trouper.core.conversation import Value

from ._shape import Schema

# Core schemas that a model cannot fill, or whose check would run within the tool.
_REFUSED: Final = {
    "generator": "an iterator is checked only while it is read; use list",
    "callable": "a model cannot send a function",
    "is-subclass": "a model cannot send a class",
}

# Keys of JSON objects are text; these cannot be read from text.
_NO_KEYS: Final = frozenset(
    {"none", "tuple", "list", "set", "frozenset", "dict", "model", "dataclass", "typed-dict", "model-fields"}
)

_ABOUT: Final = {
    "minLength": {"string"},
    "maxLength": {"string"},
    "pattern": {"string"},
    "minimum": {"number", "integer"},
    "maximum": {"number", "integer"},
    "exclusiveMinimum": {"number", "integer"},
    "exclusiveMaximum": {"number", "integer"},
    "multipleOf": {"number", "integer"},
    "minItems": {"array"},
    "maxItems": {"array"},
}


def annotation_refusal(annotation: object, default: object) -> str | None:
    """What a ``Field`` says in a place where it would have no effect."""
    from pydantic.fields import FieldInfo

    if isinstance(default, FieldInfo):
        return "has a Field(...) for its default; write Annotated[type, Field(...)] = default"
    for each in typing.get_args(annotation)[1:] if typing.get_origin(annotation) is Annotated else ():
        if not isinstance(each, FieldInfo):
            continue
        if not each.is_required():
            return "has its default in a Field(...); give it in the signature"
        if each.alias or each.validation_alias:
            return "has an alias; rename the parameter, which is what a model sees"
    return None


def core_refusals(core: object) -> Iterator[str]:
    """Why no model can fill what a core schema describes; nothing where one can."""
    if isinstance(core, Mapping):
        kind = core.get("type")
        if isinstance(kind, str) and kind in _REFUSED:
            yield _REFUSED[kind]
        match kind:
            case "literal":
                yield from _values("a literal", core.get("expected"))
            case "enum":
                members = [member.value for member in core.get("members", ()) if isinstance(member, Enum)]
                yield from _values("an enum", members)
            case "dict":
                yield from _keys(core.get("keys_schema"))
        for key, part in core.items():
            if key not in {"metadata", "default", "expected", "members"}:
                yield from core_refusals(part)
    elif isinstance(core, list | tuple):
        for part in core:
            yield from core_refusals(part)


def _values(what: str, values: object) -> Iterator[str]:
    plain = [value.value if isinstance(value, Enum) else value for value in values] if isinstance(values, list) else []
    if not plain:
        yield f"{what} without values leaves nothing to send"
    for value in plain:
        if value is not None and not isinstance(value, str | int | float):
            yield f"{what} with the value {value!r} cannot be sent; use text, numbers, booleans or null"


def _keys(keys: object) -> Iterator[str]:
    kind = keys.get("type") if isinstance(keys, Mapping) else None
    if kind in _NO_KEYS:
        yield f"the keys of a JSON object are text, which cannot be read as {kind}"
    if kind == "literal" and isinstance(keys, Mapping):
        wrong = [value for value in keys.get("expected", ()) if not isinstance(value, str)]
        if wrong:
            yield f"the keys of a JSON object are text, which is never {wrong[0]!r}"


def schema_refusals(schema: Schema) -> Iterator[str]:
    """Constraints on what they cannot constrain, which pydantic finds out with the first value."""
    kind = schema.get("type")
    if schema.get("enum") == []:
        yield "an enum without members leaves nothing to send"
    if isinstance(kind, str):
        for keyword, kinds in _ABOUT.items():
            if keyword in schema and kind not in kinds:
                yield f"{keyword} says nothing about a value of type {kind}"
    for value in schema.values():
        yield from _within(value)


def _within(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        yield from schema_refusals(value)
    elif isinstance(value, list):
        for item in value:
            yield from _within(item)
