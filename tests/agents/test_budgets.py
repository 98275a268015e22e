"""Limits of calls, tokens, cost and time: looked at before the spend, and what comes of them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from tests.agents.office import World, asks, happened, of, office, told, until
from tests.agents.test_limits import adding

from trouper import (
    BudgetExceeded,
    DefinitionError,
    IdempotencyConflict,
    Limits,
    Price,
    Principal,
    Raise,
    RunFailed,
    RuntimeOptions,
    Task,
    TrouperError,
)
from trouper.core.conversation import Usage
from trouper.core.events import (
    ActionStarted,
    BudgetRaised,
    BudgetRefused,
    BudgetWarned,
    ModelFailed,
    ModelLost,
    ModelRequested,
    ModelResponded,
)
from trouper.core.exchange import ModelConfig
from trouper.runtime.results import RunResult
from trouper.testing import ManualClock, Reply, Status, Wait
from trouper.testing._answers import Answer

PRICE = Price("m 2026-11-01", 3, 15, cached=1)


def result_of(error: BudgetExceeded) -> RunResult:
    assert isinstance(error.result, RunResult)
    return error.result


# ---- model calls


async def test_so_many_model_calls_and_no_more(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.", limits=Limits(max_model_calls=3))
        with pytest.raises(BudgetExceeded, match="the limit of 3 model calls is reached with 3 spent") as caught:
            await run.wait()
        assert (caught.value.resource, caught.value.limit, caught.value.spent) == ("model_calls", 3, 3)
        assert caught.value.owner == run.id
        # What the last reply asked for was within the limits.
        assert desk.world.effects == ["add 0", "add 1", "add 2"]
        assert len(desk.stub.requests) == 3
        spent = result_of(caught.value).spent
        assert (spent.model_calls, spent.tool_calls, spent.by_tool) == (3, 3, {"add": 3})
        assert (spent.tokens, spent.unknown, spent.unpriced) == (45, 0, 3)
        await run.raise_limit(Raise(model_calls=3), by="maria", reason="worth it")
        with pytest.raises(BudgetExceeded, match="limit of 6 model calls"):
            await run.wait()
        assert len(desk.stub.requests) == 6
        assert [event.spent for event in await of(run, BudgetRefused)] == [3, 6]
        # Who allowed it and why is on record.
        (raised,) = await of(run, BudgetRaised)
        assert isinstance(raised.by, Principal)
        assert (raised.by.id, raised.reason, raised.model_calls) == ("maria", "worth it", 3)


async def test_an_answer_with_the_last_call_is_taken(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), "Done."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        limits = Limits(max_model_calls=2, max_tool_calls=1, tool_calls={"add": 1})
        run = await runtime.submit("desk", "Go.", limits=limits)
        assert (await run.wait()).output == "Done."
        assert await of(run, BudgetRefused) == []


async def test_a_failed_request_is_no_call_of_its_own(tmp_path: Path) -> None:
    clock = ManualClock()
    script: list[Answer] = [Status(500), asks(("add", {"n": 1})), Status(429), "Done."]
    adder = [World(tmp_path / "effects").adder()]
    async with office(tmp_path, script, adder, by_turn=False, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_model_calls=2))
        for failures in (1, 2):
            await happened(runtime, run, ModelFailed, failures)
            clock.advance(60)
        assert (await run.wait()).spent.model_calls == 2


async def test_at_a_limit_of_model_calls_a_run_can_finish(tmp_path: Path) -> None:
    limits = Limits(max_model_calls=2, on_limit="finish")
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        result = await (await runtime.submit("desk", "Go on.", limits=limits)).wait()
        assert (result.output, result.status) == ("Stopped after 2.", "succeeded")
        assert desk.world.effects == ["add 0", "add 1"]
        # The last request comes on top.
        assert (len(desk.stub.requests), result.spent.model_calls) == (3, 3)
        last = desk.stub.requests[-1].messages[-1]["content"]
        assert (
            last
            == "The limit of model calls is reached and no more tools can be called. Answer now, with what you have."
        )


async def test_a_run_can_wait_for_more_in_the_journal_alone(tmp_path: Path) -> None:
    limits = Limits(max_model_calls=1, on_limit="wait")
    script: list[Answer] = [asks(("add", {"n": 1})), "Done."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.", limits=limits)
            state = await until(runtime, run.id, "over_budget")
            assert state.budget.refused is not None
            assert state.budget.refused.resource == "model_calls"
            while runtime.active:
                await trio.testing.wait_all_tasks_blocked(0.01)
        # Somebody else, in another process.
        async with desk.commands() as commands:
            await commands.raise_limit(run.id, Raise(model_calls=1), by=Principal("maria"), reason="go on")
        async with desk.open() as runtime:
            assert (await runtime.run(run.id).wait()).output == "Done."


async def test_steps_can_be_waited_for_too_and_the_calls_are_then_made(tmp_path: Path) -> None:
    limits = Limits(max_steps=1, on_limit="wait")
    script: list[Answer] = [asks(("add", {"n": 1})), "Done."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=limits)
        await until(runtime, run.id, "over_budget")
        assert desk.world.effects == []
        await run.raise_limit(1, by="maria")
        state = await until(runtime, run.id, "over_budget")
        assert (state.steps, desk.world.effects) == (2, ["add 1"])
        await run.raise_limit(1, by="maria")
        assert (await run.wait()).output == "Done."


# ---- tool calls


async def test_a_limit_in_the_middle_of_a_batch_closes_the_calls_beyond_it(tmp_path: Path) -> None:
    many = asks(("add", {"n": 1}), ("add", {"n": 2}), ("add", {"n": 3}))
    script: list[Answer] = [many, "Two will do."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Add up.", limits=Limits(max_tool_calls=2))
        with pytest.raises(BudgetExceeded, match="limit of 2 tool calls") as caught:
            await run.wait()
        assert sorted(desk.world.effects) == ["add 1", "add 2"]
        messages = result_of(caught.value).messages
        assert [message.content for message in messages[2:]] == [
            "added 1",
            "added 2",
            "Not started: the limit of 2 tool calls is reached.",
        ]
        with pytest.raises(TrouperError, match="is at its limit of tool calls: raise that to let it go on"):
            await run.raise_limit(5)
        with pytest.raises(TrouperError, match="is at its limit of tool calls: raise the limit"):
            await runtime.resume(run.id)
        await run.raise_limit(Raise(tool_calls=3))
        assert (await run.wait()).output == "Two will do."
        assert told(desk.stub.requests[-1].messages)[-1] == "Not started: the limit of 2 tool calls is reached."


async def test_calls_beyond_a_limit_wait_for_more_and_are_made_then(tmp_path: Path) -> None:
    many = asks(("add", {"n": 1}), ("add", {"n": 2}), ("add", {"n": 3}))
    script: list[Answer] = [many, "Done."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Add up.", limits=Limits(max_tool_calls=1, on_limit="wait"))
        await until(runtime, run.id, "over_budget")
        assert desk.world.effects == ["add 1"]
        await run.raise_limit(Raise(tool_calls=1))
        await happened(runtime, run, ActionStarted, 2)
        await until(runtime, run.id, "over_budget")
        assert desk.world.effects == ["add 1", "add 2"]
        await run.raise_limit(Raise(tool_calls=1))
        assert (await run.wait()).output == "Done."
        assert told(desk.stub.requests[-1].messages) == ["added 1", "added 2", "added 3"]


async def test_a_tools_own_limit_refuses_that_tool_alone(tmp_path: Path) -> None:
    first = asks(("add", {"n": 1}), ("write_file", {"path": "a"}), ("add", {"n": 2}), ("write_file", {"path": "b"}))
    script: list[Answer] = [first, asks(("add", {"n": 3}), ("write_file", {"path": "c"})), "Done."]
    world = World(tmp_path / "effects")
    async with office(tmp_path, script, [world.adder(), world.writer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(tool_calls={"add": 1}))
        assert (await run.wait()).output == "Done."
        assert sorted(world.effects) == ["add 1", "write a ", "write b ", "write c "]
        refused = "Not started: add may be called 1 time in all. Go on without it."
        assert told(desk.stub.requests[-1].messages) == [
            "added 1",
            "wrote a",
            refused,
            "wrote b",
            refused,
            "wrote c",
        ]


async def test_nobody_is_asked_to_approve_what_cannot_be_afforded(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"})), "Done."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(tool_calls={"send_email": 0}))
        assert (await run.wait()).output == "Done."
        assert desk.world.effects == []


# ---- tokens and cost


async def test_tokens_are_reserved_before_and_settled_after(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        agent = attrs.evolve(desk.agent(limits=Limits(max_tokens=300)), config=ModelConfig(max_tokens=20))
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Go on.")
            with pytest.raises(BudgetExceeded, match="limit of 300 tokens is reached") as caught:
                await run.wait()
            requested = await of(run, ModelRequested)
            replies = len(await of(run, ModelResponded))
            assert replies > 3
            assert [event.reserve.output_tokens for event in requested if event.reserve] == [20] * replies
            assert caught.value.spent == 15 * replies <= 300
            refused = (await of(run, BudgetRefused))[0]
            assert (refused.resource, refused.limit, refused.spent) == ("tokens", 300, 15 * replies)
            assert result_of(caught.value).spent.assumed_tokens == 0
            await run.raise_limit(Raise(tokens=300))
            with pytest.raises(BudgetExceeded, match="limit of 600 tokens"):
                await run.wait()
            assert len(await of(run, ModelResponded)) > replies


async def test_unknown_usage_is_never_zero(tmp_path: Path) -> None:
    script: list[Answer] = [Reply("x" * 400, usage=None)]
    async with office(tmp_path, script) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.", limits=Limits(max_tokens=5000))
        result = await run.wait()
        # 100 for the text, 4 for the message; the request was estimated before it was sent.
        requested = (await of(run, ModelRequested))[0]
        assert requested.reserve is not None
        assert result.spent.assumed_tokens == requested.reserve.input_tokens + 104
        assert (result.spent.unknown, result.spent.input_tokens) == (1, 0)
        assert result.spent.tokens > 104


async def test_cost_is_reckoned_by_the_price_entry_and_journaled(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), "Done."]
    options = RuntimeOptions(prices={"m": PRICE}, drain=0.5)
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_cost=1_000_000))
        result = await run.wait()
        replies = await of(run, ModelResponded)
        assert [(event.price, event.cost) for event in replies] == [("m 2026-11-01", 10 * 3 + 5 * 15)] * 2
        assert (result.spent.cost, result.spent.unpriced) == (210, 0)


async def test_cost_is_reserved_before_and_never_above_the_limit_over_restarts(tmp_path: Path) -> None:
    options = RuntimeOptions(prices={"m": PRICE}, drain=0.5)
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        agent = attrs.evolve(desk.agent(limits=Limits(max_cost=1500)), config=ModelConfig(max_tokens=20))
        async with desk.open(agent, options=options) as runtime:
            run = await runtime.submit("desk", "Go on.")
            with pytest.raises(BudgetExceeded, match="limit of 1500") as caught:
                await run.wait()
            replies = len(await of(run, ModelResponded))
            assert replies > 3
            assert (caught.value.resource, caught.value.limit, caught.value.spent) == ("cost", 1500, 105 * replies)
            requested = [event.reserve for event in await of(run, ModelRequested)]
            assert all(reserve is not None and reserve.cost > 20 * 15 for reserve in requested)
            # No request went out whose reserve did not fit.
            fitting = [105 * place + reserve.cost for place, reserve in enumerate(requested) if reserve is not None]
            assert max(fitting) <= 1500
        async with desk.open(agent, options=options) as runtime:
            run = runtime.run(run.id)
            await run.raise_limit(Raise(cost=500), by="maria", reason="worth it")
            with pytest.raises(BudgetExceeded, match="limit of 2000") as caught:
                await run.wait()
            assert len(await of(run, ModelResponded)) > replies
            assert 105 * len(await of(run, ModelResponded)) == result_of(caught.value).spent.cost <= 2000


async def test_without_a_limit_cost_is_reckoned_all_the_same_and_nothing_is_reserved(tmp_path: Path) -> None:
    options = RuntimeOptions(prices={"m": PRICE}, drain=0.5)
    async with office(tmp_path, ["Done."]) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "Go.")
        assert (await run.wait()).spent.cost == 105
        assert [event.reserve for event in await of(run, ModelRequested)] == [None]


async def test_a_limit_of_cost_needs_a_price(tmp_path: Path) -> None:
    async with office(tmp_path) as desk:
        with pytest.raises(DefinitionError, match="desk has a limit of cost, but there is no price for its model m"):
            async with desk.open(desk.agent(limits=Limits(max_cost=5))):
                raise AssertionError
        async with desk.open() as runtime:
            with pytest.raises(DefinitionError, match="there is no price for its model m"):
                await runtime.submit("desk", "Go.", limits=Limits(max_cost=5))


async def test_cached_tokens_have_a_price_of_their_own() -> None:
    assert PRICE.cost(10, 5, 4) == 6 * 3 + 4 * 1 + 5 * 15
    assert Price("p", 3, 15).cost(10, 5, 4) == 105
    assert Usage(10, 5, 4).cached_tokens == 4
    with pytest.raises(DefinitionError, match=r"price, output: 1\.5 is not a whole number"):
        Price("p", 1, 1.5)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="price, id"):
        Price("", 1, 1)


async def test_what_a_lost_request_had_reserved_stays_held(tmp_path: Path) -> None:
    script: list[Answer] = [Wait(trio.Event(), "never"), "Done."]
    limits = Limits(max_tokens=50_000, max_cost=900_000)
    options = RuntimeOptions(prices={"m": PRICE}, drain=0.05)
    async with office(tmp_path, script, by_turn=False) as desk:
        async with desk.open(options=options) as runtime:
            run = await runtime.submit("desk", "Go.", limits=limits)
            await desk.stub.wait_requests(1)
        async with desk.open(options=options) as runtime:
            run = runtime.run(run.id)
            result = await run.wait()
            assert len(await of(run, ModelLost)) == 1
            first, second = await of(run, ModelRequested)
            assert first.reserve is not None
            assert second.reserve is not None
            assert result.spent.assumed_tokens == first.reserve.tokens
            assert result.spent.cost == first.reserve.cost + 105
            # One call, asked for twice.
            assert (result.spent.model_calls, result.spent.unknown) == (1, 1)


async def test_what_a_failed_request_had_reserved_is_given_back(tmp_path: Path) -> None:
    script: list[Answer] = [Status(400)]
    async with office(tmp_path, script) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_tokens=50_000))
        with pytest.raises(RunFailed) as caught:
            await run.wait()
        assert isinstance(caught.value.result, RunResult)
        assert caught.value.result.spent.tokens == 0
        assert caught.value.result.spent.model_calls == 0


# ---- time


async def test_when_the_time_is_up_the_run_ends_and_what_is_under_way_with_it(tmp_path: Path) -> None:
    clock = ManualClock()
    script: list[Answer] = [Wait(trio.Event(), "never"), "Done."]
    async with office(tmp_path, script, by_turn=False, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_seconds=60))
        await desk.stub.wait_requests(1)
        clock.advance(59)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await run.result()).status == "running"
        clock.advance(1)
        with pytest.raises(BudgetExceeded, match="the limit of 60 seconds is reached with 60 spent") as caught:
            await run.wait()
        assert (caught.value.resource, caught.value.limit, caught.value.spent) == ("seconds", 60, 60)
        clock.advance(1000)
        await run.raise_limit(Raise(seconds=5))
        assert (await run.wait()).output == "Done."


async def test_time_runs_while_a_person_is_waited_for_and_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    script: list[Answer] = [asks(("send_email", {"to": "a"}), ("hang", {"n": 1})), "Too late."]
    async with office(
        tmp_path, script, lambda world: [world.mailer(), world.hanger(effect="read_only")], clock=clock
    ) as desk:
        limits = Limits(max_seconds=60, on_limit="finish")
        async with desk.open(options=RuntimeOptions(drain=0)) as runtime:
            run = await runtime.submit("desk", "Go.", limits=limits)
            await happened(runtime, run, ActionStarted)
        clock.advance(60)
        async with desk.open() as runtime:
            assert (await runtime.run(run.id).wait()).output == "Too late."
            assert told(desk.stub.requests[-1].messages)[0] == "Not started: the run's time is up."
            last = desk.stub.requests[-1].messages[-1]["content"]
            assert last == "The time limit is reached and no more tools can be called. Answer now, with what you have."


# ---- warnings


async def test_the_model_is_told_once_when_something_runs_out(tmp_path: Path) -> None:
    limits = Limits(max_steps=50, max_model_calls=4, max_tool_calls=100, soft=0.5)
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.", limits=limits)
        with pytest.raises(BudgetExceeded):
            await run.wait()
        warned = await of(run, BudgetWarned)
        assert [(event.resource, event.limit, event.spent) for event in warned] == [("model_calls", 4, 2)]
        told_so = [
            message["content"] for message in desk.stub.requests[-1].messages if "are left" in str(message["content"])
        ]
        assert told_so == ["2 of 4 model calls are spent; 2 are left. Come to an end within that."]
        assert "are left" in str(desk.stub.requests[2].messages[-1]["content"])


# ---- a value


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_model_calls": 0}, "limits, max_model_calls: 0 is neither None nor a whole number of at least 1"),
        ({"max_tokens": True}, "limits, max_tokens: True is neither None nor"),
        ({"max_cost": 1.5}, "limits, max_cost: 1.5 is neither None nor"),
        ({"tool_calls": {"add": -1}}, "limits, tool_calls, add: -1 is not a whole number of at least 0"),
        ({"tool_calls": {"": 1}}, "limits, tool_calls: '' is not the name of a tool"),
        ({"tool_calls": 3}, "limits, tool_calls: give a mapping of tools to numbers, not int"),
        ({"max_seconds": 0}, "limits, max_seconds: 0.0 is neither None nor a number of seconds above 0"),
        ({"max_seconds": float("nan")}, "limits, max_seconds: nan"),
        ({"soft": 1}, "limits, soft: 1 is neither None nor a fraction between 0 and 1"),
        ({"on_limit": "stop"}, "limits, on_limit: 'stop' is neither 'raise', 'finish' nor 'wait'"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        Limits(**wrong)  # type: ignore[arg-type]


async def test_a_limit_throws_nothing_away_where_a_structured_output_is_wanted(tmp_path: Path) -> None:
    """Two turns are allowed, three are asked for; the last of them in the middle of a batch."""
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    batch = asks(("add", {"n": 2}), ("add", {"n": 3}), ("add", {"n": 4}))
    script: list[Answer] = [asks(("add", {"n": 1})), batch, asks(("add", {"n": 5})), '{"sum": 6}']
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        agent = attrs.evolve(desk.agent(), output=schema)
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Add up.", limits=Limits(max_model_calls=2, max_tool_calls=3))
            with pytest.raises(BudgetExceeded) as caught:
                await run.wait()
            result = result_of(caught.value)
            assert sorted(desk.world.effects) == ["add 1", "add 2", "add 3"]
            assert (result.spent.model_calls, result.spent.tool_calls, result.output) == (2, 3, None)
            assert [message.role for message in result.messages] == ["human", "ai", "tool", "ai", *["tool"] * 3]
            assert result.messages[-1].content == "Not started: the limit of 3 tool calls is reached."
        # It goes on in another life, with all that it had.
        async with desk.open(agent) as runtime:
            run = runtime.run(run.id)
            assert (await run.result()).messages == result.messages
            await run.raise_limit(Raise(model_calls=2, tool_calls=1), by="maria")
            assert (await run.wait()).output == {"sum": 6}
            assert desk.world.effects[-1] == "add 5"


def test_limits_that_are_not_set_leave_no_trace_in_a_definition() -> None:
    assert Limits().to_value() == {"max_steps": 50, "on_limit": "raise", "model_attempts": 5}
    assert Limits(7).asked() == [7, "raise", 5]
    assert Limits(max_seconds=60) == Limits(max_seconds=60.0)
    assert Limits(max_seconds=60, tool_calls={"add": 1}).to_value() == {
        **Limits().to_value(),
        "max_seconds": 60.0,
        "tool_calls": {"add": 1},
    }


async def test_a_command_with_other_limits_is_another_command(tmp_path: Path) -> None:
    async with office(tmp_path, ["Done."]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_tokens=5000), command_id="job")
        again = await runtime.submit("desk", "Go.", limits=Limits(max_tokens=5000), command_id="job")
        assert (again.id, again.repeated) == (run.id, True)
        with pytest.raises(IdempotencyConflict):
            await runtime.submit("desk", "Go.", limits=Limits(max_tokens=5001), command_id="job")
        await run.wait()


async def test_what_is_allowed_before_a_run_is_taken_up_comes_on_top(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        async with desk.commands() as commands:
            task = Task("desk", "Go on.", Limits(max_model_calls=2, max_seconds=600))
            submitted = await commands.submit(task)
            more = Raise(model_calls=1, tokens=5, seconds=60)
            await commands.raise_limit(submitted.run, more, by=Principal("maria"), reason="a big one")
        async with desk.open() as runtime:
            with pytest.raises(BudgetExceeded, match="limit of 3 model calls"):
                await runtime.run(submitted.run).wait()
            limits = (await runtime.run(submitted.run).state()).limits
            # What has no limit gets none by being raised.
            assert limits is not None
            assert (limits.max_model_calls, limits.max_tokens, limits.max_seconds) == (3, None, 660)
