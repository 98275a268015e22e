"""Limits of a run hold for everything below it: parallel sub-agents, refusals, top-ups, restarts."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.office import AnyTool, World, happened, of, office, until
from tests.agents.test_sub_agents import agent, answers, scripted

from trouper import Agent, BudgetExceeded, Limits, Price, Raise, RuntimeOptions, TrouperError
from trouper.core.conversation import Usage
from trouper.core.events import (
    ActionStarted,
    BudgetRaised,
    BudgetRefused,
    ChildFinished,
    ModelRequested,
    ModelResponded,
)
from trouper.core.exchange import ModelConfig
from trouper.runtime.results import RunResult
from trouper.testing import ManualClock, ScriptedModel, call, calls
from trouper.testing._scripted import Step

BOTH = calls(call("ann", input="go"), call("bob", input="go"))


def worker(name: str, tool: AnyTool, *, turns: int = 5, limits: Limits | None = None) -> Agent:
    replies: list[Step] = [call("add", n=turn) for turn in range(turns)]
    return agent(name, *replies, "done", tools=[tool], limits=limits)


@pytest.mark.parametrize("limit", [3, 4, 5])
async def test_two_parallel_children_share_what_their_parent_may_spend(tmp_path: Path, limit: int) -> None:
    """The parent asks once, the children as often as is left, and never is one call made too many."""
    add = World(tmp_path / "effects").adder()
    ann, bob = worker("ann", add), worker("bob", add)
    top = agent("top", BOTH, "That is all.", tools=[ann.as_tool(), bob.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann, bob) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_model_calls=limit))
        with pytest.raises(
            BudgetExceeded, match=f"limit of {limit} model calls is reached with {limit} spent"
        ) as caught:
            await run.wait()
        asked = sum(len(scripted(each).requests) for each in (top, ann, bob))
        assert asked == limit
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert result.spent.model_calls == limit
        assert sum(child.spent.model_calls for child in result.children) == limit - 1
        # Each child's end is an error result to its caller, not its caller's crash.
        assert [status for status, _ in answers(result)] == ["error", "error"]
        assert all("there was not enough left of what it may spend" in text for _, text in answers(result))
        finished = await of(run, ChildFinished)
        assert [(event.status, event.kind) for event in finished] == [("failed", "budget")] * 2
        for child in result.children:
            (refused,) = await of(runtime.run(child.run), BudgetRefused)
            assert (refused.owner, refused.resource, refused.limit, refused.spent) == (
                run.id,
                "model_calls",
                limit,
                limit,
            )
            with pytest.raises(TrouperError, match="was told so: it cannot go on"):
                await runtime.raise_limit(child.run, Raise(model_calls=1))
        await run.raise_limit(Raise(model_calls=1), by="maria", reason="say what you have")
        assert (await run.wait()).output == "That is all."


async def test_a_childs_own_limit_is_its_own_affair(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann = worker("ann", add, limits=Limits(max_steps=3))
    bob = worker("bob", add, limits=Limits(max_model_calls=2))
    top = agent("top", BOTH, "Fine.", tools=[ann.as_tool(), bob.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann, bob) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_model_calls=50))
        result = await run.wait()
        assert result.output == "Fine."
        told = answers(result)
        assert [status for status, _ in told] == ["error", "error"]
        assert "it reached its limit of steps" in told[0][1]
        assert "the limit of 2 model calls is reached" in told[1][1]
        assert [event.kind for event in await of(run, ChildFinished)].count("step_limit") == 1
        assert await of(run, BudgetRefused) == []


async def test_tools_tokens_and_single_tools_are_shared_too(tmp_path: Path) -> None:
    world = World(tmp_path / "effects")
    add = world.adder()
    ann, bob = worker("ann", add), worker("bob", add)
    top = agent("top", BOTH, "Fine.", tools=[ann.as_tool(), bob.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann, bob) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(tool_calls={"add": 3}))
        assert (await run.wait()).output == "Fine."
        # Nobody fails by that: each child hears that it may not, and goes on.
        assert len(world.effects) == 3
        assert (await run.result()).spent.by_tool == {"ann": 1, "bob": 1, "add": 3}
        assert {child.status for child in (await run.result()).children} == {"succeeded"}

        again = await runtime.submit("top", "go", limits=Limits(max_tool_calls=5))
        result = await again.wait()
        # The two calls of sub-agents count, and three of theirs. The parent wants no more of them, and may end.
        assert (len(world.effects), result.spent.tool_calls, result.output) == (6, 5, "Fine.")
        assert {child.status for child in result.children} == {"failed"}


async def test_children_that_wait_for_a_top_up_go_on_when_it_comes_at_the_root(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann, bob = worker("ann", add, turns=1), worker("bob", add, turns=1)
    top = agent("top", BOTH, "Fine.", tools=[ann.as_tool(), bob.as_tool()])
    async with office(tmp_path, done=False) as desk:
        async with desk.open(top, ann, bob) as runtime:
            run = await runtime.submit("top", "go", limits=Limits(max_model_calls=3, on_limit="wait"))
            for child in ("0.0", "0.1"):
                await until(runtime, f"{run.id}~{child}", "over_budget")
            assert (await run.result()).status == "waiting_for_child"
            assert sum(len(scripted(each).requests) for each in (top, ann, bob)) == 3
        async with desk.open(top, ann, bob) as runtime:
            run = runtime.run(run.id)
            for child in ("0.0", "0.1"):
                assert (await runtime.run(f"{run.id}~{child}").result()).status == "over_budget"
            with pytest.raises(TrouperError, match="no limit of model calls"):
                await runtime.raise_limit(f"{run.id}~0.0", Raise(model_calls=1))
            await run.raise_limit(Raise(model_calls=2), by="maria", reason="go on")
            state = await until(runtime, run.id, "over_budget")
            assert state.spent.model_calls == 5
            raised = await of(runtime.run(f"{run.id}~0.0"), BudgetRaised)
            assert [event.owner for event in raised] == [run.id]
            await run.raise_limit(Raise(model_calls=1), by="maria")
            result = await run.wait()
            assert (result.output, result.spent.model_calls) == ("Fine.", 6)


async def test_a_grandchild_is_held_to_every_limit_above_it(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann = worker("ann", add)
    mid = agent("mid", call("ann", input="go"), "mid done", tools=[ann.as_tool()], limits=Limits(max_model_calls=3))
    top = agent("top", call("mid", input="go"), "Fine.", tools=[mid.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, mid, ann) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_model_calls=100))
        result = await run.wait()
        assert result.output == "Fine."
        assert (len(scripted(ann).requests), len(scripted(mid).requests)) == (2, 1)
        (refused,) = await of(runtime.run(f"{run.id}~0.0~0.0"), BudgetRefused)
        assert refused.owner == f"{run.id}~0.0"
        assert result.spent.model_calls == 5


async def test_a_last_request_of_a_child_is_not_made_at_its_parents_cost(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann = worker("ann", add, limits=Limits(max_model_calls=1, on_limit="finish"))
    top = agent("top", call("ann", input="go"), "Fine.", tools=[ann.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_model_calls=2))
        with pytest.raises(BudgetExceeded):
            await run.wait()
        assert (len(scripted(top).requests), len(scripted(ann).requests)) == (1, 1)


async def test_tokens_of_children_are_reserved_against_the_whole(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann, bob = worker("ann", add), worker("bob", add)
    top = agent("top", BOTH, "Fine.", tools=[ann.as_tool(), bob.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann, bob) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_tokens=100_000))
        result = await run.wait()
        assert result.output == "Fine."
        assert result.spent.tokens == 15 * result.spent.model_calls
        for name in ("", "~0.0", "~0.1"):
            requested = await of(runtime.run(run.id + name), ModelRequested)
            assert all(event.reserve is not None and event.reserve.output_tokens == 4096 for event in requested)


async def test_a_tree_without_shared_limits_reserves_and_records_nothing(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann, bob = worker("ann", add), worker("bob", add)
    top = agent("top", BOTH, "Fine.", tools=[ann.as_tool(), bob.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann, bob) as runtime:
        run = await runtime.submit("top", "go")
        result = await run.wait()
        assert (result.spent.model_calls, result.spent.tool_calls) == (14, 12)
        assert result.spent.by_tool == {"ann": 1, "bob": 1, "add": 10}
        assert [event.reserve for event in await of(runtime.run(f"{run.id}~0.0"), ModelRequested)] == [None] * 6


async def test_what_others_have_reserved_is_waited_for_and_not_refused(tmp_path: Path) -> None:
    """The tokens do for both children one after the other, and not for what both might take at once."""
    add = World(tmp_path / "effects").adder()
    both = [attrs.evolve(worker(name, add, turns=2), config=ModelConfig(max_tokens=1000)) for name in ("ann", "bob")]
    top = attrs.evolve(
        agent("top", BOTH, "Fine.", tools=[each.as_tool() for each in both]), config=ModelConfig(max_tokens=1000)
    )
    async with office(tmp_path, done=False) as desk, desk.open(top, *both) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_tokens=1700))
        result = await run.wait()
        assert (result.output, result.spent.tokens) == ("Fine.", 15 * 8)
        out = 0
        most = 0
        events = [event for name in ("~0.0", "~0.1") for event in await runtime.run(run.id + name).events()]
        for _, event in sorted(events, key=lambda entry: entry[0].position):
            out += isinstance(event, ModelRequested) - isinstance(event, ModelResponded)
            most = max(most, out)
        # Never both at once.
        assert most == 1


async def test_forty_children_at_once_come_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann = worker("ann", add, turns=1)
    top = agent("top", calls(*(call("ann", input=str(n)) for n in range(40))), "Fine.", tools=[ann.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_model_calls=61))
        with pytest.raises(BudgetExceeded) as caught:
            await run.wait()
        assert len(scripted(ann).requests) == 60
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert result.spent.model_calls == 61
        statuses = [child.status for child in result.children]
        assert statuses.count("succeeded") == 20


async def test_when_the_time_of_a_run_is_up_all_below_it_stop_too(tmp_path: Path) -> None:
    clock = ManualClock()
    hang = World(tmp_path / "effects").hanger(effect="read_only")
    ann = agent("ann", call("hang", n=1), "done", tools=[hang])
    top = agent("top", call("ann", input="go"), "Fine.", tools=[ann.as_tool()])
    async with office(tmp_path, done=False, clock=clock) as desk, desk.open(top, ann) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_seconds=60))
        await happened(runtime, runtime.run(f"{run.id}~0.0"), ActionStarted)
        clock.advance(60)
        with pytest.raises(BudgetExceeded, match="the limit of 60 seconds") as caught:
            await run.wait()
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert [child.status for child in result.children] == ["cancelled"]
        assert [status for status, _ in answers(result)] == ["error"]
        await run.raise_limit(Raise(seconds=5))
        assert (await run.wait()).output == "Fine."


async def test_a_child_that_waits_for_a_person_too_is_told_of_a_top_up(tmp_path: Path) -> None:
    world = World(tmp_path / "effects")
    asking = calls(call("send_email", to="a"), call("add", n=1), call("add", n=2))
    ann = agent("ann", asking, "done", tools=[world.mailer(), world.adder()])
    top = agent("top", call("ann", input="go"), "Fine.", tools=[ann.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top, ann) as runtime:
        run = await runtime.submit("top", "go", limits=Limits(max_tool_calls=2, on_limit="wait"))
        child = runtime.run(f"{run.id}~0.0")
        await happened(runtime, child, BudgetRefused)
        await until(runtime, child.id, "awaiting_approval")
        assert world.effects == ["add 1"]
        await run.raise_limit(Raise(steps=1))
        assert await of(child, BudgetRaised) == []
        await run.raise_limit(Raise(tool_calls=2), by="maria")
        await happened(runtime, child, ActionStarted, 2)
        assert [event.owner for event in await of(child, BudgetRaised)] == [run.id]
        (asked,) = await runtime.approvals()
        await runtime.approve(asked.action, by="maria")
        assert (await run.wait()).output == "Fine."
        assert world.effects == ["add 1", "add 2", "mail a"]


async def test_what_a_child_did_not_tell_or_lost_counts_against_the_whole(tmp_path: Path) -> None:
    """Unknown is never nothing: a reply without usage counts as estimated, a lost request as reserved."""

    async def hang(_: object) -> str:
        await trio.sleep_forever()
        raise AssertionError

    def team(*replies: Step) -> Agent:
        mute = attrs.evolve(agent("ann"), model=ScriptedModel(["x" * 400], usage=Usage(), name="mute"))
        return agent("top", BOTH, "Fine.", tools=[mute.as_tool(), agent("bob", *replies).as_tool()])

    limits = Limits(max_tokens=50_000)
    async with office(tmp_path, done=False) as desk:
        async with desk.open(team(hang), options=RuntimeOptions(drain=0.05)) as runtime:
            run = await runtime.submit("top", "go", limits=limits)
            await until(runtime, f"{run.id}~0.0", "succeeded")
            await happened(runtime, runtime.run(f"{run.id}~0.1"), ModelRequested)
        async with desk.open(team("found")) as runtime:
            result = await runtime.run(run.id).wait()
            ((mute,), (lost, _)) = [await of(runtime.run(run.id + name), ModelRequested) for name in ("~0.0", "~0.1")]
            assert mute.reserve is not None
            assert lost.reserve is not None
            ann, bob = (child.spent for child in result.children)
            assert (ann.input_tokens, ann.unknown, ann.assumed_tokens) == (0, 1, mute.reserve.input_tokens + 104)
            assert (bob.unknown, bob.assumed_tokens, bob.model_calls) == (1, lost.reserve.tokens, 1)
            assert result.spent.unknown == 2
            assert result.spent.assumed_tokens == ann.assumed_tokens + bob.assumed_tokens
            assert result.spent.tokens == 15 * 3 + result.spent.assumed_tokens


async def test_children_share_what_may_be_paid_and_one_without_a_price_is_not_asked(tmp_path: Path) -> None:
    add = World(tmp_path / "effects").adder()
    ann, bob, eve = (
        attrs.evolve(worker(name, add), config=ModelConfig(max_tokens=10)) for name in ("ann", "bob", "eve")
    )
    three = calls(call("ann", input="go"), call("bob", input="go"), call("eve", input="go"))
    top = attrs.evolve(
        agent("top", three, "Fine.", tools=[each.as_tool() for each in (ann, bob, eve)]),
        config=ModelConfig(max_tokens=10),
    )
    price = Price("p", 1, 10)
    prices = {f"model-of-{name}": price for name in ("top", "ann", "bob")}
    limits = Limits(max_cost=900, on_limit="finish")
    options = RuntimeOptions(prices=prices, drain=0.5)
    async with office(tmp_path, done=False) as desk, desk.open(top, options=options) as runtime:
        run = await runtime.submit("top", "go", limits=limits)
        result = await run.wait()
        asked = sum(len(scripted(each).requests) for each in (ann, bob))
        assert asked >= 4
        assert len(scripted(eve).requests) == 0
        # The last request comes on top of what the tree may spend.
        assert result.spent.cost == 60 * (asked + len(scripted(top).requests))
        assert sum(child.spent.cost for child in result.children) + 60 <= 900
        (refused,) = await of(runtime.run(f"{run.id}~0.2"), BudgetRefused)
        assert (refused.resource, refused.unpriced, refused.owner) == ("cost", True, run.id)
