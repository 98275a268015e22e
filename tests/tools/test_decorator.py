"""What `@tool` makes of functions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import assert_type

import pytest

from trouper.errors import DefinitionError, SchemaError
from trouper.tools import Effect, Gate, Tool, ToolContext, tool


def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: The city's name, such as Oslo.

    Returns:
        A sentence.
    """
    return f"Sunny in {city}."


def test_name_description_and_schema_come_from_signature_and_docstring() -> None:
    made = tool(get_weather)
    assert made.name == "get_weather"
    assert made.description == "Current weather in a city."
    assert made.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city's name, such as Oslo."}},
        "required": ["city"],
        "additionalProperties": False,
    }


def numpy_style(city: str, days: int = 3) -> None:
    """Forecast.

    Parameters
    ----------
    city : str
        The city's name.
    days : int
        How far to look.
    """


def rest_style(city: str, days: int = 3) -> None:
    """Forecast.

    :param city: The city's name.
    :param int days: How far to look.
    :returns: Nothing.
    """


def google_style(city: str, days: int = 3) -> None:
    """Forecast.

    Args:
        city (str): The city's name.
        days (int): How far to look.
    """


@pytest.mark.parametrize("function", [numpy_style, rest_style, google_style])
def test_docstring_styles(function: object) -> None:
    assert callable(function)
    made = tool(function)
    assert made.description == "Forecast."
    assert made.parameters["properties"] == {
        "city": {"type": "string", "description": "The city's name."},
        "days": {"type": "integer", "description": "How far to look.", "default": 3},
    }


def test_a_long_description_is_kept() -> None:
    @tool
    def search(query: str) -> str:
        """Search the handbook.

        Prefer short queries.

        Args:
            query: What to look for.
        """
        return query

    assert search.description == "Search the handbook.\n\nPrefer short queries."


def test_name_and_description_can_be_given() -> None:
    made = tool(get_weather, name="weather-now", description="Ask for weather.")
    assert (made.name, made.description) == ("weather-now", "Ask for weather.")


@pytest.mark.parametrize("name", ["", "has space", "ünicode", "x" * 65, "newline\n"])
def test_names_that_providers_refuse_are_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="does not match"):
        tool(get_weather, name=name)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match=r"@tool\(name="):
        tool(lambda: None)
    assert tool(lambda: None, name="nothing").name == "nothing"


def test_a_tool_stays_directly_callable() -> None:
    made = tool(get_weather)
    assert made(city="Oslo") == made("Oslo") == "Sunny in Oslo."
    assert_type(made("Oslo"), str)


async def test_an_async_tool_stays_async() -> None:
    @tool
    async def double(value: int) -> int:
        return 2 * value

    assert await double(value=21) == 42
    assert double.is_async
    assert not tool(get_weather).is_async


def test_a_bare_tool_counts_as_the_dangerous_case() -> None:
    bare = tool(get_weather)
    assert bare.effect is Effect.UNQUERYABLE_WRITE
    assert bare.options.effect is None
    assert tool(get_weather, effect="read_only").effect is Effect.READ_ONLY
    assert tool(get_weather, effect=Effect.IDEMPOTENT_WRITE).effect is Effect.IDEMPOTENT_WRITE


class Desk:
    def __init__(self, sign: str) -> None:
        self.sign = sign

    def stamp(self, text: str) -> str:
        """Stamp a text."""
        return f"{text} {self.sign}"

    def __call__(self, text: str) -> str:
        """Stamp it twice."""
        return self.stamp(self.stamp(text))


def test_bound_methods_and_callable_objects() -> None:
    stamp = tool(Desk("ok").stamp)
    assert stamp.name == "stamp"
    assert stamp.description == "Stamp a text."
    assert list(properties(stamp)) == ["text"]
    assert stamp("a") == "a ok"
    twice = tool(Desk("ok"))
    assert (twice.name, twice.description, twice("a")) == ("Desk", "Stamp it twice.", "a ok ok")


def test_a_function_in_a_class_is_refused_with_advice() -> None:
    with pytest.raises(SchemaError, match=r"tool\(object.method\)"):
        tool(Desk.stamp)


def test_what_a_partial_fixes_is_out_of_the_models_reach() -> None:
    def send(account: str, to: str, text: str = "hi") -> str:
        """Send a message."""
        return f"{account}>{to}: {text}"

    made = tool(functools.partial(send, account="ops"))
    assert (made.name, made.description) == ("send", "Send a message.")
    assert list(properties(made)) == ["to", "text"]
    assert made(to="maria") == "ops>maria: hi"


def test_positional_only_and_keyword_only_parameters() -> None:
    @tool
    def place(x: int, y: int = 7, /, *, name: str = "here") -> str:
        return f"{x},{y},{name}"

    values = place.bind('{"name": "there", "x": 1}').values
    by_position, by_name = place.signature.split(values)
    assert (by_position, by_name) == ([1, 7], {"name": "there"})


def test_context_and_secrets_are_not_in_the_schema() -> None:
    @tool(secrets={"token": "crm/api-token"})
    def close(ticket: str, *, token: str, ctx: ToolContext | None = None) -> str:
        return f"{ticket} {token} {ctx}"

    assert list(properties(close)) == ["ticket"]
    assert close.signature.context == "ctx"
    assert close("1", token="t") == "1 t None"


def test_a_second_context_is_refused() -> None:
    with pytest.raises(SchemaError, match="tool two, parameter other") as caught:

        @tool
        def two(ctx: ToolContext, other: ToolContext) -> None: ...

    assert (caught.value.tool, caught.value.parameter) == ("two", "other")


def test_a_secret_without_a_parameter_is_refused() -> None:
    with pytest.raises(SchemaError, match="tool get_weather, parameter token"):
        tool(get_weather, secrets={"token": "crm/api-token"})


def query(city: str) -> object:
    return city


async def gate(arguments: Mapping[str, object]) -> bool:
    return bool(arguments)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"effect": "harmless"}, "effect"),
        ({"effect": ["read_only"]}, "effect"),
        ({"approval": True}, "approval"),
        ({"description": 5}, "description"),
        ({"schema": "{}"}, "schema"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": 1e300}, "timeout"),
        ({"timeout": 10**400}, "timeout"),
        ({"approval_expires": 10**10}, "approval_expires"),
        ({"approval_expires": -1}, "approval_expires"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": None}, "attempts"),
        ({"concurrency": 0}, "concurrency"),
        ({"version": ""}, "version"),
        ({"secrets": {"city": ""}}, "secrets"),
        ({"requires_approval": "yes"}, "requires_approval"),
        ({"requires_approval": gate}, "requires_approval"),
        ({"effect": "queryable_write"}, "query"),
        ({"effect": "read_only", "query": query}, "query"),
        ({"effect": "queryable_write", "query": "crm"}, "query"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_by_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(DefinitionError, match=f"tool get_weather, {named}: "):
        tool(get_weather, **options)  # type: ignore[call-overload] # that is the point


def test_only_functions_become_tools() -> None:
    with pytest.raises(DefinitionError, match="not of Tool"):
        tool(tool(get_weather))
    with pytest.raises(DefinitionError, match="not of str"):
        tool("get_weather", name="x")  # type: ignore[call-overload] # that is the point

    def lines(path: str) -> object:
        yield path

    with pytest.raises(DefinitionError, match="generator"):
        tool(lines)


def test_approval_gates() -> None:
    def dear(arguments: Mapping[str, object]) -> bool:
        return arguments["city"] == "Oslo"

    assert tool(get_weather).gate({"city": "Rome"}) == Gate(required=False)
    assert tool(get_weather, requires_approval=True).gate({}).required
    by_predicate = tool(get_weather, requires_approval=dear)
    assert [by_predicate.gate({"city": city}).required for city in ("Oslo", "Rome")] == [True, False]
    assert [made.gate_kind for made in (tool(get_weather), by_predicate)] == ["none", "predicate"]


def test_a_predicate_that_cannot_judge_means_that_a_person_must() -> None:
    def broken(arguments: Mapping[str, object]) -> bool:
        return arguments["country"] == "NO"

    def vague(arguments: Mapping[str, object]) -> bool:
        return arguments.get("country")  # type: ignore[return-value] # that is the point

    assert tool(get_weather, requires_approval=broken).gate({}) == Gate(
        required=True, reason="the approval predicate raised KeyError"
    )
    assert tool(get_weather, requires_approval=vague).gate({}).required


def test_a_predicate_cannot_change_what_will_run() -> None:
    def meddling(arguments: Mapping[str, object]) -> bool:
        assert isinstance(arguments, dict)
        arguments["cities"].append("Rome")
        return False

    arguments: dict[str, list[str]] = {"cities": ["Oslo"]}
    assert not tool(get_weather, requires_approval=meddling).gate(arguments).required
    assert arguments == {"cities": ["Oslo"]}


def properties(made: Tool[..., object]) -> Mapping[str, object]:
    found = made.parameters["properties"]
    assert isinstance(found, dict)
    return found
