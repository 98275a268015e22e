"""What a model sends is read strictly, and every misfit is an error that it can act on."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.errors import ArgumentsError
from trouper.tools import ToolContext, parse_arguments, tool


@dataclasses.dataclass
class Line:
    price: float
    count: int = 1


@tool
def order(value: int, lines: list[Line] | None = None, factor: float = 1.0, urgent: bool = False) -> None: ...


@tool(secrets={"token": "crm/api-token"})
def ping(*, token: str, ctx: ToolContext) -> None: ...


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ('{"value": "x"}', '- value: Input should be a valid integer (got "x")'),
        ('{"value": "1"}', '- value: Input should be a valid integer (got "1")'),
        ('{"value": true}', "- value: Input should be a valid integer (got true)"),
        ('{"value": 1.5}', "- value: Input should be a valid integer (got 1.5)"),
        ('{"value": 1.0}', "- value: Input should be a valid integer (got 1.0)"),
        ('{"value": null}', "- value: Input should be a valid integer (got null)"),
        ('{"value": 1, "urgent": 1}', "- urgent: Input should be a valid boolean (got 1)"),
        ('{"value": 1, "factor": "2"}', '- factor: Input should be a valid number (got "2")'),
        ('{"value": 1, "factor": true}', "- factor: Input should be a valid number (got true)"),
        ("{}", "- value: is missing"),
        ("", "- value: is missing"),
        ('{"value": 1, "speed": 2}', "- speed: is no parameter of order (parameters: value, lines, factor, urgent)"),
        ('{"value": 1, "lines": [{"price": 1}, {"price": "a"}]}', "- lines[1].price: Input should be a valid number"),
        ('{"value": 1, "lines": [{"count": 1}]}', "- lines[0].price: is missing"),
        ('{"value": 1, "lines": [{"price": 1, "tax": 2}]}', "- lines[0].tax: is not a field here"),
        ('{"value": 1, "factor": 1' + "0" * 400 + "}", "- factor: Input should be a finite number"),
    ],
)
def test_arguments_that_do_not_fit(sent: str, told: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        order.bind(sent)
    message = str(caught.value)
    assert message.startswith("The arguments do not fit order, so nothing was run. Mend this and call again:\n")
    assert told in message


def test_every_misfit_is_told_at_once() -> None:
    with pytest.raises(ArgumentsError) as caught:
        order.bind('{"factor": "a", "urgent": "b", "speed": 1}')
    assert [line.split(":")[0] for line in str(caught.value).splitlines()[1:]] == [
        "- value",
        "- factor",
        "- urgent",
        "- speed",
    ]


def test_the_message_stays_short_whatever_was_sent() -> None:
    lines = [{"price": "x" * 500}] * 500
    with pytest.raises(ArgumentsError, match="and 480 more") as caught:
        order.bind(json.dumps({"value": 1, "lines": lines}))
    assert len(str(caught.value)) < 5000


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("null", "it is null, not an object"),
        ("[1]", "it is an array, not an object"),
        ('"{}"', "it is a string, not an object"),
        ("3", "it is a number, not an object"),
        ("true", "it is a boolean, not an object"),
        ('{"path": "a", "content": "hal', "Unterminated string starting at line 1, column 26"),
        ('{"value": 1} {"value": 2}', "Extra data"),
        ("{'value': 1}", "Expecting property name"),
        ('{"value": NaN}', "NaN is not JSON"),
        ('{"value": -Infinity}', "-Infinity is not JSON"),
        ('{"value": 1e999}', 'number "1e999" is too large'),
        ('{"value": ' + "9" * 5000 + "}", "a number of 5000 digits is too large"),
        ('{"value": ' + "9" * 4299 + "}", "a number of 4299 digits is too large"),
        ('{"value": 1, "value": 2}', 'key "value" stands twice'),
        ('{"value": {"a": 1, "a": 1}}', 'key "a" stands twice'),
        ('{"value": ["\\ud800"]}', "value[0] holds half of a surrogate pair"),
        ('{"\\udfff": 1}', "a key of the object holds half of a surrogate pair"),
        ('{"value": ' + "[" * 201 + "]" * 201 + "}", "nested deeper than 128 levels"),
        ('{"value": ' + "[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_text_that_is_no_object_of_json(sent: str, told: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        order.bind(sent)
    message = str(caught.value)
    assert told in message
    assert "Nothing was run." in message


@pytest.mark.parametrize("sent", ["", "  \n", "{}"])
def test_empty_text_counts_as_no_arguments(sent: str) -> None:
    assert ping.bind(sent).arguments == {}


@pytest.mark.parametrize("name", ["ctx", "token", "effect_key", "run"])
def test_a_model_cannot_supply_what_is_injected(name: str) -> None:
    with pytest.raises(ArgumentsError, match=f"- {name}: is no parameter of ping"):
        ping.bind(json.dumps({name: "mine"}))


def test_an_int_does_for_a_float_and_values_come_as_the_functions_own() -> None:
    bound = order.bind('{"value": 3, "factor": 2, "lines": [{"price": 1}]}')
    assert bound.arguments == {"value": 3, "factor": 2, "lines": [{"price": 1}]}
    assert bound.values == {"value": 3, "factor": 2.0, "lines": [Line(1.0)]}
    assert type(bound.values["factor"]) is float


def test_edited_arguments_are_held_to_the_same_rules() -> None:
    assert order.validate({"value": 1}) == {"value": 1}
    for arguments, told in (
        ({"value": b"1"}, "- value: "),
        ({"value": 1, "factor": float("nan")}, "- factor: "),
        ({"value": 1, "to": "b"}, "- to: is no parameter"),
    ):
        with pytest.raises(ArgumentsError, match=told):
            order.validate(arguments)  # type: ignore[arg-type] # bytes and NaN are journal values, not JSON


def test_a_validator_that_breaks_is_a_misfit() -> None:
    @dataclasses.dataclass
    class Span:
        start: int

        def __post_init__(self) -> None:
            raise KeyError(self.start)

    @tool
    def cut(span: Span) -> None: ...

    with pytest.raises(ArgumentsError, match="- span: KeyError: 1"):
        cut.bind('{"span": {"start": 1}}')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_any_object_of_json_is_read_as_it_is(arguments: dict[str, object]) -> None:
    assert parse_arguments(json.dumps(arguments)) == arguments


@given(st.text() | st.text(alphabet='{}[]":,0eE-+.nulltrefasNI\\ud8'))
def test_any_text_is_read_or_refused_as_bad_arguments(raw: str) -> None:
    try:
        arguments = parse_arguments(raw)
    except ArgumentsError:
        return
    assert arguments == (json.loads(raw) if raw.strip() else {})


@given(st.dictionaries(st.sampled_from(["value", "lines", "factor", "urgent", "ctx"]), json_values))
def test_any_object_fits_or_is_refused_as_bad_arguments(arguments: dict[str, object]) -> None:
    try:
        values = order.bind(json.dumps(arguments)).values
    except ArgumentsError:
        return
    assert type(values["value"]) is int
    assert type(values.get("factor", 1.0)) is float
    assert type(values.get("urgent", False)) is bool
