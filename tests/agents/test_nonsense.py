"""Values that no type checker would let through, where they come out of a user's code while a run is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from tests.agents.hooking import After, AfterTool, Before, BeforeTool

from trouper import (
    AI,
    Agent,
    DefinitionError,
    EditArguments,
    EditMessage,
    EditReceipt,
    History,
    ModelConfig,
    Principal,
    Run,
    Runtime,
    TrouperError,
    WhatIf,
    tool,
)
from trouper.errors import InvalidValue, RunFailed
from trouper.hooks import Answer, Drop, Fail, Insert, Reply, SetArguments, Spend, UseModel
from trouper.testing import ScriptedModel, call

Given: TypeAlias = Any  # whatever a caller without a type checker may pass


class Mute:
    """No value of ours, and one that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


CYCLE: list[object] = []
CYCLE.append(CYCLE)
ODD: list[Given] = [3, 1.5, b"x", [3], {1: 2}, Mute(), CYCLE, 2**70]


@tool(effect="idempotent_write")
def add(n: int) -> str:
    """Add."""
    return str(n)


def asked(kind: Given, odd: Given) -> list[Given]:
    """What a hook of a kind may return that cannot be meant."""
    return [odd, [odd], Fail(odd), Spend(odd), Spend("small", True), Spend("small", -1), *_asked(kind, odd)]


def _asked(kind: Given, odd: Given) -> list[Given]:
    message = AI("", "hm")
    wrong: Given = [odd]
    if kind is Before:
        return [Insert(odd), Insert(message, odd), UseModel(odd), UseModel("", odd), Reply(odd)]
    if kind is After:
        return [Drop([odd]), Drop((), odd), Insert(message, after=odd)]
    if kind is BeforeTool:
        return [SetArguments(wrong), Answer(odd), Answer("x", odd)]
    return [Answer(odd), Answer("x", ok=odd)]


@pytest.mark.parametrize("kind", [Before, After, BeforeTool, AfterTool])
async def test_an_operation_that_cannot_be_meant_fails_its_run(kind: Given) -> None:
    for odd in ODD:
        for op in asked(kind, odd):
            model = ScriptedModel([call("add", n=1), "done"])
            agent = Agent("desk", model=model, tools=[add], hooks=[kind(lambda *_, op=op: op)])
            async with Runtime.open(None, agents=[agent]) as runtime:
                run = await runtime.submit("desk", "go")
                with pytest.raises(RunFailed, match="hook"):
                    await run.wait()


@pytest.mark.parametrize("odd", ["many", None, -1, 2.5, True, [1], ValueError("no")], ids=repr)
async def test_an_estimate_that_is_no_number_holds_no_conversation_up(odd: Given) -> None:
    def count(_: object) -> Given:
        if isinstance(odd, Exception):
            raise odd
        return odd

    agent = Agent("desk", model=ScriptedModel(["one", "two", "three"]), history=History(40, keep_last=1, count=count))
    async with Runtime.open(None, agents=[agent]) as runtime:
        session = runtime.session("desk", "ann")
        for said, answer in zip(("What?" * 20, "Why?" * 20, "When?" * 20), ("one", "two", "three"), strict=True):
            assert (await (await session.send(said)).wait()).output == answer
        assert len(await session.window()) < len(await session.history())


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        *[(name, odd) for name in ("temperature", "top_p") for odd in ("hot", float("nan"), float("inf"), True, [1])],
        *[("max_tokens", odd) for odd in ("", 0, -1, 1.5, True, [1])],
        *[("seed", odd) for odd in ("1", 1.5, True)],
        *[("stop", odd) for odd in (3, None, [3], [None])],
        *[("tool_choice", odd) for odd in (["add"], {"type": "function"}, 3, True)],
        ("parallel_tool_calls", "yes"),
        ("reasoning_effort", 3),
        *[("extra", odd) for odd in (None, [1], {1: 2}, "x")],
        *[("output", odd) for odd in (int, {"type": "object"})],
    ],
)
def test_settings_of_a_model_call_that_cannot_be_meant(setting: str, given: Given) -> None:
    with pytest.raises(DefinitionError, match=f"model config, {setting}: "):
        ModelConfig(**{setting: given})


def test_one_text_to_stop_at_is_not_its_letters() -> None:
    assert ModelConfig(stop="END") == ModelConfig(stop=("END",))


def doors(runtime: Runtime, run: Run, given: Given) -> list[Callable[[], Given]]:
    """What can be asked for with something of the wrong type."""
    commands, number, name = runtime.commands, given == 3, given == "x"
    version: Given = -1 if number else given
    other: Given = 3 if name else given
    asked: list[Callable[[], Given]] = [
        lambda: runtime.fork(run.id, given),
        lambda: commands.fork(run.id, given),
        lambda: commands.submit(given),
        lambda: commands.send("ann", given),
        lambda: commands.decide(f"{run.id}/0.0", given),
        lambda: run.fork(WhatIf([EditArguments("0.0", given)])),
        lambda: run.stream(lag=given),
        lambda: run.stream(after=version),
        lambda: runtime.run(other).wait(),
        lambda: run.fork(WhatIf([EditMessage(other, "x")])),
        lambda: run.fork(WhatIf([EditReceipt(other, "x")])),
        lambda: commands.revoke_rule(other, by=Principal("maria")),
    ]
    if given is None:
        return asked
    return [
        *asked,
        lambda: runtime.submit("desk", "x", options=given),
        lambda: runtime.submit("desk", "x", limits=given),
        lambda: runtime.session("desk", "ann").send("x", options=given),
        lambda: run.fork(WhatIf(agent=other)),
        lambda: run.fork(WhatIf(at=version)),
    ]


async def test_what_is_of_the_wrong_type_is_refused_at_the_door() -> None:
    agent = Agent("desk", model=ScriptedModel(["ok"]))
    async with Runtime.open(None, agents=[agent]) as runtime:
        run = await runtime.submit("desk", "go")
        await run.wait()
        for given in (None, 3, "x", b"x", [3], {1: 2}, Mute, CYCLE):
            for ask in doors(runtime, run, given):
                with pytest.raises(TrouperError):
                    await ask()
        assert [head.stream async for head in runtime.commands.runs()] == [f"run/{run.id}"]


async def test_a_listener_without_room_is_refused_and_not_the_run_that_it_listens_to() -> None:
    agent = Agent("desk", model=ScriptedModel(["ok"]))
    async with Runtime.open(None, agents=[agent]) as runtime:
        run = await runtime.submit("desk", "go")
        for room in (None, 0, -1, "1", 1.5, True):
            wrong: Given = room
            with pytest.raises(InvalidValue, match="room"):
                run.stream(room=wrong)
        assert (await run.wait()).output == "ok"
