"""Calls that do not fit their tool: nothing runs, and the model is told what to mend, by its place."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Annotated, NewType, TypedDict
from uuid import UUID

import attrs
import pydantic
import pytest
from tests.agents.office import asks, of, office, pending, told

from trouper import ToolContext, ToolMessage, tool
from trouper.core.conversation import Value
from trouper.core.events import ActionPlanned, ActionStarted
from trouper.testing import Reply, tc
from trouper.testing._answers import Answer

ran: list[object] = []


@tool(effect="idempotent_write")
def store(value: int, tags: list[str] | None = None) -> str:
    """Store a value."""
    ran.append(value)
    return f"stored {value}"


@tool(effect="idempotent_write")
async def charge(amount: int, ctx: ToolContext) -> str:
    """Charge an amount."""
    ran.append(ctx.effect_key)
    return f"charged {amount}"


BAD = [
    pytest.param("store", '{"value": "x"}', ["value: ", "integer"], id="text for an int"),
    pytest.param("store", "{}", ["value: is missing"], id="missing"),
    pytest.param("store", '{"value": 1, "colour": "red"}', ["colour: "], id="extra"),
    pytest.param("store", '{"value": 1, "tags": ["a", 2]}', ["tags[1]: ", "string"], id="deep"),
    pytest.param("store", '{"value": 1', ["could not be read", "line 1, column 12"], id="malformed"),
    pytest.param("store", '{"value": NaN}', ["JSON"], id="not a number"),
    pytest.param("store", "", ["value: is missing"], id="empty"),
    pytest.param("store", "null", ["JSON object"], id="null"),
    pytest.param("store", "[1]", ["JSON object"], id="a list"),
    pytest.param("shred", '{"value": 1}', ["There is no tool called 'shred'. Tools: store, charge."], id="unknown"),
    pytest.param("", "{}", ["There is no tool called ''"], id="no name"),
    pytest.param("charge", '{"amount": 1, "ctx": {"run": "mine"}}', ["ctx: "], id="host context"),
    pytest.param("charge", '{"amount": 1, "effect_key": "mine"}', ["effect_key: "], id="effect key"),
]


@pytest.mark.parametrize(("name", "arguments", "parts"), BAD)
async def test_a_bad_call_becomes_an_error_that_says_what_to_mend(
    tmp_path: Path, name: str, arguments: str, parts: list[str]
) -> None:
    ran.clear()
    good = asks(("store", {"value": 7}))
    script: list[Answer] = [Reply(calls=[tc("c", name, arguments)]), good, "Stored."]
    async with office(tmp_path, script, [store, charge]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Store it.")
        result = await run.wait()
        refused, stored = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert refused.status == "error"
        assert isinstance(refused.content, str)
        for part in parts:
            assert part in refused.content
        assert (stored.status, stored.content) == ("ok", "stored 7")
        assert ran == [7]
        assert [event.action for event in await of(run, ActionStarted)] == ["1.0"]
        planned = await of(run, ActionPlanned)
        assert (planned[0].gate, planned[0].tool) == ("refused", name)
        assert told(desk.stub.requests[1].messages) == [refused.content]
        if name:
            # What the model really wrote stays in the journal; what goes out is valid.
            assert [call.arguments for call in result.messages[1].tool_calls] == [arguments]  # type: ignore[union-attr]  # an AI message


async def test_good_calls_beside_bad_ones_run_and_every_one_is_answered_in_its_place(tmp_path: Path) -> None:
    ran.clear()
    calls = [tc("c", "store", '{"value": 1}'), tc("c", "store", '{"value": "x"}'), tc("c", "store", '{"value": 3}')]
    async with office(tmp_path, [Reply(calls=calls), "Two of three."], [store]) as desk, desk.open() as runtime:
        result = await (await runtime.submit("desk", "Store them.")).wait()
        answers = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [message.status for message in answers] == ["ok", "error", "ok"]
        assert sorted(map(str, ran)) == ["1", "3"]


async def test_what_the_host_gives_a_tool_the_model_neither_sees_nor_gives(tmp_path: Path) -> None:
    seen: list[ToolContext] = []

    @tool(effect="idempotent_write", timeout=10)
    async def look(ctx: ToolContext) -> str:
        """Look around."""
        seen.append(ctx)
        return ctx.run

    async with office(tmp_path, [asks(("look", {})), "Seen."], [look]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Look.", by="maria")
            await run.wait()
        (context,) = seen
        assert (context.run, context.action, context.effect_key) == (run.id, f"{run.id}/0.0", f"{run.id}/0.0")
        assert (context.attempt, context.agent, context.principal) == (1, "desk", "maria")
        assert context.deadline is not None
        tools = desk.stub.requests[0].body["tools"]
        assert "ctx" not in str(tools)


class Color(enum.Enum):
    RED = "red"


@attrs.frozen
class Box:
    size: Decimal
    at: dt.datetime


@dataclasses.dataclass
class Point:
    x: int
    box: Box | None = None


class Entry(TypedDict):
    key: UUID
    points: list[Point]


class Filter(pydantic.BaseModel):
    least: int = 0


UserId = NewType("UserId", int)


async def test_a_call_receives_real_values_also_when_it_was_asked_for_in_another_life(tmp_path: Path) -> None:
    got: list[object] = []

    @tool(effect="idempotent_write", requires_approval=True)
    def take(
        color: Color,
        day: dt.date,
        entry: Entry,
        condition: Filter,
        user: UserId,
        raw: bytes,
        pair: tuple[int, str],
        names: set[str],
        limit: Annotated[int, pydantic.Field(ge=1)] = 3,
        note: str | None = None,
    ) -> Decimal:
        """Take all kinds."""
        got.extend([color, day, entry, condition, user, raw, pair, names, limit, note])
        return Decimal("1.50")

    sent: dict[str, Value] = {
        "color": "red",
        "day": "2026-11-30",
        "entry": {
            "key": str(UUID(int=5)),
            "points": [{"x": 1, "box": {"size": "1.10", "at": "2026-11-30T12:00:00Z"}}],
        },
        "condition": {"least": 2},
        "user": 7,
        "raw": "ab",
        "pair": [1, "a"],
        "names": ["a", "a"],
    }
    async with office(tmp_path, [asks(("take", sent)), "Taken."], [take]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Take.")
            (waiting,) = await pending(runtime)
            assert got == []
        async with desk.open() as runtime:
            await runtime.approve(waiting.action, by="maria")
            await runtime.run(run.id).wait()
        box = Box(Decimal("1.10"), dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC))
        expected: list[object] = [
            Color.RED,
            dt.date(2026, 11, 30),
            {"key": UUID(int=5), "points": [Point(1, box)]},
            Filter(least=2),
            7,
            b"ab",
            (1, "a"),
            {"a"},
            3,
            None,
        ]
        assert got == expected
        assert list(map(type, got)) == list(map(type, expected))
        assert told(desk.stub.requests[1].messages) == ["1.50"]
