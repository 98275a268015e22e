"""The JSON Schemas of what the commands print with ``--json``, and the command that prints them."""

from __future__ import annotations

import json
from importlib import resources

import click

from trouper.cli.codes import Exit, NotFoundError
from trouper.cli.command import command
from trouper.cli.output import Output, styled

_ENDING = ".schema.json"
_COMMON = "common"


def verbs() -> list[str]:
    """The commands that have a schema."""
    names = [path.name for path in resources.files("trouper.cli").joinpath("schemas").iterdir()]
    found = {name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)}
    return sorted(found - {_COMMON})


def schema_of(verb: str) -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of each line that a command prints with ``--json``; needs no other file.

    Raises:
        NotFoundError: There is no such command.
    """
    if verb not in verbs():
        raise NotFoundError(f"there is no command {verb}; those with a schema are {', '.join(verbs())}")
    schema, common = _read(verb), _read(_COMMON)["$defs"]
    own = schema.pop("$defs", {})
    assert isinstance(common, dict)
    assert isinstance(own, dict)
    needed = _needed({**common, **own}, schema)
    return {**schema, "$defs": needed} if needed else schema


def _read(name: str) -> dict[str, object]:
    text = resources.files("trouper.cli").joinpath("schemas", f"{name}{_ENDING}").read_text("utf-8")
    schema: dict[str, object] = json.loads(text)
    return schema


def _needed(definitions: dict[str, object], schema: object) -> dict[str, object]:
    """The definitions that a schema refers to, directly or by others."""
    found: dict[str, object] = {}
    open_ends = [schema]
    while open_ends:
        text = json.dumps(open_ends.pop())
        for name, definition in definitions.items():
            if name not in found and f'"#/$defs/{name}"' in text:
                found[name] = definition
                open_ends.append(definition)
    return {name: found[name] for name in definitions if name in found}


@command
@click.argument("verb", required=False)
def schema(output: Output, /, verb: str | None) -> Exit:
    """Print the JSON Schema of what a command prints with --json, or the commands that have one."""
    if verb is not None:
        found = schema_of(verb)
        output.raw(json.dumps(found) if output.as_json else json.dumps(found, indent=2))
    elif output.as_json:
        output.json({"verbs": verbs()})
    else:
        output.result(*(styled(name) for name in verbs()))
    return Exit.OK
