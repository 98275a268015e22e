"""The one JSON document in what a model wrote: found wherever it stands, never guessed at."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trouper.core.conversation import Value
from trouper.tools._documents import Found, NotFound, find_document

DOC = '{"title": "Soup", "steps": ["cut {all}", "boil"]}'
VALUE = {"title": "Soup", "steps": ["cut {all}", "boil"]}

FOUND = [
    DOC,
    f"\n  {DOC}\n",
    f"```json\n{DOC}\n```",
    f"```\n{DOC}\n```",
    f"~~~JSON\n{DOC}\n~~~",
    f"Here you are:\n\n```json\n{DOC}\n```\n\nEnjoy!",
    f"Sure! {DOC} Anything else?",
    f"`{DOC}`",
    f"As said in [1] and [2, 3], for {{name}} and f(x) = {{ x | x > 0 }}: {DOC}",
    f"{DOC}\n\nOr, once more:\n```json\n{json.dumps(VALUE, indent=2)}\n```",
    f'<think>Maybe {{"title": "Stew"}}?</think>{DOC}',
    f"[see the list] (a set {{ is open) {DOC}",
]


@pytest.mark.parametrize("text", FOUND)
def test_the_document_is_found(text: str) -> None:
    assert find_document(text) == Found(VALUE)


REFUSED = [
    ("", "empty"),
    (" \n", "empty"),
    ("I am done.", "no JSON object"),
    ("[1, 2]", "no JSON object"),
    ("null", "no JSON object"),
    ("{title: 'Soup'}", "no JSON object"),
    ('{"title": "Soup"', "broken"),
    ('{"title": "Soup", "more": {"title": "Stew"}', "broken"),
    ('{"title": "Soup",}', "broken"),
    ("{'title': {\"title\": 1}} is what I have", "no JSON object"),
    ('Draft: {"n": 1,} Final: {"n": 2}', "broken"),
    ('Either {"n": 1} or {"n": 2}', "several different"),
    ('{"n": 1}\n{"n": 1.0}', "several different"),
    ('{"n": 1} {"n": true}', "several different"),
    ('```json\n{"n": 1}\n```\n```json\n{"n": 2}\n```', "several different"),
    ('{"n": 1, "n": 2}', "twice"),
    ('Take {"n": 1, "n": 2}.', "twice"),
    ('{"n": NaN}', "NaN"),
    ('{"n": 1e999}', "too large"),
    ('[{"n": 1}]', "no JSON object"),
    ('Here: [{"n": 1}]', "no JSON object"),
    ('Here: [{"n": 1}, {"n": 2', "broken"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_cannot_be_told_apart_or_read_is_refused(text: str, reason: str) -> None:
    found = find_document(text)
    assert isinstance(found, NotFound)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", [1, 2]),
        ("The numbers: [1, 2].", [1, 2]),
        ('"yes"', "yes"),
        ("7", 7),
        ("```json\n7\n```", 7),
        ('I say:\n```\n"yes"\n```', "yes"),
        ('{"result": 7}', {"result": 7}),
    ],
)
def test_where_anything_will_do_arrays_and_scalars_are_found(text: str, value: Value) -> None:
    assert find_document(text, objects_only=False) == Found(value)


def test_a_number_in_prose_is_no_document() -> None:
    assert find_document("I have 7 of them.", objects_only=False) == NotFound("there is no JSON in it")


LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    LEAVES | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=10
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
# Prose without a bracket that would begin a document of its own, or a mark that ends reasoning.
PROSE = st.text(max_size=60).map(lambda text: re.sub(r"[{}\[\]<`~]", " ", text))


@given(PROSE, OBJECTS, PROSE, st.booleans(), st.sampled_from([None, 1]))
def test_any_object_is_found_in_any_prose(
    before: str, value: dict[str, Value], after: str, fenced: bool, indent: int | None
) -> None:
    document = json.dumps(value, indent=indent, ensure_ascii=False)
    text = f"{before}\n```json\n{document}\n```\n{after}" if fenced else f"{before} {document} {after}"
    if re.fullmatch(r"\s*(NaN|-?Infinity|[-\d.eE]+)?\s*", before) and before.strip():
        return  # taken for JSON itself, in front of the document
    assert find_document(text) == Found(value)


@given(PROSE, OBJECTS, OBJECTS, PROSE)
def test_two_different_objects_are_never_chosen_from(
    before: str, one: dict[str, Value], two: dict[str, Value], after: str
) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    found = find_document(f"x{before} {json.dumps(one)} or {json.dumps(two)} {after}")
    assert isinstance(found, Found if same else NotFound)


@settings(deadline=5000)
@given(st.text(alphabet='{}[]":,0 1atrue\\`~\n<think>/') | st.text(), st.booleans())
@example("[" * 100_000, False)
@example("[1," * 30_000, True)
@example("[1 " * 30_000, True)
@example('{"a":' * 100_000, True)
@example("{" * 100_000, True)
@example('{"a": "\ud800"}', True)
@example(f'{{"a": {"9" * 5000}}}', True)
@example('x {"a": ' + "[" * 150 + "]" * 150 + "}", True)
def test_whatever_it_is_there_is_an_answer(text: str, objects_only: bool) -> None:
    found = find_document(text, objects_only=objects_only)
    if isinstance(found, Found):
        json.dumps(found.value, allow_nan=False).encode()
    else:
        assert found.reason
