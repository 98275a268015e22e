"""Where two things meet: a session and a hook that fails, a fork and a new definition, and so on."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import attrs
import pytest
from tests.agents.hooking import AfterTool, BeforeTool
from tests.agents.office import World, asks, of, office, pending, until
from tests.agents.test_sub_agents import agent, scripted

from trouper import (
    DeadlineExceeded,
    EditMessage,
    Limits,
    Raise,
    RunCancelled,
    RunFailed,
    SessionError,
    SubmitOptions,
    WhatIf,
    tool,
)
from trouper.core.events import ActionReplanned, ActionStarted, BudgetRefused
from trouper.core.fork import Writes
from trouper.core.limits import OnLimit
from trouper.hooks._hook import Asked
from trouper.testing import call, calls


async def test_a_session_goes_on_behind_a_turn_that_a_hook_failed_with_its_calls_open(tmp_path: Path) -> None:
    def fail(*_: object) -> Asked:
        raise RuntimeError("not today")

    for number, kind in enumerate((BeforeTool, AfterTool)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with (
            office(folder, [asks(("add", {"n": 1}), ("add", {"n": 2})), "fine"], lambda w: [w.adder()]) as desk,
            desk.open(attrs.evolve(desk.agent(), hooks=[kind(fail)])) as runtime,
        ):
            first = await runtime.session("desk", "s").send("go")
            with pytest.raises(RunFailed, match="not today"):
                await first.wait()
            second = await runtime.session("desk", "s").send("and now?")
            assert (await second.wait()).output == "fine"


async def test_a_fork_stays_contained_under_a_new_definition(tmp_path: Path) -> None:
    """A call of a fork that a person was asked about must not become free because its tool has changed."""
    each: tuple[Writes, ...] = ("ask", "block", "simulate")
    for number, writes in enumerate(each):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World(folder / "effects")

        @tool(effect="read_only", requires_approval=True)
        def add(n: int) -> str:
            """Add a number."""
            return f"would add {n}"

        first = world.adder(requires_approval=True) if writes == "ask" else add
        async with office(folder, ["Hello.", asks(("add", {"n": 1})), "Done."], [first], by_turn=False) as desk:
            async with desk.open() as runtime:
                run = await runtime.submit("desk", "hi")
                await run.wait()
                fork = await run.fork(WhatIf([EditMessage(f"{run.id}/input", "Add one.")], writes=writes))
                await pending(runtime)
                await until(runtime, fork.id, "awaiting_approval")
            free = desk.agent(tools=[world.adder(max_result=999)])
            async with desk.open(free) as runtime:
                fork = runtime.run(fork.id)
                await until(runtime, fork.id, "drifted", "awaiting_approval")
                await runtime.adopt(fork.id, by="maria")
                if writes == "ask":
                    (asked,) = await pending(runtime)
                    await runtime.deny(asked.action, by="maria")
                result = await fork.wait()
                assert result.output == "Done."
                assert world.effects == []
                assert await of(fork, ActionStarted) == []
                assert len(await of(fork, ActionReplanned)) <= 1


async def test_several_calls_that_a_tree_cannot_afford_are_refused_as_the_rules_say(tmp_path: Path) -> None:
    either: tuple[OnLimit, ...] = ("raise", "wait")
    for on_limit in either:
        folder = tmp_path / on_limit
        folder.mkdir()
        world = World(folder / "effects")
        three = calls(call("add", n=1), call("add", n=2), call("add", n=3))
        ann = agent("ann", three, "done", tools=[world.adder()])
        top = agent("top", call("ann", input="go"), "Fine.", tools=[ann.as_tool()])
        async with office(folder, done=False) as desk, desk.open(top, ann) as runtime:
            limits = Limits(max_tool_calls=2, on_limit=on_limit)
            run = await runtime.submit("top", "go", limits=limits)
            child = f"{run.id}~0.0"
            if on_limit == "wait":
                await until(runtime, child, "over_budget")
                assert len(world.effects) == 1
                await run.raise_limit(Raise(tool_calls=2))
            assert (await run.wait()).output == "Fine."
            assert len(world.effects) == (3 if on_limit == "wait" else 1)
            (refused,) = await of(runtime.run(child), BudgetRefused)
            assert refused.resource == "tool_calls"
            assert len(scripted(ann).requests) == (2 if on_limit == "wait" else 1)
            # The office checks that replay finds the same.


async def test_a_turn_of_a_session_has_its_deadline(tmp_path: Path) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.2)
    async with (
        office(tmp_path, [asks(("send_email", {"to": "a"})), "second"], lambda w: [w.mailer()]) as desk,
        desk.open() as runtime,
    ):
        session = runtime.session("desk", "s")
        first = await session.send("go")
        await pending(runtime)
        late = await session.send("and then", options=SubmitOptions(deadline=soon))
        with pytest.raises(DeadlineExceeded):
            await late.wait()
        (asked,) = await pending(runtime)
        await runtime.deny(asked.action, by="maria")
        assert (await first.wait()).output == "second"
        # Its turn never came, and it has no history to go on from.
        with pytest.raises(SessionError, match="turn had not come"):
            await runtime.extend(late.id, None, by="maria")
        view = await session.state()
        assert [turn.status for turn in view.turns] == ["succeeded", "withdrawn"]
        assert view.active is None


async def test_a_budget_that_is_refused_below_does_not_keep_a_tree_from_being_cancelled(tmp_path: Path) -> None:
    world = World(tmp_path / "effects")
    ann = agent("ann", call("add", n=1), "done", tools=[world.adder()])
    top = agent("top", call("ann", input="go"), "Fine.", tools=[ann.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_model_calls=1, on_limit="wait"))
        await until(runtime, f"{run.id}~0.0", "over_budget")
        await runtime.pause(run.id, by="maria")
        await runtime.cancel(run.id, by="maria")
        with pytest.raises(RunCancelled):
            await run.wait()
        assert [child.status for child in await run.children()] == ["cancelled"]
