"""Annotations that need more than pydantic knows by itself, and those that are refused though pydantic takes them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import attrs
import pydantic
import pytest
import typing_extensions

from trouper import Agent, DefinitionError, SchemaError
from trouper.errors import ArgumentsError
from trouper.testing import ScriptedModel
from trouper.tools import Tool, ToolContext, tool

T = TypeVar("T")


@attrs.frozen
class Span:
    start: dt.date
    length: dt.timedelta = dt.timedelta(days=1)


@dataclasses.dataclass
class Booking:
    """A class of the standard library's that holds one of attrs'."""

    room: str
    span: Span
    more: list[Span] = dataclasses.field(default_factory=list)
    price: dataclasses.InitVar[int] = 5
    paid: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, price: int) -> None:
        self.paid = price


@attrs.frozen
class Pair(Generic[T]):
    left: T
    right: list[T] = attrs.Factory(list)


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Corner(NamedTuple):
    x: int
    y: int = 0


When = NewType("When", dt.datetime)


def taking(annotation: object, **options: Any) -> Tool[..., object]:
    def take(value: object) -> object:
        return value

    take.__annotations__["value"] = annotation
    return tool(take, **options)


DAY = dt.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("annotation", "sent", "received"),
    [
        (Span, '{"start": "2026-11-30", "length": "PT1H"}', Span(DAY, dt.timedelta(hours=1))),
        (Pair[dt.date], '{"left": "2026-11-30", "right": ["2026-11-30"]}', Pair(DAY, [DAY])),
        (Pair[Span], '{"left": {"start": "2026-11-30"}}', Pair(Span(DAY))),
        (Mapping[str, Span], '{"a": {"start": "2026-11-30"}}', {"a": Span(DAY)}),
        (Sequence[Size], "[1, 2]", [Size.SMALL, Size.LARGE]),
        (dict[Size, int], '{"2": 1}', {Size.LARGE: 1}),
        (dict[dt.date, Decimal], '{"2026-11-30": "1.50"}', {DAY: Decimal("1.50")}),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (tuple[str, dt.time], '["a", "10:30:00"]', ("a", dt.time(10, 30))),
        (frozenset[uuid.UUID], f'["{uuid.UUID(int=1)}"]', frozenset([uuid.UUID(int=1)])),
        (set[Literal["a", "b"]], '["b", "b"]', {"b"}),
        (Corner, "[1]", Corner(1)),
        (dt.timedelta, '"P1DT2H"', dt.timedelta(days=1, hours=2)),
        (When, '"2026-11-30T12:00:00Z"', dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)),
        (pydantic.Base64Bytes, '"AP8="', b"\x00\xff"),
        (Literal["a", 1] | None, "null", None),
        (Annotated[Span | None, pydantic.Field(description="When.")], "null", None),
        (
            Annotated[list[Annotated[int, pydantic.Field(ge=1)]], pydantic.Field(min_length=1)],
            "[1, 2]",
            [1, 2],
        ),
    ],
)
def test_real_values_come_in(annotation: object, sent: str, received: object) -> None:
    value = taking(annotation).bind(f'{{"value": {sent}}}').values["value"]
    assert value == received
    assert type(value) is type(received)


def test_a_dataclass_that_holds_attrs_is_described_by_what_can_be_sent() -> None:
    made = taking(Booking)
    properties = made.parameters["properties"]
    assert isinstance(properties, dict)
    booking = properties["value"]
    assert isinstance(booking, dict)
    assert list(booking["properties"]) == ["room", "span", "more", "price"]
    assert booking["required"] == ["room", "span"]
    sent = '{"value": {"room": "a", "span": {"start": "2026-11-30"}, "price": 7}}'
    value = made.bind(sent).values["value"]
    assert isinstance(value, Booking)
    assert (value.span, value.more, value.paid) == (Span(DAY), [], 7)
    with pytest.raises(ArgumentsError, match=r"value\.span\.start: Input should be a valid date"):
        made.bind('{"value": {"room": "a", "span": {"start": "soon"}}}')
    with pytest.raises(ArgumentsError, match=r"value\.paid: is not a field here"):
        made.bind('{"value": {"room": "a", "span": {"start": "2026-11-30"}, "paid": 1}}')


class Node(typing_extensions.TypedDict):
    name: str
    rest: NotRequired[list[Node]]


def test_a_typed_dict_may_hold_others_of_its_kind() -> None:
    made = taking(Node)
    tree = {"name": "a", "rest": [{"name": "b"}]}
    assert made.bind(json.dumps({"value": tree})).values["value"] == tree
    with pytest.raises(ArgumentsError, match=r"value\.rest\[0\]\.nam: is not a field here"):
        made.bind('{"value": {"name": "a", "rest": [{"name": "b", "nam": 1}]}}')


def test_local_classes_may_name_each_other_in_string_annotations() -> None:
    class Mood(enum.Enum):
        GOOD = "good"

    @dataclasses.dataclass
    class Day:
        mood: Mood

    @attrs.frozen
    class Week:
        days: list[Day]

    class Plan(TypedDict):
        week: Week
        mood: NotRequired[Mood]

    @tool
    def plan(day: Day, week: Week, all: Plan, rest: list[Day] | None = None) -> None: ...

    day: dict[str, object] = {"mood": "good"}
    raw = f'{{"day": {day}, "week": {{"days": [{day}]}}, "all": {{"week": {{"days": []}}}}}}'.replace("'", '"')
    assert plan.bind(raw).values == {
        "day": Day(Mood.GOOD),
        "week": Week([Day(Mood.GOOD)]),
        "all": {"week": Week([])},
    }


class Desk:
    def close(self, ticket: int, at: dt.date = DAY) -> str:
        return f"{ticket} closed at {at}"

    @classmethod
    def count(cls, least: int) -> int:
        return least

    @staticmethod
    def now(zone: str) -> str:
        return zone

    def __call__(self, ticket: int) -> int:
        return ticket


def add(left: int, right: int, *, twice: bool = False) -> int:
    return (left + right) * (2 if twice else 1)


@pytest.mark.parametrize(
    ("function", "name", "parameters"),
    [
        (Desk().close, "close", ["ticket", "at"]),
        (Desk.count, "count", ["least"]),
        (Desk.now, "now", ["zone"]),
        (Desk(), "Desk", ["ticket"]),
        (functools.partial(add, 1), "add", ["right", "twice"]),
        (functools.partial(add, right=1), "add", ["left", "twice"]),
        (functools.partial(Desk().close, at=DAY), "close", ["ticket"]),
    ],
)
def test_methods_partials_and_callables(function: Any, name: str, parameters: list[str]) -> None:
    made = tool(function)
    assert made.name == name
    properties = made.parameters["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == parameters


def test_positional_only_and_keyword_only_parameters_are_filled_by_name() -> None:
    @tool
    def mix(a: int, b: int = 2, /, c: int = 3, *, ctx: ToolContext | None = None, d: int) -> object:
        return (a, b, c, d)

    bound = mix.bind('{"a": 1, "d": 4}')
    fill: Any = mix.fn
    by_position, by_name = mix.signature.split(bound.values)
    assert fill(*by_position, **by_name) == (1, 2, 3, 4)
    by_position, by_name = mix.signature.split(mix.bind('{"d": 4, "c": 5, "b": 6, "a": 1}').values)
    assert fill(*by_position, **by_name) == (1, 6, 5, 4)


def test_names_that_are_pydantics_own_or_the_languages() -> None:
    names = ("model_config", "model_fields", "schema", "json", "copy", "validate", "root", "_x", "args", "kwargs")
    space: dict[str, Any] = {}
    exec(f"def odd({', '.join(f'{name}: int' for name in names)}): return locals()", space)
    made = tool(space["odd"])
    raw = "{" + ", ".join(f'"{name}": {place}' for place, name in enumerate(names)) + "}"
    assert dict(made.bind(raw).values) == {name: place for place, name in enumerate(names)}


class Tuples(enum.Enum):
    A = (1, 2)


class Empty(enum.Enum):
    pass


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (type[int], "a model cannot send a class"),
        (Literal[b"x"], "a literal with the value b'x'"),
        (Tuples, "an enum with the value (1, 2)"),
        (Empty, "an enum without members"),
        (dict[tuple[int, int], int], "keys of a JSON object are text, which cannot be read as tuple"),
        (dict[Literal[1], int], "keys of a JSON object are text, which is never 1"),
        (Iterable[int], "an iterator is checked only while it is read"),
        (Collection[int], "Unable to generate pydantic-core schema"),
        (Annotated[int, pydantic.Field(max_length=2)], "maxLength says nothing about a value of type integer"),
        (Annotated[str, pydantic.Field(pattern="[")], "regex parse error"),
        (Annotated[int, pydantic.Field(default=5)], "has its default in a Field"),
        (Annotated[int, pydantic.Field(alias="other")], "has an alias"),
        (list[int | object | type], "cannot be described"),
    ],
)
def test_refused_at_decoration_with_tool_parameter_and_annotation(annotation: object, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        taking(annotation)
    assert (caught.value.tool, caught.value.parameter) == ("take", "value")
    said = str(caught.value)
    assert said.startswith("tool take, parameter value: ")
    assert reason in said
    assert (annotation.__qualname__ if isinstance(annotation, type) else str(annotation)) in said
    assert "arbitrary_types_allowed" not in said


def test_a_field_in_place_of_a_default_is_refused() -> None:
    def take(value: int = pydantic.Field(5, ge=0)) -> None: ...

    with pytest.raises(SchemaError, match=r"parameter value: int has a Field\(...\) for its default"):
        tool(take)


def test_names_twice_or_not_to_be_sent_fail_with_the_agent_or_before() -> None:
    @tool
    def look() -> None: ...

    with pytest.raises(DefinitionError, match="two tools are called look"):
        Agent("desk", tools=[look, tool(look.fn)], model=ScriptedModel([]))
    for name in ("", "not legal", "a" * 65, "ä", "a.b"):
        with pytest.raises(DefinitionError, match="does not match"):
            tool(look.fn, name=name)
    renamed = attrs.evolve(look, name="not legal")
    with pytest.raises(DefinitionError, match="agent desk: tool name 'not legal'"):
        Agent("desk", tools=[renamed], model=ScriptedModel([]))
