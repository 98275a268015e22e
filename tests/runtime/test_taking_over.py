"""Outcomes for an agent that is gone, restarted or elsewhere with its thoughts: none is lost, and none hurts others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

import attrs
import pytest
import trio
import trio.testing
from tests.agents.office import happened, of, pending, types, until
from tests.runtime.house import LONGEST, House, house

from trouper import (
    Agent,
    Run,
    Runtime,
    ToolError,
    ToolMessage,
    TransientError,
    TrouperError,
    tool,
)
from trouper.core.events import (
    ActionInterrupted,
    ActionPlanned,
    ActionReceipted,
    ActionReturnedLate,
    ActionStarted,
    ActionUnresolved,
    ModelLost,
    ModelRequested,
    ModelResponded,
    RunStarted,
    RunSucceeded,
)
from trouper.errors import UnknownEvent
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper_journal import EventRegistry, Journal, Write, event

LIMIT = 5.0


def answers(result: object) -> list[object]:
    messages = getattr(result, "messages", ())
    return [message.content for message in messages if isinstance(message, ToolMessage)]


def one_call(*tools: object, name: str = "work") -> Agent:
    """An agent that calls its tool and is done."""
    return Agent("desk", tools=tools, model=ScriptedModel([call(name), "done"], by_turn=True))  # type: ignore[arg-type]  # tools


# ---- an agent that is gone for good


@event("run.from_the_future", schema=1)
@attrs.frozen
class FromTheFuture:
    """What only a later release knows."""


@pytest.mark.parametrize("of_what", ["a tool", "a model"])
async def test_an_outcome_that_nobody_takes_any_more_hurts_no_other_run(of_what: str, tmp_path: Path) -> None:
    gate, began = trio.Event(), trio.Event()

    @tool(effect="read_only")
    async def work() -> str:
        """Wait, in the first run."""
        began.set()
        await gate.wait()
        return "worked"

    async def reply(_: ModelRequest) -> str:
        began.set()
        await gate.wait()
        return "done"

    model = ScriptedModel([call("work"), "done"] if of_what == "a tool" else [reply], by_turn=True)
    with trio.fail_after(LONGEST):
        path = tmp_path / "journal.db"
        async with Runtime.open(path, [Agent("desk", tools=[work], model=model)]) as runtime:
            run = await runtime.submit("desk", "Go.")
            await began.wait()
            version = (await run.state()).version
            async with Journal.open(path, registry=EventRegistry([FromTheFuture])) as newer:
                await newer.commit([Write(f"run/{run.id}", [FromTheFuture()], expected=version)])
            with pytest.raises(UnknownEvent):
                await run.wait()
            other = await runtime.submit("desk", "Go.")
            gate.set()
            assert (await other.wait()).output == "done"
            # Once more, for whoever died of the outcome died after having delivered it.
            assert (await (await runtime.submit("desk", "Go.")).wait()).output == "done"


async def test_an_agent_that_crashes_again_and_again_is_given_up_and_others_go_on() -> None:
    async def reply(_: ModelRequest) -> str:
        await gate.wait()
        return "done"

    gate = trio.Event()
    async with house() as place, place.open(Agent("desk", model=ScriptedModel([reply], by_turn=True))) as runtime:
        run, other = await runtime.submit("desk", "Go."), await runtime.submit("desk", "Go.")
        await happened(runtime, run, ModelRequested)
        await happened(runtime, other, ModelRequested)
        place.stage.stumble_always(run.id)
        await run.raise_limit(1, by="maria")
        async with place.time_passing():
            with pytest.raises(TrouperError, match="its agent failed again and again: Stumble"):
                await run.wait()
        gate.set()
        assert (await other.wait()).output == "done"
        with pytest.raises(TrouperError, match="again and again"):
            await run.wait()


# ---- an agent that begins another life


@attrs.define
class Gated:
    """A tool that works until the test lets it go."""

    effect: Literal["read_only", "idempotent_write", "unqueryable_write"] = "unqueryable_write"
    failure: Exception | None = None
    timeout: float | None = None
    began: trio.Event = attrs.Factory(trio.Event)
    go: trio.Event = attrs.Factory(trio.Event)
    effects: int = 0

    def agent(self) -> Agent:
        async def work() -> str:
            """Work."""
            self.began.set()
            await self.go.wait()
            if self.failure is not None:
                raise self.failure
            self.effects += 1
            return f"effect {self.effects}"

        return one_call(tool(effect=self.effect)(work))


async def crash(place: House, run: Run) -> None:
    """Let the run's agent crash as it reads some news; it is between two lives afterwards."""
    place.stage.stumble_on_read()
    await run.raise_limit(1, by="maria")
    await place.crashed()


@pytest.mark.parametrize("between", [True, False], ids=["between two lives", "in the next life"])
@pytest.mark.parametrize("failure", [None, ToolError("no")])
async def test_a_call_under_way_is_taken_over(failure: Exception | None, *, between: bool) -> None:
    gated = Gated(failure=failure)
    async with house() as place, place.open(gated.agent()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await gated.began.wait()
        await crash(place, run)
        for step in (gated.go.set, place.revive) if between else (place.revive, gated.go.set):
            step()
            await trio.testing.wait_all_tasks_blocked()
        assert answers(await run.wait()) == ["no" if failure else "effect 1"]
        assert gated.effects == (0 if failure else 1)
        assert [started.attempt for started in await of(run, ActionStarted)] == [1]
        assert await of(run, ActionInterrupted) == []


@pytest.mark.parametrize("between", [True, False], ids=["between two lives", "in the next life"])
async def test_a_request_under_way_is_taken_over(*, between: bool) -> None:
    gate, asked = trio.Event(), trio.Event()

    async def reply(_: ModelRequest) -> str:
        asked.set()
        await gate.wait()
        return "done"

    model = ScriptedModel([reply])
    async with house() as place, place.open(Agent("desk", model=model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asked.wait()
        await crash(place, run)
        for step in (gate.set, place.revive) if between else (place.revive, gate.set):
            step()
            await trio.testing.wait_all_tasks_blocked()
        assert (await run.wait()).output == "done"
        assert len(model.requests) == 1
        assert await of(run, ModelLost) == []


@attrs.define
class Slow:
    """A tool in a thread that has its effect when its time has long been up."""

    failure: Exception | None = None
    began: trio.Event = attrs.Factory(trio.Event)
    go: threading.Event = attrs.Factory(threading.Event)
    effects: int = 0

    def agent(self) -> Agent:
        @tool(timeout=LIMIT)
        def work() -> str:
            """Work."""
            trio.from_thread.run_sync(self.began.set)
            self.go.wait()
            failure, self.failure = self.failure, None
            if failure is not None:
                raise failure
            self.effects += 1
            return f"effect {self.effects}"

        return one_call(work)


@pytest.mark.parametrize("moment", ["as it records the doubt", "later"])
async def test_a_thread_that_lingers_is_taken_over_and_settles_the_doubt(moment: str) -> None:
    slow = Slow()
    async with house() as place, place.open(slow.agent()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await slow.began.wait()
        if moment != "later":
            place.stage.stumble_after(ActionUnresolved)
        place.clock.advance(LIMIT)
        await happened(runtime, run, ActionUnresolved)
        if moment == "later":
            await crash(place, run)
        else:
            await place.crashed()
        place.revive()
        await trio.testing.wait_all_tasks_blocked()
        assert (await run.result()).status == "in_doubt"
        slow.go.set()
        assert answers(await run.wait()) == ["effect 1"]
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.attempt, receipt.evidence) == (1, "late")
        assert slow.effects == 1


async def test_a_thread_that_ends_between_two_lives_settles_the_doubt() -> None:
    slow = Slow()
    async with house() as place, place.open(slow.agent()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await slow.began.wait()
        place.clock.advance(LIMIT)
        await happened(runtime, run, ActionUnresolved)
        await crash(place, run)
        slow.go.set()
        while not slow.effects:
            await trio.testing.wait_all_tasks_blocked()
        await until_thread_is_back()
        place.revive()
        assert answers(await run.wait()) == ["effect 1"]
        assert slow.effects == 1


async def until_thread_is_back() -> None:
    """Wait until Trio has taken in what a thread did last: another thread's end comes after that."""
    await trio.to_thread.run_sync(threading.Event)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("crashes", [False, True])
async def test_a_call_to_be_run_again_waits_for_its_first_thread(*, fails: bool, crashes: bool) -> None:
    """Its success settles the call, one effect; after its failure the second attempt runs."""
    slow = Slow(OSError("broken") if fails else None)
    async with house() as place, place.open(slow.agent()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await slow.began.wait()
        place.clock.advance(LIMIT)
        await until(runtime, run.id, "in_doubt")
        await runtime.resolve(f"{run.id}/0.0", "run_again", by="maria")
        if crashes:
            await crash(place, run)
            place.revive()
        await trio.testing.wait_all_tasks_blocked()
        assert len(await of(run, ActionStarted)) == 1
        slow.go.set()
        assert answers(await run.wait()) == ["effect 1"]
        assert slow.effects == 1
        assert len(await of(run, ActionStarted)) == (2 if fails else 1)
        assert len(await of(run, ActionReceipted)) == 1
        assert len(await of(run, ActionReturnedLate)) == (1 if fails else 0)


KINDS: list[type] = [
    RunStarted,
    ModelRequested,
    ModelResponded,
    ActionPlanned,
    ActionStarted,
    ActionInterrupted,
    ActionReceipted,
    RunSucceeded,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_an_agent_that_crashes_right_after_a_commit_goes_on_behind_it(kind: type) -> None:
    """What had become durable is not done again; what was to follow is; what was held for it is let go."""
    attempts: list[int] = []

    @tool(effect="idempotent_write")
    async def work() -> str:
        """Work; the first attempt fails."""
        attempts.append(len(attempts) + 1)
        if len(attempts) == 1:
            raise TransientError("busy")
        return "worked"

    model = ScriptedModel([call("work"), "done"], by_turn=True)
    async with house() as place, place.open(Agent("desk", tools=[work], model=model)) as runtime:
        place.stage.stumble_after(kind)
        run = await runtime.submit("desk", "Go.")
        async with place.time_passing():
            result = await run.wait()
        assert place.stage.stumbles == 1
        assert (result.output, answers(result)) == ("done", ["worked"])
        assert attempts == [1, 2]
        assert len(model.requests) == 2
        assert [receipt.outcome for receipt in await of(run, ActionReceipted)] == ["ok"]
        assert len(await of(run, ModelResponded)) == 2


# ---- an agent that is busy, or about to leave


async def test_an_outcome_gets_through_though_news_fills_the_agents_mailbox() -> None:
    """A person repeats a decision, which changes nothing, while the agent waits for the disk; then a tool returns."""
    first_go, second_go, writing, disk = trio.Event(), trio.Event(), trio.Event(), trio.Event()

    async def slow_disk(_: object) -> None:
        writing.set()
        await disk.wait()

    @tool(effect="read_only", requires_approval=True)
    async def gated() -> str:
        """Wait for a person."""
        return "gated"

    @tool(effect="read_only")
    async def first() -> str:
        """Go first."""
        await first_go.wait()
        return "first"

    @tool(effect="read_only")
    async def second() -> str:
        """Go second."""
        await second_go.wait()
        return "second"

    model = ScriptedModel([calls(call("gated"), call("first"), call("second")), "done"], by_turn=True)
    async with house() as place, place.open(Agent("desk", tools=[gated, first, second], model=model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        (asked,) = await pending(runtime)
        await runtime.approve(asked.action, by="maria")
        await happened(runtime, run, ActionReceipted)
        place.store.before_write = slow_disk
        first_go.set()
        await writing.wait()
        for _ in range(30):
            await runtime.approve(asked.action, by="maria")
        second_go.set()
        await trio.testing.wait_all_tasks_blocked()
        disk.set()
        assert answers(await run.wait()) == ["gated", "first", "second"]
        assert len(await of(run, ActionStarted)) == 3


@attrs.define
class Decided:
    """An agent with calls that wait for a person."""

    count: int
    effects: list[int] = attrs.Factory(list)
    go: trio.Event = attrs.Factory(trio.Event)

    def agent(self) -> Agent:
        @tool(requires_approval=True)
        async def work(n: int) -> str:
            """Work."""
            self.effects.append(n)
            await self.go.wait()
            return f"did {n}"

        asked = calls(*(call("work", n=n) for n in range(self.count)))
        return Agent("desk", tools=[work], model=ScriptedModel([asked, "done"], by_turn=True))


async def test_a_run_that_is_about_to_leave_takes_late_news_along() -> None:
    """Word is sent twice while it reads; it must not leave between the two, for another would take its place."""
    decided = Decided(2)
    async with house() as place, place.open(decided.agent()) as runtime:
        run = await runtime.submit("desk", "Go.")
        first, second = await pending(runtime, 2)
        while runtime.active:
            await trio.testing.wait_all_tasks_blocked()
        one, two = place.stage.hold(2)
        await runtime.deny(first.action, by="maria")
        await one.reached.wait()
        for _ in range(3):
            await runtime.deny(first.action, by="maria")
        one.go.set()
        await two.reached.wait()
        await runtime.approve(second.action, by="maria")
        await trio.testing.wait_all_tasks_blocked()
        two.go.set()
        await happened(runtime, run, ActionStarted)
        decided.go.set()
        assert answers(await run.wait()) == ["Not started: denied by maria.", "did 1"]
        assert decided.effects == [1]
        assert "action.interrupted" not in await types(run)


async def test_decisions_that_follow_each_other_closely_all_count() -> None:
    decided = Decided(3)
    decided.go.set()
    async with house() as place, place.open(decided.agent()) as runtime:
        runs = [await runtime.submit("desk", "Go.") for _ in range(20)]
        await pending(runtime, 60)

        async def decide(run: Run) -> None:
            await runtime.deny(f"{run.id}/0.0", by="maria")
            await runtime.approve(f"{run.id}/0.1", by="maria")
            await runtime.approve(f"{run.id}/0.2", by="maria")

        async with trio.open_nursery() as nursery:
            for run in runs:
                nursery.start_soon(decide, run)
        for run in runs:
            assert answers(await run.wait()) == ["Not started: denied by maria.", "did 1", "did 2"]
            assert await of(run, ActionInterrupted) == []
        assert sorted(decided.effects) == [1] * 20 + [2] * 20
