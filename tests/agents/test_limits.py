"""Limits: how far a run goes, how it ends there, and how it goes on; the same live, after restarts and on replay."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.child import child, driving
from tests.agents.office import asks, happened, of, office, pending, told

from trouper import AI, Limits, RunFailed, StepLimitExceeded, ToolMessage, TrouperError
from trouper.core.conversation import Value
from trouper.core.events import ModelFailed, ModelLost, ModelRequested
from trouper.runtime.results import RunResult
from trouper.testing import ManualClock, Status, Wait
from trouper.testing._answers import Answer


def adding(request: dict[str, Value]) -> Answer:
    """A model that always calls, as long as it may."""
    messages = request["messages"]
    assert isinstance(messages, list)
    turn = sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)
    return asks(("add", {"n": turn})) if "tools" in request else f"Stopped after {turn}."


async def test_five_steps_are_three_model_calls_and_two_tool_executions(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.", limits=Limits(max_steps=5))
        with pytest.raises(
            StepLimitExceeded, match="the limit of steps is reached after 5; raise it to go on"
        ) as caught:
            await run.wait()
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert len(desk.stub.requests) == 3
        assert desk.world.effects == ["add 0", "add 1"]
        assert (result.steps, result.status, result.output) == (5, "failed", None)
        assert [message.role for message in result.messages] == ["human", "ai", "tool", "ai", "tool", "ai", "tool"]
        assert [message.content for message in result.messages if isinstance(message, ToolMessage)] == [
            "added 0",
            "added 1",
            "Not started: the run has reached its step limit.",
        ]
        assert result.usage.input_tokens == 30


async def test_five_steps_are_as_many_when_each_turn_has_a_life_of_its_own(tmp_path: Path) -> None:
    script = [asks(("send_email", {"to": str(turn)})) for turn in range(3)]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go on.", limits=Limits(max_steps=5))
            await pending(runtime)
        for turn in range(2):
            async with desk.open() as runtime:
                (waiting,) = await pending(runtime)
                await runtime.approve(waiting.action, by="maria")
                await happened(runtime, runtime.run(run.id), ModelRequested, turn + 2)
                if turn == 0:
                    await pending(runtime)
        async with desk.open() as runtime:
            with pytest.raises(StepLimitExceeded, match="after 5"):
                await runtime.run(run.id).wait()
        assert len(desk.stub.requests) == 3
        assert desk.world.effects == ["mail 0", "mail 1"]


async def test_at_the_limit_a_run_can_finish_with_one_last_request_without_tools(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.", limits=Limits(max_steps=5, on_limit="finish"))
        result = await run.wait()
        assert (result.output, result.steps, result.status) == ("Stopped after 3.", 5, "succeeded")
        assert desk.world.effects == ["add 0", "add 1"]
        last = desk.stub.requests[-1]
        assert len(desk.stub.requests) == 4
        assert "tools" not in last.body
        assert last.messages[-1] == {
            "role": "system",
            "content": "The step limit is reached and no more tools can be called. Answer now, with what you have.",
        }
        assert [event.closing for event in await of(run, ModelRequested)] == [False, False, False, True]
        assert result.messages[-1].role == "ai"
        assert "system" not in [message.role for message in result.messages]


async def test_a_last_answer_that_calls_all_the_same_starts_nothing_and_is_taken(tmp_path: Path) -> None:
    stubborn = attrs.evolve(asks(("add", {"n": 9})), text="I would rather add.")
    script: list[Answer] = [asks(("add", {"n": 0})), stubborn]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=2, on_limit="finish"))
        result = await run.wait()
        assert result.output == "I would rather add."
        assert desk.world.effects == ["add 0"]
        assert result.messages[-1].content == "Not started: the run has reached its step limit."


async def test_the_default_limit_is_fifty_steps(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.")
        with pytest.raises(StepLimitExceeded):
            await run.wait()
        assert (len(desk.stub.requests), len(desk.world.effects)) == (25, 25)
        assert Limits().max_steps == 50


async def test_the_agents_own_limits_hold_unless_a_submit_says_otherwise(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        agent = desk.agent(limits=Limits(max_steps=1))
        async with desk.open(agent) as runtime:
            with pytest.raises(StepLimitExceeded):
                await (await runtime.submit("desk", "Go on.")).wait()
            assert (len(desk.stub.requests), desk.world.effects) == (1, [])
            with pytest.raises(StepLimitExceeded):
                await (await runtime.submit("desk", "Go on.", limits=Limits(max_steps=2))).wait()
            assert (len(desk.stub.requests), desk.world.effects) == (2, ["add 0"])


async def test_a_raised_limit_lets_the_run_go_on_by_exactly_as_much(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go on.", limits=Limits(max_steps=4))
            with pytest.raises(StepLimitExceeded):
                await run.wait()
            assert (len(desk.stub.requests), desk.world.effects) == (2, ["add 0", "add 1"])
            await run.raise_limit(3, by="maria", reason="worth it")
            with pytest.raises(StepLimitExceeded, match="after 7"):
                await run.wait()
            # A request, a batch, and a request whose calls are closed.
            assert (len(desk.stub.requests), desk.world.effects) == (4, ["add 0", "add 1", "add 2"])
        async with desk.open() as runtime:
            run = runtime.run(run.id)
            await run.raise_limit(1)
            with pytest.raises(StepLimitExceeded, match="after 8"):
                await run.wait()
            # The calls that had been closed at the limit are not run: the model is asked anew.
            assert (len(desk.stub.requests), len(desk.world.effects)) == (5, 3)
            assert [message.content for message in (await run.result()).messages][-3:-1] == [
                "Not started: the run has reached its step limit.",
                None,
            ]


async def test_a_limit_raised_in_time_is_never_noticed(tmp_path: Path) -> None:
    gate = trio.Event()
    script: list[Answer] = [Wait(gate, asks(("add", {"n": 1}))), "Done."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=1))
        await desk.stub.wait_requests(1)
        await run.raise_limit(2)
        gate.set()
        assert (await run.wait()).output == "Done."


async def test_raising_changes_nothing_that_is_over_for_another_reason(tmp_path: Path) -> None:
    script: list[Answer] = ["Done.", Status(400)]
    async with office(tmp_path, script, by_turn=False) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await run.wait()
        with pytest.raises(TrouperError, match=r"is over \(succeeded\): raising its limit would change nothing"):
            await run.raise_limit(3)
        failed = await runtime.submit("desk", "Go.")
        with pytest.raises(RunFailed):
            await failed.wait()
        with pytest.raises(TrouperError, match=r"is over \(failed\)"):
            await failed.raise_limit(3)
        with pytest.raises(TrouperError, match="by at least 1 step, not by 0"):
            await run.raise_limit(0)


# ---- counters over a restart


async def test_four_turns_stay_four_when_the_process_is_killed_after_each(tmp_path: Path) -> None:
    """Killed when the request of the next turn is out; a failed request in between; then +6 gives three more."""
    limits = Limits(max_steps=8)
    killed: list[int] = []
    failed: list[int] = []
    seen = trio.Event()

    def answer(request: dict[str, Value]) -> Answer:
        nonlocal seen
        messages = request["messages"]
        assert isinstance(messages, list)
        turn = sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)
        if turn not in failed:
            failed.append(turn)
            return Status(503, headers={"retry-after-ms": "1"})
        if turn in {1, 2, 3} and turn not in killed:
            killed.append(turn)
            seen.set()
            return Wait(trio.Event(), "never")
        return asks(("pay", {"amount": turn}))

    async with office(tmp_path, answer, lambda world: [world.keyed()]) as desk:
        job = driving(desk, "pay", limits=limits)
        for turn in (1, 2, 3):
            seen = trio.Event()
            async with child(job) as process:
                await process.ready()
                await seen.wait()
                await process.kill()
            assert len(desk.world.effects) == turn
        async with child(job) as process:
            await process.ready()
            assert (await process.said())["error"] == "StepLimitExceeded"
        assert desk.world.effects == [f"pay {n} {n}.0 1" for n in range(4)]
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.", command_id="job", limits=limits)
            assert run.repeated
            assert (await run.state()).steps == 8
            await run.raise_limit(6, by="maria")
            with pytest.raises(StepLimitExceeded):
                await run.wait()
            assert desk.world.effects == [f"pay {n} {n}.0 1" for n in range(7)]
            requested = await of(run, ModelRequested)
            # Failed and lost requests are attempts at a turn, and no turns.
            assert [event.index for event in requested if event.attempt == 1] == list(range(7))
            assert [event.index for event in await of(run, ModelFailed)] == list(range(7))
            assert [(event.index, event.reason) for event in await of(run, ModelLost)] == [
                (turn, "restart") for turn in (1, 2, 3)
            ]
            assert (await run.state()).usage.unknown == 3
            second = await runtime.submit("desk", "Again.", limits=Limits(max_steps=2))
            with pytest.raises(StepLimitExceeded, match="after 2"):
                await second.wait()


async def test_failed_requests_are_no_steps(tmp_path: Path) -> None:
    clock = ManualClock()
    script: list[Answer] = [Status(500), Status(429), asks(("add", {"n": 1})), Status(500), "Done."]
    async with (
        office(tmp_path, script, lambda world: [world.adder()], by_turn=False, clock=clock) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=3))
        for failures in (1, 2, 3):
            await happened(runtime, run, ModelFailed, failures)
            clock.advance(60)
        assert (await run.wait()).steps == 3


# ---- reaching a limit throws nothing away


async def test_a_limit_in_the_middle_of_a_batch_closes_every_call_and_keeps_what_was_done(tmp_path: Path) -> None:
    """Two turns are wanted, three asked for; the reply at the limit asks for three calls."""
    many = asks(("add", {"n": 3}), ("add", {"n": 4}), ("add", {"n": 5}))
    script: list[Answer] = [asks(("add", {"n": 1}), ("add", {"n": 2})), many, "All in all 3."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Add up.", limits=Limits(max_steps=3))
        with pytest.raises(StepLimitExceeded) as caught:
            await run.wait()
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert sorted(desk.world.effects) == ["add 1", "add 2"]
        assert [message.content for message in result.messages if isinstance(message, ToolMessage)] == [
            "added 1",
            "added 2",
            *["Not started: the run has reached its step limit."] * 3,
        ]
        assert (result.usage.input_tokens, result.usage.output_tokens) == (20, 10)
        await run.raise_limit(1)
        assert (await run.wait()).output == "All in all 3."
        # The strict server has seen all five answers, in order.
        assert len(told(desk.stub.requests[-1].messages)) == 5


async def test_a_run_at_its_limit_is_no_crash_for_others(tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go on.", limits=Limits(max_steps=2))
        with pytest.raises(StepLimitExceeded):
            await run.wait()
        assert await run.result() == (await runtime.run(run.id).result())
        other = await runtime.submit("desk", "Go on.", limits=Limits(max_steps=2, on_limit="finish"))
        result = await other.wait()
        assert result.output == "Stopped after 1."
        assert isinstance(result.messages[-1], AI)
