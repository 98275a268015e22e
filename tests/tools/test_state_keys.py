"""Keys of named state by themselves: what they take, and what comes back of what was journaled."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper import StateKey
from trouper.core.events import StateOp
from trouper.core.evolve_named import applied
from trouper.errors import ArgumentsError
from trouper.tools import changes, defaults_of, misfits, view
from trouper_journal import Value


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Point:
    x: int
    y: int = 0


@dataclass
class Plan:
    steps: list[Point]
    due: dt.date | None = None


class Model(pydantic.BaseModel):
    name: str
    colour: Colour = Colour.RED


class Typed(TypedDict):
    point: Point


VALUES: list[tuple[object, object]] = [
    (str, "a"),
    (int, 2**70),
    (float, 0.5),
    (bool, True),
    (str | None, None),
    (Literal["a", "b"], "b"),
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (Plan, Plan([Point(1)], dt.date(2026, 11, 30))),
    (Model, Model(name="m")),
    (Typed, {"point": Point(3)}),
    (dt.datetime, dt.datetime(2026, 11, 30, tzinfo=dt.UTC)),
    (UUID, UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (list[Point], [Point(1), Point(2)]),
    (dict[str, Point], {"a": Point(1)}),
    (set[int], {3, 1, 2}),
    (tuple[int, str], (1, "a")),
    (dict[str, list[int | None]], {"a": [1, None]}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_what_was_written_is_read_as_it_was(kind: object, value: object) -> None:
    key = StateKey(kind)
    loaded = key.load(key.plain("v", value))
    assert loaded == value
    assert type(loaded) is type(value)
    # As a default, too, whose plain form enters the definition document.
    assert StateKey(kind, default=value).load(StateKey(kind, default=value).initial) == value


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (int, "1", "v: Input should be a valid integer"),
        (bool, 1, "v: Input should be a valid boolean"),
        (Point, {"x": "one"}, "v.x: Input should be a valid integer"),
        (Point, {"x": 1, "z": 1}, "v.z: is not a field here"),
        (Point, {}, "v.x: is missing"),
        (list[Point], [{"x": 1}, {}], r"v\[1\].x: is missing"),
        (str, object(), "neither JSON nor"),
        (float, float("nan"), "v: Input should be a valid number"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(kind: object, value: object, complaint: str) -> None:
    with pytest.raises(ArgumentsError, match=complaint):
        StateKey(kind).plain("v", value)


KEYS = {
    "plain": StateKey(int, default=1),
    "list": StateKey(list[int], "append"),
    "map": StateKey(dict[str, int], "merge"),
    "sum": StateKey(int, lambda old, new: (old or 0) + new),
}
WRITES = st.one_of(
    st.tuples(st.just("plain"), st.integers()),
    st.tuples(st.just("list"), st.integers()),
    st.tuples(st.just("map"), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)),
    st.tuples(st.just("sum"), st.integers(-9, 9)),
)


@given(st.lists(WRITES, max_size=12))
def test_the_fold_of_writes_is_what_the_reducers_say(writes: list[tuple[str, Any]]) -> None:
    expected: dict[str, Any] = {"plain": 1, "list": [], "map": {}}
    named: Any = defaults_of(KEYS)
    before = str(named)
    first = named
    for name, value in writes:
        ops = changes(KEYS, named, {name: value})
        assert [op.op for op in ops] == [{"list": "append", "map": "merge"}.get(name, "set")]
        named = applied(named, ops)
        match name:
            case "list":
                expected["list"] = [*expected["list"], value]
            case "map":
                expected["map"] = {**expected["map"], **value}
            case "sum":
                expected["sum"] = expected.get("sum", 0) + value
            case _:
                expected["plain"] = value
    assert named == expected
    assert dict(view(KEYS, named)) == expected
    assert str(first) == before, "a state that was is never changed"


def test_an_update_is_taken_whole_or_not_at_all() -> None:
    with pytest.raises(ArgumentsError, match=r"list\[0\].*; nowhere: there is no such state key"):
        changes(KEYS, {}, {"plain": 2, "list": "x", "nowhere": 1})
    assert misfits(KEYS, {"plain": "x", "list": [1]}).startswith("plain: ")
    assert misfits(KEYS, {"plain": 3}) == ""


def test_operations_on_what_is_not_there_or_was_erased_begin_anew() -> None:
    ops = (StateOp("append", "list", 1), StateOp("merge", "map", {"a": 1}))
    assert applied({}, ops) == {"list": [1], "map": {"a": 1}}
    odd: dict[str, Value] = {"list": None, "map": "x"}
    assert applied(odd, ops) == {"list": [1], "map": {"a": 1}}
