"""The runtime stops, in order or because something broke: what is said of each call, and whose error comes out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import pytest
import trio
import trio.testing
from tests.agents.office import happened, of, pending, types, until
from tests.runtime.house import Time, house

from trouper import (
    Agent,
    Found,
    JournalError,
    Run,
    RunCancelled,
    RuntimeOptions,
    RuntimeStopped,
    ToolContext,
    ToolMessage,
    tool,
)
from trouper.core.events import ActionInterrupted, ActionQueried, ActionStarted, ModelLost, ModelRequested
from trouper.errors import ActorFailed, JournalBroken, StorageFull, StorageReadOnly
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper.tools._options import EffectName

DRAIN = 5.0
GRACE = 2.0
OPTIONS = RuntimeOptions(drain=DRAIN, grace=GRACE)

EFFECTS: list[EffectName] = ["read_only", "idempotent_write", "unqueryable_write"]


async def answers(run: Run) -> list[object]:
    result = await run.wait()
    return [message.content for message in result.messages if isinstance(message, ToolMessage)]


# ---- in order


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_call_that_waited_for_its_turn_is_recorded_as_not_begun_and_runs_later(effect: EffectName) -> None:
    ran: list[int] = []
    first_life = True
    began = trio.Event()

    async def work(n: int) -> str:
        """Work; for ever in the first life."""
        ran.append(n)
        began.set()
        if first_life:
            await trio.sleep_forever()
        return f"did {n}"

    made = tool(effect=effect, concurrency=1, attempts=1)(work)
    asked = calls(*(call("work", n=n) for n in range(3)))
    agent = Agent("desk", tools=[made], model=ScriptedModel([asked, "done"], by_turn=True))
    async with house() as place, place.time_passing():
        async with place.open(agent, options=OPTIONS) as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionStarted, 3)
            await began.wait()
        first_life = False
        (begun,) = ran
        async with place.open(agent, options=OPTIONS) as runtime:
            run = runtime.run(run.id)
            causes = {event.action: event.cause for event in await of(run, ActionInterrupted)}
            assert causes == {f"0.{n}": "shutdown" if n == begun else "not_begun" for n in range(3)}
            if effect == "unqueryable_write":
                await until(runtime, run.id, "in_doubt")
                await runtime.resolve(f"{run.id}/0.{begun}", "run_again", by="maria")
            assert await answers(run) == [f"did {n}" for n in range(3)]
        # Nobody ran twice but the one that had begun.
        assert sorted(ran) == sorted([0, 1, 2, begun])


async def test_a_request_that_waited_for_its_turn_is_made_later() -> None:
    out = trio.Event()
    first_life = True

    async def reply(_: ModelRequest) -> str:
        out.set()
        if first_life:
            await trio.sleep_forever()
        return "done"

    model = ScriptedModel([reply], by_turn=True)
    options = attrs.evolve(OPTIONS, model_concurrency=1)
    async with house() as place, place.time_passing():
        async with place.open(Agent("desk", model=model), options=options) as runtime:
            runs = [await runtime.submit("desk", "Go.") for _ in range(3)]
            for run in runs:
                await happened(runtime, run, ModelRequested)
            await out.wait()
            assert len(model.requests) == 1
        first_life = False
        async with place.open(Agent("desk", model=model), options=options) as runtime:
            for run in runs:
                assert (await runtime.run(run.id).wait()).output == "done"
                assert [event.reason for event in await of(runtime.run(run.id), ModelLost)] == ["shutdown"]
        assert len(model.requests) == 4


async def test_a_query_that_was_cut_off_or_never_began_is_asked_again() -> None:
    """An orderly stop leaves no more in doubt than a kill would."""
    asked: list[str] = []
    first_life = True
    began = trio.Event()

    async def look(ctx: ToolContext) -> Found:
        asked.append(ctx.action[-3:])
        began.set()
        if first_life:
            await trio.sleep_forever()
        return Found(f"found {ctx.action[-3:]}")

    @tool(effect="queryable_write", query=look, concurrency=1)
    async def send(ctx: ToolContext) -> str:
        """Send."""
        raise OSError("connection reset")

    agent = Agent("desk", tools=[send], model=ScriptedModel([calls(call("send"), call("send")), "done"], by_turn=True))
    async with house() as place, place.time_passing():
        async with place.open(agent, options=OPTIONS) as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionInterrupted, 2)
            await began.wait()
        first_life = False
        async with place.open(agent, options=OPTIONS) as runtime:
            run = runtime.run(run.id)
            assert await of(run, ActionQueried) == []
            assert await answers(run) == ["found 0.0", "found 0.1"]
        (cut_off, *again) = asked
        assert sorted(again) == ["0.0", "0.1"]
        assert cut_off in again


async def test_nothing_can_be_asked_of_a_runtime_that_is_stopping() -> None:
    refused: list[str] = []
    leaving = trio.Event()

    @tool(effect="read_only")
    async def work() -> str:
        """Ask for more work when it is too late for that."""
        await leaving.wait()
        asking: list[Callable[[], object]] = [
            lambda: runtime.submit("desk", "More."),
            lambda: runtime.cancel(run.id),
            lambda: runtime.approve(f"{run.id}/0.0", by="maria"),
            lambda: runtime.raise_limit(run.id, 1),
        ]
        for ask in asking:
            with pytest.raises(RuntimeStopped):
                await ask()  # type: ignore[misc]  # all of them are async
            refused.append("one")
        return "worked"

    agent = Agent("desk", tools=[work], model=ScriptedModel([call("work"), "done"], by_turn=True))
    async with house() as place:
        async with place.open(agent, options=OPTIONS) as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionStarted)
            leaving.set()
        assert len(refused) == 4
        async with place.open(agent) as runtime:
            assert await answers(runtime.run(run.id)) == ["worked"]
            assert len(await of(run, ActionStarted)) == 1


async def test_a_cancelled_block_waits_for_a_thread_only_so_long_and_says_that_it_is_unknown() -> None:
    began, hang = trio.Event(), threading.Event()

    @tool
    def work() -> str:
        """Hang."""
        trio.from_thread.run_sync(began.set)
        hang.wait()
        return "worked"

    agent = Agent("desk", tools=[work], model=ScriptedModel([call("work"), "done"], by_turn=True))
    async with house() as place:
        start = place.clock.now()

        async def let_time_pass() -> None:
            # The time to drain; the grace of the call that is cancelled then; what is left of as long again.
            for seconds in (DRAIN, GRACE, DRAIN - GRACE):
                await place.clock.wait_waiting(seconds)
                place.clock.advance(seconds)

        try:
            async with trio.open_nursery() as nursery:
                with trio.CancelScope() as scope:
                    async with place.open(agent, options=OPTIONS, patient=True) as runtime:
                        run = await runtime.submit("desk", "Go.")
                        await began.wait()
                        nursery.start_soon(let_time_pass)
                        scope.cancel()
                        await run.wait()
            assert scope.cancelled_caught
            assert place.clock.now() - start == 2 * DRAIN * 10**9
            async with place.open(agent) as runtime:
                state = await until(runtime, run.id, "in_doubt")
                assert [action.action for action in state.in_doubt] == ["0.0"]
                assert [event.cause for event in await of(runtime.run(run.id), ActionInterrupted)] == ["shutdown"]
        finally:
            hang.set()


# ---- broken storage


@pytest.mark.parametrize("error", [StorageFull("disk full"), StorageReadOnly("remounted"), JournalBroken("no answer")])
async def test_broken_storage_stops_the_driving_and_says_so_to_everybody(error: JournalError) -> None:
    gates = {name: trio.Event() for name in ("quick", "slow")}
    heard: list[JournalError] = []

    @tool(effect="read_only")
    async def work(name: str) -> str:
        """Work."""
        await gates[name].wait()
        return name

    async def break_down(_: object) -> None:
        raise error

    async def wait(run: Run) -> None:
        with pytest.raises(type(error)) as caught:
            await run.wait()
        heard.append(caught.value)

    model = ScriptedModel([calls(call("work", name="quick"), call("work", name="slow")), "done"], by_turn=True)
    async with house() as place:
        async with place.open(Agent("desk", tools=[work], model=model)) as runtime:
            run, other = await runtime.submit("desk", "Go."), await runtime.submit("desk", "Go.")
            for each in (run, other):
                await happened(runtime, each, ActionStarted, 2)
            async with trio.open_nursery() as nursery:
                for each in (run, other):
                    nursery.start_soon(wait, each)
                await trio.testing.wait_all_tasks_blocked()
                place.store.before_write = break_down
                gates["quick"].set()
            # What returns later is nobody's business any more.
            gates["slow"].set()
            await trio.testing.wait_all_tasks_blocked()
            assert len(heard) == 2
            with pytest.raises(type(error)):
                await run.wait()
            with pytest.raises(type(error)):
                await runtime.submit("desk", "More.")
            assert runtime.active == 0
            assert len(model.requests) == 2
        place.store.before_write = None
        if isinstance(error, JournalBroken):
            return
        async with place.open(Agent("desk", tools=[work], model=model)) as runtime:
            for each in (run, other):
                assert await answers(runtime.run(each.id)) == ["quick", "slow"]


# ---- a part of the runtime that crashes


class Broken(Time):
    """A clock that fails where a call's time limit is set."""

    LIMIT = 7.0

    @contextmanager
    def timeout(self, seconds: float) -> Iterator[trio.CancelScope]:
        if seconds == self.LIMIT:
            raise ArithmeticError("no such time")
        with super().timeout(seconds) as scope:
            yield scope


def leaves(group: BaseException) -> list[BaseException]:
    """What a group of groups comes down to."""
    if not isinstance(group, BaseExceptionGroup):
        return [group]
    return [leaf for error in group.exceptions for leaf in leaves(error)]


def crasher(how: str) -> Agent:
    """An agent whose call crashes what carries it out."""

    @tool(effect="read_only", timeout=Broken.LIMIT if how == "a defect" else None)
    async def crash() -> str:
        """Crash."""
        if how == "an exit":
            raise SystemExit(3)
        return "worked"

    return Agent("crasher", tools=[crash], model=ScriptedModel([call("crash"), "done"], by_turn=True))


def worker() -> Agent:
    """An agent that works for ever, and waits for a person beside."""

    @tool(effect="read_only")
    async def work() -> str:
        """Work for ever."""
        await trio.sleep_forever()
        raise AssertionError

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    script = [calls(call("work"), call("pay"))]
    return Agent("worker", tools=[work, pay], model=ScriptedModel(script, by_turn=True))


@pytest.mark.parametrize("how", ["a defect", "an exit"])
@pytest.mark.parametrize("where", ["waiting", "elsewhere"])
async def test_a_crash_comes_out_as_its_own_error_and_the_journal_is_as_it_was(how: str, where: str) -> None:
    """Another run is under way; its actors are gone when the block is left."""
    before: list[str] = []

    async def live() -> None:
        async with place.open(worker(), crasher(how), clock=Broken(), patient=True) as runtime:
            other = await runtime.submit("worker", "Go.")
            await happened(runtime, other, ActionStarted)
            await pending(runtime)
            before.extend(await types(other))
            run = await runtime.submit("crasher", "Go.")
            if where == "waiting":
                await run.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.wait)
                await trio.sleep_forever()

    async with house() as place:
        with pytest.raises(BaseExceptionGroup) as caught:
            await live()
        (error,) = leaves(caught.value)
        if how == "an exit":
            assert isinstance(error, SystemExit)
        else:
            assert isinstance(error, ActorFailed)
            assert error.__cause__ is not None
            assert [type(cause) for cause in leaves(error.__cause__)] == [ArithmeticError]
        async with place.open(worker()) as runtime:
            # Nothing of the crash was written; both runs are found, and one of them can go on.
            other, run = [runtime.run(head.stream[4:]) async for head in runtime.journal.streams(prefix="run/")]
            await until(runtime, run.id, "drifted")
            await happened(runtime, other, ActionStarted, 2)
            for each in (run, other):
                assert [event.cause for event in await of(each, ActionInterrupted)] == ["lost"]
            assert (await types(run))[5:] == ["action.started", "action.interrupted", "run.waiting"]
            assert (await types(other))[: len(before)] == before
            await other.cancel(by="maria")
            with pytest.raises(RunCancelled):
                await other.wait()


async def test_a_defect_that_shows_as_the_runtime_stops_comes_out_as_it_is() -> None:
    """Not as a complaint of Trio's that nurseries were not left in order; and what comes later can be trusted."""

    async def live() -> None:
        options = RuntimeOptions(drain=Broken.LIMIT)
        async with place.open(worker(), clock=Broken(), options=options, patient=True) as runtime:
            run = await runtime.submit("worker", "Go.")
            await happened(runtime, run, ActionStarted)

    async with house() as place:
        with pytest.raises((ArithmeticError, BaseExceptionGroup)) as caught:
            await live()
        assert {type(error) for error in leaves(caught.value)} == {ArithmeticError}
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
