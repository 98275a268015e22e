"""The documented form of ``--json``: one schema for each command, shipped, and true (see ``schemas.py``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from jsonschema import Draft202012Validator
from tests.cli.conftest import Journals
from tests.cli.program import ROOT, JsonObject, called, objects, ok_called
from tests.cli.schemas import check_json

from trouper.cli.app import trouper
from trouper.cli.json_schemas import schema_of, verbs


def test_every_command_has_a_schema_and_a_place_in_the_page() -> None:
    assert verbs() == sorted(trouper.commands)
    page = (ROOT / "docs" / "cli-json.md").read_text()
    assert [verb for verb in verbs() if f"`{verb}`" not in page] == []


@pytest.mark.parametrize("verb", verbs())
def test_schemas_are_sound_and_need_no_other_file(verb: str) -> None:
    schema = schema_of(verb)
    Draft202012Validator.check_schema(schema)
    assert json.loads(ok_called("schema", verb)) == json.loads(ok_called("schema", verb, "--json")) == schema
    defined = schema.get("$defs", {})
    assert isinstance(defined, dict)
    for part in json.dumps(schema).split('"$ref": "')[1:]:
        kind, _, name = part.partition('"')[0].rpartition("/")
        assert kind == "#/$defs"
        assert name in defined


def test_commands_that_have_one_are_listed_and_others_are_not_found() -> None:
    assert ok_called("schema").split() == verbs()
    assert called("schema", "nothing").returncode == 3


def test_a_field_that_no_schema_names_would_be_noticed() -> None:
    line: dict[str, object] = {
        "run": "r",
        "agent": "a",
        "parent": None,
        "label": None,
        "asked_at": "2027-01-31T12:00:00.000000Z",
    }
    line |= {"records": 1, "position": 1, "wake_at": None}
    check_json(["runs", "--json"], json.dumps(line))
    with pytest.raises(AssertionError, match="surprise"):
        check_json(["runs", "--json"], json.dumps({**line, "surprise": 1}))
    with pytest.raises(AssertionError, match="records"):
        check_json(["runs", "--json"], json.dumps({**line, "records": "one"}))


def test_what_looks_at_a_waiting_run_has_the_documented_form(journals: Journals, tmp_path: Path) -> None:
    run = journals.waiting(journal := tmp_path / "j.db")
    for verb, arguments in {
        "runs": [], "show": [run], "approvals": [], "tail": ["--no-follow", "--after", "0"], "verify": [], "replay": [],
    }.items():  # fmt: skip
        assert objects(ok_called(verb, journal, *arguments, "--json")), verb


def test_what_changes_a_run_has_the_documented_form(journals: Journals, tmp_path: Path) -> None:
    run = journals.waiting(journal := tmp_path / "j.db")
    for verb, *arguments in (
        ["steer", run, "Be quick"],
        ["pause", run],
        ["resume", run],
        ["extend", run, "--until", "never"],
        ["raise-limit", run, "--steps", "10"],
        ["approve", f"{run}/0.0", "--remember"],
        ["rules"],
        ["cancel", run, "--reason", "mistake"],
        ["send", "cust-1", "Hello", "--agent", "desk"],
        ["sessions"],
        ["sessions", "cust-1"],
    ):
        who = [] if verb == "sessions" else ["--as", "maria"]
        assert objects(ok_called(verb, journal, *arguments, *who, "--json")), verb


def _named(schema: object) -> Iterator[tuple[str, JsonObject, JsonObject]]:
    """Every field that a schema names, with what it may be and the object that it stands in."""
    if isinstance(schema, dict):
        for name, part in schema.get("properties", {}).items():
            yield name, part, schema
        for part in schema.values():
            yield from _named(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _named(part)


def _kinds(part: JsonObject) -> set[str]:
    """What a field may be: JSON's types and the shared parts, null left out."""
    choices = part.get("anyOf", [part])
    assert isinstance(choices, list)
    found: set[str] = set()
    for choice in choices:
        given = choice.get("type", [])
        found |= {given} if isinstance(given, str) else set(given)
        found |= {choice["$ref"].rpartition("/")[2]} if "$ref" in choice else set()
    return found - {"null"}


@pytest.mark.parametrize("verb", verbs())
def test_names_mean_the_same_in_every_command(verb: str) -> None:
    for name, part, whole in _named(schema_of(verb)):
        kinds = _kinds(part)
        assert (kinds == {"moment"}) == name.endswith("_at"), name
        assert name not in {"journal", "file_name"}, "a journal's identity is journal_id, a file is file"
        assert name != "path" or "array" in kinds, "a file is file"
        assert name != "size" or {"root"} <= cast("dict[str, object]", whole["properties"]).keys(), "of a tree"
        assert name != "bytes" or kinds == {"integer"}
