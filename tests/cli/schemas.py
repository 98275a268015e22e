"""Every line that a test sees a command print with ``--json`` is held against the command's schema, strictly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from trouper.cli.json_schemas import schema_of

_PARTS = ("$ref", "properties", "anyOf", "allOf", "oneOf")


def check_json(arguments: Sequence[str], text: str) -> None:
    """Hold what a command printed against its schema. What it printed as records of an export has one of its own."""
    verb = arguments[0]
    if "--json" not in arguments or (verb == "export" and "--out" not in arguments):
        return
    for line in text.splitlines():
        error = best_match(_validator(verb).iter_errors(json.loads(line)))
        assert error is None, f"{verb} --json: {error.json_path}: {error.message[:300]} in {line[:2000]}"


@cache
def _validator(verb: str) -> Draft202012Validator:
    schema = schema_of(verb)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_closed(schema))


def _closed(schema: object, *, whole: bool = True) -> dict[str, object]:
    """The schema, refusing what it does not name: a field that is printed must be documented.

    Parts that others are built of stay open, and are closed where they are used.
    """
    assert isinstance(schema, dict)
    closed: dict[str, object] = {}
    for key, value in schema.items():
        if key == "properties":
            closed[key] = {name: _closed(part) for name, part in value.items()}
        elif key == "$defs":
            closed[key] = {name: _closed(part, whole=False) for name, part in value.items()}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            closed[key] = _closed(value)
        elif key in {"anyOf", "allOf", "oneOf"}:
            closed[key] = [_closed(part, whole=False) for part in value]
        else:
            closed[key] = value
    if whole and any(part in schema for part in _PARTS):
        closed.setdefault("unevaluatedProperties", False)
    return closed
