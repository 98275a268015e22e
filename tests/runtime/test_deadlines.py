"""At its deadline a run begins nothing more and what is under way ends; a later deadline lets it go on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from attrs import define, field
from tests.agents.office import AnyTool, happened, of, pending, until
from tests.runtime.house import House, house

from trouper import (
    Agent,
    ApprovalError,
    DeadlineExceeded,
    Principal,
    ResolveError,
    Run,
    RunCancelled,
    RunResult,
    SteerError,
    SubmitOptions,
    Task,
    ToolMessage,
    TrouperError,
    tool,
)
from trouper.core.commands import Judgement
from trouper.core.events import (
    ActionReceipted,
    ActionStarted,
    ActionUnresolved,
    DeadlineExtended,
    DeadlinePassed,
    ModelLost,
    ModelRequested,
    RunFailed,
)
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel, call, calls

HOUR = 3600
MARIA = Principal("maria")


@define
class Desk:
    """A quick tool, one that hangs with an effect, one that hangs without, one that needs a person."""

    began: trio.Event = field(factory=trio.Event)
    effects: list[str] = field(factory=list)
    hangs: bool = True

    def tools(self) -> Sequence[AnyTool]:
        @tool(effect="idempotent_write")
        async def note() -> str:
            """Note."""
            self.effects.append("noted")
            return "noted"

        @tool()
        async def send() -> str:
            """Send, and hang."""
            self.effects.append("sent")
            self.began.set()
            await trio.sleep_forever()
            raise AssertionError

        @tool(effect="read_only")
        async def read() -> str:
            """Read, and hang at first."""
            self.began.set()
            if self.hangs:
                await trio.sleep_forever()
            return "read"

        @tool(requires_approval=True)
        async def pay() -> str:
            """Pay."""
            self.effects.append("paid")
            return "paid"

        return [note, send, read, pay]

    def agent(self, *steps: object) -> Agent:
        return Agent("desk", tools=self.tools(), model=ScriptedModel(steps, by_turn=True))  # type: ignore[arg-type]  # steps


def within(place: House, seconds: float = HOUR) -> SubmitOptions:
    return SubmitOptions(deadline=place.clock.now() + int(seconds * 10**9))


async def failed(run: Run) -> RunResult:
    """Wait for the deadline's failure; what the run came to."""
    with pytest.raises(DeadlineExceeded, match=r"its deadline has passed.*runtime.extend, or trouper extend") as raised:
        await run.wait()
    assert isinstance(raised.value.result, RunResult)
    return raised.value.result


def answers(result: RunResult) -> list[tuple[str, str]]:
    return [(str(message.content), message.status) for message in result.messages if isinstance(message, ToolMessage)]


async def test_what_is_under_way_comes_to_a_known_end_and_receipts_are_kept() -> None:
    desk = Desk()
    agent = desk.agent(calls(call("note"), call("read"), call("pay")), "done")
    async with house() as place, place.open(agent) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        (waiting,) = await pending(runtime)
        await desk.began.wait()
        await happened(runtime, run, ActionReceipted)
        place.clock.advance(HOUR)
        result = await failed(run)
        assert result.status == "failed"
        noted, read, paid = answers(result)
        assert noted == ("noted", "ok")
        assert read[0].startswith("Failed: the run's deadline passed while it ran")
        assert paid == ("Not started: the run's deadline passed.", "error")
        (event,) = await of(run, RunFailed)
        assert event.kind == "deadline"
        with pytest.raises(ApprovalError, match="it is closed"):
            await runtime.approve(waiting.action, by="maria")
        with pytest.raises(SteerError):
            await run.steer("More.")
        # With more time it goes on where it was; the model is told what became of its calls.
        await run.extend(dt.datetime.fromtimestamp(place.clock.now() // 10**9 + HOUR, dt.UTC), by="maria")
        assert (await run.wait()).output == "done"
        assert desk.effects == ["noted"]
        (extended,) = await of(run, DeadlineExtended)
        assert extended.by == MARIA


async def test_a_write_in_doubt_stays_in_doubt_when_the_run_goes_on() -> None:
    desk = Desk()
    async with house() as place, place.open(desk.agent(call("send"), "done")) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        await desk.began.wait()
        place.clock.advance(HOUR)
        result = await failed(run)
        assert result.status == "failed-in-doubt"
        (doubt,) = result.in_doubt
        assert len(await of(run, ActionUnresolved)) == 1
        await run.extend(None)
        # Its call has been answered: it cannot run again, but a person can say what became of it.
        result = await run.wait()
        assert result.output == "done"
        assert [action.action for action in result.in_doubt] == [doubt.action]
        with pytest.raises(ResolveError, match="cannot run again"):
            await runtime.resolve(f"{run.id}/{doubt.action}", "run_again", by="maria")
        await runtime.resolve(f"{run.id}/{doubt.action}", "applied", by="maria")
        assert (await run.result()).in_doubt == ()
        assert desk.effects == ["sent"]
        assert len(await of(run, ActionStarted)) == 1


async def test_a_request_under_way_is_given_up_and_sent_again_after_an_extension() -> None:
    began = trio.Event()
    hangs = [True]

    async def held(_: object) -> str:
        began.set()
        if hangs:
            await trio.sleep_forever()
        return "done"

    async with house() as place, place.open(Desk().agent(held)) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        await began.wait()
        place.clock.advance(HOUR)
        await failed(run)
        (lost,) = await of(run, ModelLost)
        assert lost.reason == "deadline"
        hangs.clear()
        await run.extend(None)
        assert (await run.wait()).output == "done"
        assert [(event.index, event.attempt) for event in await of(run, ModelRequested)] == [(0, 1), (0, 2)]


@pytest.mark.parametrize("paused", [False, True])
async def test_a_run_that_waits_for_a_person_meets_its_deadline_out_of_memory(*, paused: bool) -> None:
    desk = Desk()
    async with house() as place, place.open(desk.agent(call("pay"), "done")) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        await pending(runtime)
        if paused:
            await run.pause()
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.active == 0
        head = await runtime.journal.head(f"run/{run.id}")
        assert head is not None
        assert head.wake_at == place.clock.now() + HOUR * 10**9
        place.clock.advance(HOUR)
        assert answers(await failed(run)) == [("Not started: the run's deadline passed.", "error")]
        assert desk.effects == []


async def test_a_decision_past_the_deadline_is_late_though_nobody_has_noticed_yet() -> None:
    desk = Desk()
    async with house() as place:
        async with place.open(desk.agent(call("pay"), "done")) as runtime:
            run = await runtime.submit("desk", "Go.", options=within(place))
            (waiting,) = await pending(runtime)
        place.clock.advance(HOUR)
        assert await place.commands.approvals() == []
        with pytest.raises(ApprovalError, match="the run's deadline has passed"):
            await place.commands.decide(waiting.action, Judgement("approve", MARIA))
        async with place.open(desk.agent(call("pay"), "done")) as runtime:
            await failed(runtime.run(run.id))
        assert desk.effects == []


async def test_a_decision_in_time_that_is_seen_too_late_starts_nothing() -> None:
    desk = Desk()
    async with house() as place:
        async with place.open(desk.agent(call("pay"), "done")) as runtime:
            run = await runtime.submit("desk", "Go.", options=within(place))
            (waiting,) = await pending(runtime)
        await place.commands.decide(waiting.action, Judgement("approve", MARIA))
        place.clock.advance(HOUR)
        async with place.open(desk.agent(call("pay"), "done")) as runtime:
            assert answers(await failed(runtime.run(run.id))) == [("Not started: the run's deadline passed.", "error")]
        assert desk.effects == []


async def test_a_run_that_was_never_started_fails_at_its_deadline_and_starts_with_a_later_one() -> None:
    async with house() as place:
        done = await place.commands.submit(Task("desk", "Go.", options=within(place)))
        place.clock.advance(HOUR)
        async with place.open(Desk().agent("done")) as runtime:
            run = runtime.run(done.run)
            await failed(run)
            await run.extend(place.clock.now() + HOUR * 10**9)
            assert (await run.wait()).output == "done"


async def test_a_cancel_after_the_deadline_ends_it_as_cancelled() -> None:
    cleaning = trio.Event()
    began = trio.Event()

    @tool(effect="read_only")
    async def read() -> str:
        """Read; it takes a moment to stop."""
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await cleaning.wait()
        raise AssertionError

    agent = Agent("desk", tools=[read], model=ScriptedModel([call("read")]))
    async with house() as place, place.open(agent) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        await began.wait()
        place.clock.advance(HOUR)
        await happened(runtime, run, DeadlinePassed)
        with pytest.raises(SteerError, match="its deadline has passed"):
            await run.steer("More.")
        await run.cancel(by="maria", reason="enough")
        cleaning.set()
        with pytest.raises(RunCancelled, match="maria: enough"):
            await run.wait()


async def test_an_attempt_is_stopped_once_more_after_an_extension() -> None:
    """The second deadline has a word of its own for the second attempt."""
    desk = Desk()
    async with house() as place, place.open(desk.agent(call("read"), call("read"), "done")) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        for _ in range(2):
            await desk.began.wait()
            desk.began = trio.Event()
            place.clock.advance(HOUR)
            await failed(run)
            await run.extend(place.clock.now() + HOUR * 10**9)
        assert (await run.wait()).output == "done"
        assert len(await of(run, DeadlinePassed)) == 2


async def test_an_extension_while_the_run_is_being_stopped_lets_it_go_on() -> None:
    cleaning, began = trio.Event(), trio.Event()
    times: list[int] = []

    @tool(effect="idempotent_write", attempts=3)
    async def put() -> str:
        """Put; the first time it takes a moment to stop."""
        times.append(1)
        if len(times) > 1:
            return "put"
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await cleaning.wait()
        raise AssertionError

    agent = Agent("desk", tools=[put], model=ScriptedModel([call("put"), "done"]))
    async with house() as place, place.open(agent) as runtime:
        run = await runtime.submit("desk", "Go.", options=within(place))
        await began.wait()
        place.clock.advance(HOUR)
        await happened(runtime, run, DeadlinePassed)
        await run.extend(None)
        await trio.testing.wait_all_tasks_blocked()
        cleaning.set()
        result = await run.wait()
        assert answers(result) == [("put", "ok")]


async def test_what_cannot_be_extended_says_so() -> None:
    async with house() as place, place.open(Desk().agent("done")) as runtime:
        run = await runtime.submit("desk", "Go.")
        await run.wait()
        with pytest.raises(TrouperError, match="is over"):
            await run.extend(None)
        later = await runtime.submit("desk", "Go.", options=SubmitOptions(start_at=place.clock.now() + HOUR * 10**9))
        with pytest.raises(TrouperError, match="no deadline"):
            await later.extend(place.clock.now() + 1)
        due = SubmitOptions(start_at=place.clock.now() + HOUR * 10**9, deadline=place.clock.now() + 2 * HOUR * 10**9)
        timed = await runtime.submit("desk", "Go.", options=due)
        for bad in (place.clock.now(), place.clock.now() + HOUR * 10**9):
            with pytest.raises(TrouperError, match="can only be extended"):
                await timed.extend(bad)
        with pytest.raises(InvalidValue, match="deadline"):
            await timed.extend(-1)
        assert due.deadline is not None
        await timed.extend(due.deadline)
        assert await of(timed, DeadlineExtended) == []
        with pytest.raises(InvalidValue, match="not later than start_at"):
            SubmitOptions(start_at=5, deadline=5)
        await until(runtime, timed.id, "scheduled")
