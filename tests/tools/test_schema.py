"""Which annotations a tool may have, what a model is told of them, and what the function gets."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, Union

import attrs
import pydantic
import pytest

from trouper.errors import ArgumentsError, SchemaError
from trouper.tools import Tool, ToolContext, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A place on the map."""

    x: int
    title: str = "here"


@attrs.frozen
class Box:
    corner: Point
    _depth: int = attrs.field(default=1, validator=attrs.validators.ge(0))


class Entry(TypedDict):
    key: str
    boxes: NotRequired[list[Box]]


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Filter(pydantic.BaseModel):
    field: str
    least: int = 0


UserId = NewType("UserId", int)

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "title": {"type": "string", "default": "here"}},
    "required": ["x"],
    "additionalProperties": False,
}


def taking(annotation: object, **options: Any) -> Tool[..., object]:
    def take(value: object) -> object:
        return value

    take.__annotations__["value"] = annotation
    return tool(take, **options)


def schema_of(made: Tool[..., object], name: str = "value") -> object:
    properties = made.parameters["properties"]
    assert isinstance(properties, dict)
    return properties[name]


CASES: list[tuple[object, object, str, object]] = [
    (str, {"type": "string"}, '"a"', "a"),
    (int, {"type": "integer"}, "3", 3),
    (float, {"type": "number"}, "1.5", 1.5),
    (float, {"type": "number"}, "1", 1.0),
    (bool, {"type": "boolean"}, "true", True),
    (None, {"type": "null"}, "null", None),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),  # noqa: UP045 -- both spellings count
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, '"1"', "1"),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "1", 1),  # noqa: UP007
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, '"b"', "b"),
    (Color, {"type": "string", "enum": ["red", "blue"]}, '"blue"', Color.BLUE),
    (list[int], {"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": 1}', {"a": 1}),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1, 1]", {1}),
    (Point, {**POINT, "description": "A place on the map."}, '{"x": 1}', Point(1)),
    (UserId, {"type": "integer"}, "7", 7),
    (Annotated[int, pydantic.Field(ge=1)], {"type": "integer", "minimum": 1}, "1", 1),
    (dt.date, {"type": "string", "format": "date"}, '"2026-11-30"', dt.date(2026, 11, 30)),
    (
        dt.datetime,
        {"type": "string", "format": "date-time"},
        '"2026-11-30T12:00:00Z"',
        dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC),
    ),
    (uuid.UUID, {"type": "string", "format": "uuid"}, f'"{uuid.UUID(int=5)}"', uuid.UUID(int=5)),
    (Decimal, {"anyOf": [{"type": "number"}, {"type": "string"}]}, '"1.10"', Decimal("1.10")),
    (bytes, {"type": "string", "format": "binary"}, '"ab"', b"ab"),
    (Any, {}, '{"a": [1]}', {"a": [1]}),
    (
        Filter,
        {
            "type": "object",
            "properties": {"field": {"type": "string"}, "least": {"type": "integer", "default": 0}},
            "required": ["field"],
        },
        '{"field": "a"}',
        Filter(field="a"),
    ),
]


@pytest.mark.parametrize(("annotation", "schema", "sent", "received"), CASES)
def test_annotations(annotation: object, schema: object, sent: str, received: object) -> None:
    made = taking(annotation)
    assert schema_of(made) == schema
    value = made.bind(f'{{"value": {sent}}}').values["value"]
    assert value == received
    assert type(value) is type(received)


def test_containers_of_attrs_and_typed_dicts_give_real_objects() -> None:
    made = taking(list[Entry] | None)
    values = made.bind('{"value": [{"key": "a", "boxes": [{"corner": {"x": 1}, "depth": 4}]}]}').values
    assert values == {"value": [{"key": "a", "boxes": [Box(Point(1), 4)]}]}
    with pytest.raises(ArgumentsError, match=r"value\[0\]\.boxes\[0\]: .*'_depth' must be >= 0"):
        made.bind('{"value": [{"key": "a", "boxes": [{"corner": {"x": 1}, "depth": -1}]}]}')
    with pytest.raises(ArgumentsError, match=r"value\[0\]\.boxes\[0\]\.corner\.y: is not a field here"):
        made.bind('{"value": [{"key": "a", "boxes": [{"corner": {"x": 1, "y": 2}}]}]}')


def test_recursive_types_keep_a_definition_and_others_are_inlined() -> None:
    made = taking(Tree)
    assert schema_of(made) == {"$ref": "#/$defs/Tree"}
    assert made.parameters["$defs"] == {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    }
    tree = made.bind('{"value": {"name": "a", "children": [{"name": "b"}]}}').values["value"]
    assert tree == Tree("a", [Tree("b")])


def test_two_recursive_types_of_one_name_stay_apart() -> None:
    other = dataclasses.make_dataclass("Tree", [("size", int), ("inner", "list[Tree]")])
    other.__module__ = "other"
    other.__annotations__["inner"] = list[other]  # type: ignore[valid-type] # made at run time
    dataclasses.fields(other)[1].type = list[other]  # type: ignore[valid-type] # made at run time

    def graft(left: Tree, right: object) -> None: ...

    graft.__annotations__["right"] = other
    made = tool(graft)
    values = made.bind('{"left": {"name": "a"}, "right": {"size": 1, "inner": [{"size": 2, "inner": []}]}}').values
    assert values["left"] == Tree("a")
    definitions = made.parameters["$defs"]
    assert isinstance(definitions, dict)
    assert sorted(definitions) == ["Tree", "Tree_right"]
    assert schema_of(made, "right") == {"$ref": "#/$defs/Tree_right"}


@pytest.mark.parametrize(
    "annotation",
    [
        Callable[[], int],
        Iterator[int],
        type,
        ToolContext | int,
        list[ToolContext],
        "Missing",
        "list[",
    ],
)
def test_anything_else_is_refused_at_decoration(annotation: object) -> None:
    with pytest.raises(SchemaError) as caught:
        taking(annotation)
    assert (caught.value.tool, caught.value.parameter) == ("take", "value")


class Opaque:
    pass


def test_a_class_without_schema_is_refused_wherever_it_stands() -> None:
    for annotation in (Opaque, list[Opaque], int | Opaque, int | Callable[[], int]):
        with pytest.raises(SchemaError, match="tool take, parameter value"):
            taking(annotation)


def test_parameters_that_a_model_cannot_fill_are_refused() -> None:
    def bare(value) -> None: ...  # type: ignore[no-untyped-def] # that is the point

    def starred(*values: int) -> None: ...

    def named(**values: int) -> None: ...

    for function, parameter in ((bare, "value"), (starred, "values"), (named, "values")):
        with pytest.raises(SchemaError) as caught:
            tool(function)
        assert caught.value.parameter == parameter


def test_an_attrs_class_that_contains_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="contains itself"):
        taking(Chain)


@attrs.frozen
class Chain:
    next: Chain | None = None


def test_parameter_names_that_pydantic_would_lose_or_refuse() -> None:
    @tool
    def odd(_hidden: int, __dunder: int, model_config: int, schema: int, json: int, copy: int, title: int) -> None: ...

    raw = '{"_hidden":1,"__dunder":2,"model_config":3,"schema":4,"json":5,"copy":6,"title":7}'
    assert list(odd.bind(raw).values.values()) == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(ArgumentsError, match="_hidden: is missing"):
        odd.bind("{}")


def test_local_classes_in_string_annotations() -> None:
    class Mood(enum.Enum):
        GOOD = "good"

    @tool
    def feel(mood: Mood) -> str:
        return mood.name

    assert feel.bind('{"mood": "good"}').values == {"mood": Mood.GOOD}


def test_defaults_are_shown_and_left_to_the_function() -> None:
    @tool
    def paint(color: Color = Color.RED, at: Point | None = None, where: object = pytest) -> Color:
        return color

    assert schema_of(paint, "color") == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert "default" not in str(schema_of(paint, "where"))
    assert "required" not in paint.parameters
    assert paint.bind("{}").values == {}


def test_words_of_json_schema_are_told_from_names() -> None:
    @dataclasses.dataclass
    class Doc:
        title: str
        description: str
        properties: int = 0

    made = taking(Doc)
    fields = made.contract()["parameters"]
    assert list(Doc.__annotations__) == ["title", "description", "properties"]
    assert "'title': {'type': 'string'}" in str(fields)
    assert "'description': {'type': 'string'}" in str(fields)


def test_a_fields_own_description_wins_over_the_docstring() -> None:
    @tool
    def go(far: Annotated[int, pydantic.Field(description="Metres.")], at: Point) -> None:
        """Go.

        Args:
            far: How far.
            at: Where from.
        """

    assert schema_of(go, "far") == {"type": "integer", "description": "Metres."}
    assert schema_of(go, "at") == {**POINT, "description": "Where from."}


EXPLICIT = {
    "title": "Anything",
    "type": "object",
    "properties": {"size": {"$ref": "#/$defs/Size"}, "when": {"type": "string"}},
    "required": ["size"],
    "$defs": {"Size": {"type": "integer", "maximum": 9}},
}


def test_an_explicit_schema_is_what_the_model_sees_and_must_keep() -> None:
    @tool(schema=EXPLICIT)
    def wait(size, when: dt.date = dt.date.min) -> None: ...  # type: ignore[no-untyped-def] # as a schema allows

    assert wait.parameters == {
        "type": "object",
        "properties": {"size": {"type": "integer", "maximum": 9}, "when": {"type": "string"}},
        "required": ["size"],
        "additionalProperties": False,
    }
    assert wait.bind('{"size": 3, "when": "2026-11-30"}').values == {"size": 3, "when": dt.date(2026, 11, 30)}
    with pytest.raises(ArgumentsError, match="size: 10 is greater than the maximum of 9"):
        wait.bind('{"size": 10}')
    with pytest.raises(ArgumentsError, match="when: Input should be a valid date"):
        wait.bind('{"size": 1, "when": "soon"}')
    with pytest.raises(ArgumentsError, match=r"- size: is missing$"):
        wait.bind("{}")


def test_an_explicit_schema_may_feed_keyword_arguments() -> None:
    @tool(name="remote", schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    def remote(**arguments: object) -> object:
        return arguments

    assert remote.bind('{"a": 1, "b": 2}').values == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": {"size": {"$ref": "https://example.org/size"}}, "required": ["size"]},
        {"type": "object", "properties": {"size": {"type": "huge"}}, "required": ["size"]},
        {"type": "object", "properties": {"size": {}}},
        {"type": "object", "properties": {"size": {}, "other": {}}, "required": ["size"]},
        {"type": "object", "properties": {"size": {}, "ctx": {}}, "required": ["size"]},
        {"type": "object", "properties": {"size": {"default": Opaque}}, "required": ["size"]},
    ],
)
def test_an_explicit_schema_that_does_not_fit_is_refused(schema: dict[str, object]) -> None:
    def wait(size: int, ctx: ToolContext) -> None: ...

    with pytest.raises(SchemaError, match="tool wait"):
        tool(wait, schema=schema)
