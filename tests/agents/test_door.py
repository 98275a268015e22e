"""Bad input is refused at the door, with the place of it, and nothing is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.agents.office import asks, office, until

from trouper import (
    AI,
    Agent,
    DefinitionError,
    DriftPolicy,
    EditError,
    Human,
    Limits,
    ModelConfig,
    Principal,
    Runtime,
    RuntimeOptions,
    TrouperError,
    UnknownAction,
    UnknownAgent,
    tool,
)
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel
from trouper.testing._answers import Answer

Given: TypeAlias = Any  # whatever a caller without a type checker may pass

MODEL = ScriptedModel(["Done."])
NAN = float("nan")


class Anything:
    """No value of ours."""


@pytest.mark.parametrize(
    ("option", "given"),
    [
        *[("max_steps", value) for value in (0, -1, 1.5, NAN, True, None, "3")],
        *[("model_attempts", value) for value in (0, 2.0, False)],
        *[("on_limit", value) for value in ("finsh", "", None, ["raise"])],
    ],
)
def test_limits_that_cannot_be_meant(option: str, given: Given) -> None:
    with pytest.raises(DefinitionError, match=f"limits, {option}: "):
        Limits(**{option: given})


@pytest.mark.parametrize(
    ("option", "given"),
    [
        *[("name", value) for value in (None, 5, "two words", "a" * 65)],
        *[("instructions", value) for value in (None, 5, {"a": 1})],
        *[("model", value) for value in (None, "gpt", ScriptedModel, Anything())],
        *[("limits", value) for value in (None, 5, {"max_steps": 3})],
        *[("config", value) for value in (None, {"temperature": 0})],
        *[("tools", value) for value in (None, 5, "x", [print])],
    ],
)
def test_an_agent_of_the_wrong_parts(option: str, given: Given) -> None:
    parts: dict[str, Given] = {"name": "desk", "model": MODEL, option: given}
    with pytest.raises(DefinitionError, match=option if option != "tools" else "tool"):
        Agent(**parts)


@tool
def ping() -> str:
    """Ping."""
    return "pong"


def test_a_tool_alone_is_no_sequence_of_tools() -> None:
    with pytest.raises(DefinitionError, match="sequence of tools, not Tool"):
        Agent("desk", model=MODEL, tools=ping)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("option", "given"),
    [
        *[(name, value) for name in ("drain", "grace") for value in (-1, NAN, None, "5", True)],
        *[("max_active", value) for value in (0, 1.5, None)],
        *[("model_concurrency", value) for value in (0, -1, 2.0, "3")],
        *[("drift", value) for value in (None, "wait")],
        *[("journal", value) for value in (None, "full")],
        ("node", None),
    ],
)
def test_options_that_cannot_be_meant(option: str, given: Given) -> None:
    with pytest.raises(DefinitionError, match=f"runtime option {option}: "):
        RuntimeOptions(**{option: given})


@pytest.mark.parametrize("option", ["contract", "prose"])
def test_a_misspelt_policy(option: str) -> None:
    with pytest.raises(DefinitionError, match=f"drift, {option}: 'adpot'"):
        DriftPolicy(**{option: "adpot"})


async def test_an_agent_that_cannot_be_journaled_is_refused_before_the_journal_is_made(tmp_path: Path) -> None:
    odd = Agent("desk", model=MODEL, config=ModelConfig(extra={"key": Anything()}))  # type: ignore[dict-item]
    for agents, told in (([odd], "agent desk cannot be journaled: .*key"), (["desk"], "'desk' is not an agent")):
        with pytest.raises(DefinitionError, match=told):
            async with Runtime.open(tmp_path / "j.db", agents):  # type: ignore[arg-type]  # that is the point
                pass
    assert not (tmp_path / "j.db").exists()


Ask: TypeAlias = Callable[[Runtime, str], Awaitable[object]]

REFUSED: dict[str, tuple[Ask, type[TrouperError], str]] = {
    "an agent of another type": (lambda runtime, _: runtime.submit(["desk"], "x"), UnknownAgent, "desk"),  # type: ignore[arg-type]
    "no input": (lambda runtime, _: runtime.submit("desk", None), InvalidValue, "input: NoneType"),  # type: ignore[arg-type]
    "one message alone": (lambda runtime, _: runtime.submit("desk", Human("", "x")), InvalidValue, "input: Human"),  # type: ignore[arg-type]
    "a part that is none": (
        lambda runtime, _: runtime.submit("desk", [Human("", [7])]),  # type: ignore[list-item]
        InvalidValue,
        r"input\[0\].content\[0\]: int",
    ),
    "a field that is none": (
        lambda runtime, _: runtime.submit("desk", [Human("", "x", 5)]),  # type: ignore[arg-type]
        InvalidValue,
        r"input\[0\].extra: int",
    ),
    "a call that is none": (
        lambda runtime, _: runtime.submit("desk", [AI("", "x", ["add"])]),  # type: ignore[list-item]
        InvalidValue,
        r"input\[0\].tool_calls\[0\]: str",
    ),
    "an empty command id": (lambda runtime, _: runtime.submit("desk", "x", command_id=""), InvalidValue, "command_id"),
    "a command id of another type": (
        lambda runtime, _: runtime.submit("desk", "x", command_id=5),  # type: ignore[arg-type]
        InvalidValue,
        "command_id: 5",
    ),
    "nobody asks": (lambda runtime, _: runtime.submit("desk", "x", by=""), InvalidValue, "by: is empty"),
    "nobody approves": (
        lambda runtime, call: runtime.approve(call, by=None),  # type: ignore[arg-type]
        InvalidValue,
        "by: NoneType",
    ),
    "nobody by name approves": (lambda runtime, call: runtime.approve(call, by=""), InvalidValue, "by: is empty"),
    "a nameless person denies": (
        lambda runtime, call: runtime.deny(call, by=Principal("")),
        InvalidValue,
        "by: is empty",
    ),
    "nobody settles": (lambda runtime, call: runtime.resolve(call, "applied", by=""), InvalidValue, "by: is empty"),
    "an edit that is a list": (
        lambda runtime, call: runtime.approve(call, by="maria", arguments=["x"]),  # type: ignore[arg-type]
        EditError,
        "is list, not a mapping",
    ),
    "an action of another type": (
        lambda runtime, _: runtime.approve(5, by="maria"),  # type: ignore[arg-type]
        UnknownAction,
        "5 is not an action id",
    ),
    "steps that are no number": (
        lambda runtime, call: runtime.raise_limit(call.partition("/")[0], "3"),  # type: ignore[arg-type]
        TrouperError,
        "not by 3",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_a_running_runtime_refuses_changes_nothing(tmp_path: Path, what: str) -> None:
    ask, kind, told = REFUSED[what]
    script: list[Answer] = [asks(("send_email", {"to": "a"})), "Done."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write.")
        await until(runtime, run.id, "awaiting_approval")
        before = await runtime.journal.position()
        with pytest.raises(kind, match=told):
            await ask(runtime, f"{run.id}/0.0")
        assert await runtime.journal.position() == before
        await runtime.approve(f"{run.id}/0.0", by="maria")
        assert (await run.wait()).output == "Done."
