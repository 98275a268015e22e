"""Strict schemas: what a provider accepts, what a null in the answer means, and what cannot be strict."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.office import asks, of, office

from trouper import SchemaError
from trouper.core.conversation import Value
from trouper.core.events import ActionPlanned
from trouper.errors import ArgumentsError
from trouper.testing._strict_schema import strict_complaints
from trouper.tools import Tool, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Item:
    article: str
    count: int = 1
    note: str | None = None


@attrs.frozen
class Circle:
    kind: Literal["circle"]
    radius: float
    label: str = "c"


@attrs.frozen
class Square:
    kind: Literal["square"]
    side: float
    label: str = "s"


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)
    mood: str = "calm"


def taking(annotation: object, **options: Any) -> Tool[..., object]:
    def take(value: object) -> object:
        return value

    take.__annotations__["value"] = annotation
    return tool(take, strict=True, **options)


@tool(strict=True, effect="read_only")
def order(
    items: list[Item],
    due: dt.date,
    color: Color = Color.RED,
    gift: bool | None = None,
    weight: Annotated[int, pydantic.Field(ge=0, description="Grams.")] = 5,
    code: Annotated[str, pydantic.Field(min_length=3)] = "abc",
) -> str:
    """Order.

    Args:
        items: What.
    """
    return f"{items} {due} {color} {gift} {weight} {code}"


def test_all_is_required_and_what_may_be_left_out_is_nullable() -> None:
    spec = order.spec()
    assert spec.strict is True
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "article": {"type": "string"},
                        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    },
                    "required": ["article", "count", "note"],
                    "additionalProperties": False,
                },
                "description": "What.",
            },
            "due": {"type": "string", "format": "date"},
            "color": {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}]},
            "gift": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "weight": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "description": "Grams."},
            "code": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "(minLength: 3)"},
        },
        "required": ["items", "due", "color", "gift", "weight", "code"],
        "additionalProperties": False,
    }
    # The tool itself is what it was: an edit by a person may leave things out.
    assert order.parameters["required"] == ["items", "due"]


def test_null_means_left_out_at_every_depth_and_the_rest_is_still_checked() -> None:
    raw = (
        '{"items": [{"article": "bolt", "count": null, "note": null}], "due": "2026-11-30",'
        ' "color": null, "gift": null, "weight": null, "code": null}'
    )
    bound = order.bind(raw)
    assert bound.arguments == {"items": [{"article": "bolt"}], "due": "2026-11-30"}
    assert bound.values == {"items": [Item("bolt")], "due": dt.date(2026, 11, 30)}
    with pytest.raises(ArgumentsError, match=r"code: String should have at least 3 characters"):
        order.bind('{"items": [], "due": "2026-11-30", "code": "a"}')
    with pytest.raises(ArgumentsError, match=r"due: is missing|due: Input should be a valid date"):
        order.bind('{"items": [], "due": null}')


@pytest.mark.parametrize(
    ("annotation", "sent", "received"),
    [
        (Circle | Square, '{"kind": "square", "side": 2, "label": null}', Square("square", 2.0)),
        (
            Annotated[Circle | Square, pydantic.Field(discriminator="kind")],
            '{"kind": "circle", "radius": 1, "label": null}',
            Circle("circle", 1.0),
        ),
        (
            Tree,
            '{"name": "a", "children": [{"name": "b", "children": null, "mood": null}], "mood": "wild"}',
            Tree("a", [Tree("b")], "wild"),
        ),
        (Literal["a", 1] | None, "1", 1),
        (Decimal, '"1.5"', Decimal("1.5")),
        (set[int], "[1, 1]", {1}),
        (bytes, '"a"', b"a"),
    ],
)
def test_strict_schemas_are_accepted_and_read_back(annotation: object, sent: str, received: object) -> None:
    made = taking(annotation)
    assert list(strict_complaints(dict(made.spec().parameters), "parameters")) == []
    assert made.bind(f'{{"value": {sent}}}').values == {"value": received}


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (dict[str, int], "an object with free keys"),
        (dict, "an object with free keys"),
        (Any, "a value of any kind"),
        (list, "a value of any kind"),
        (tuple[int, str], "prefixItems .*; use a class or a list"),
        (list[Item | dict[str, int]], "an object with free keys"),
    ],
)
def test_what_cannot_be_strict_is_refused_by_name(annotation: object, reason: str) -> None:
    with pytest.raises(SchemaError, match=rf"tool take, parameter value: strict: .*{reason}"):
        taking(annotation)


def test_a_null_that_would_mean_two_things_is_refused() -> None:
    def take(value: str | None = "a") -> None: ...

    with pytest.raises(SchemaError, match="parameter value: strict: a null for value would mean both null and left"):
        tool(take, strict=True)


OPTIONAL = ("color", "gift", "weight", "code")
SENT: dict[str, Value] = {"color": "blue", "gift": True, "weight": 7, "code": "abcd"}


@given(sent=st.sets(st.sampled_from(OPTIONAL)), counts=st.lists(st.none() | st.integers(0, 9), max_size=3))
def test_whatever_is_left_out_a_strict_call_means_the_same_as_an_ordinary_one(
    sent: set[str], counts: list[int | None]
) -> None:
    items: list[Value] = [{"article": "a", "count": count, "note": None} for count in counts]
    base: dict[str, Value] = {"due": "2026-11-30"}
    strict = {**base, "items": items, **{name: SENT[name] if name in sent else None for name in OPTIONAL}}
    plain: list[Value] = [{"article": "a"} if count is None else {"article": "a", "count": count} for count in counts]
    ordinary = {**base, "items": plain, **{name: SENT[name] for name in sent}}
    jsonschema.validate(strict, dict(order.spec().parameters))
    assert order.bind(json.dumps(strict)).values == tool(order.fn).bind(json.dumps(ordinary)).values


def test_an_explicit_schema_can_be_strict() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}

    @tool(schema=schema, strict=True)
    def find(q: str, n: int = 3) -> None: ...

    assert list(strict_complaints(dict(find.spec().parameters), "parameters")) == []
    assert find.bind('{"q": "a", "n": null}').values == {"q": "a"}

    with pytest.raises(SchemaError, match="tool find: strict: its schema allows arguments without names"):
        tool(lambda **more: None, name="find", schema={**schema, "additionalProperties": True}, strict=True)


def test_strictness_is_part_of_the_contract_only_where_it_is_declared() -> None:
    assert order.contract()["strict"] is True
    assert "strict" not in tool(order.fn).contract()
    with pytest.raises(Exception, match="tool order, strict: give true or false"):
        tool(order.fn, strict="yes")  # type: ignore[call-overload]  # what is to be refused


async def test_over_the_wire(tmp_path: Path) -> None:
    sent: dict[str, Value] = {"items": [{"article": "bolt", "count": None, "note": None}], "due": "2026-11-30"}
    sent |= {"color": "blue", "gift": None, "weight": None, "code": None}
    async with office(tmp_path, [asks(("order", sent)), "Done."], [order]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "order a bolt")
        result = await run.wait()
        assert result.messages[2].content == (
            "[Item(article='bolt', count=1, note=None)] 2026-11-30 Color.BLUE None 5 abc"
        )
        (planned,) = await of(run, ActionPlanned)
        assert planned.arguments == {"items": [{"article": "bolt"}], "due": "2026-11-30", "color": "blue"}
        tools = desk.stub.requests[0].body["tools"]
        assert tools[0]["function"]["strict"] is True  # type: ignore[index, call-overload]  # a request's JSON
