"""A paused run begins nothing; what was under way ends and is recorded; resumed, it goes on."""

from __future__ import annotations

import datetime as dt

import pytest
import trio
import trio.testing
from tests.agents.office import happened, of, pending, until
from tests.runtime.house import house
from tests.runtime.test_steering import Desk, asked

from trouper import (
    Agent,
    IdempotencyConflict,
    Principal,
    RunCancelled,
    SubmitOptions,
    Task,
    TransientError,
    tool,
)
from trouper.core.events import (
    ActionReceipted,
    ActionStarted,
    ApprovalExpired,
    ApprovalRequested,
    ModelRequested,
    ModelResponded,
    PauseRequested,
    ResumeRequested,
    RunStarted,
    RunWaiting,
)
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel, call, calls

MARIA = Principal("maria")
HOUR = 3600


async def test_what_is_under_way_ends_and_is_recorded_and_nothing_else_begins() -> None:
    desk, model = Desk(), ScriptedModel([calls(call("watch"), call("send", to="a")), "done"], by_turn=True)
    async with house() as place:
        async with place.open(desk.agent(model)) as runtime:
            run = await runtime.submit("desk", "Go.")
            (waiting,) = await pending(runtime)
            await desk.began.wait()
            await run.pause(by="maria", reason="lunch")
            assert (await run.result()).status == "paused"
            desk.go.set()
            await happened(runtime, run, ActionReceipted)
            # Decided in the pause, it is not started in the pause; and it is listed as ever.
            assert [each.action for each in await runtime.approvals()] == [waiting.action]
            await runtime.approve(waiting.action, by="maria")
            state = await until(runtime, run.id, "paused")
            pause = state.control.pause
            assert pause is not None
            assert pause.by == MARIA
            assert pause.reason == "lunch"
            await trio.testing.wait_all_tasks_blocked()
            assert runtime.active == 0
        # It stays so over a restart.
        async with place.open(desk.agent(model)) as runtime:
            run = runtime.run(run.id)
            await until(runtime, run.id, "paused")
            assert desk.sent == []
            assert len(await of(run, ModelRequested)) == 1
            await run.resume(by="otto")
            assert (await run.wait()).output == "done"
            assert desk.sent == ["a"]
            assert asked(model.requests[1]) == ["Go.", "watched", "sent to a"]


async def test_a_reply_that_comes_in_the_pause_is_recorded_and_not_acted_upon() -> None:
    desk = Desk()

    async def held(_: object) -> str:
        desk.began.set()
        await desk.go.wait()
        return "answer"

    model = ScriptedModel([held, "another"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        await run.pause()
        desk.go.set()
        await happened(runtime, run, ModelResponded)
        await until(runtime, run.id, "paused")
        # Its last reply is there, and it does not end: somebody may have something to say first.
        assert (await run.state()).messages[-1].content == "answer"
        await run.steer("Wait.")
        await until(runtime, run.id, "paused")
        await run.resume()
        assert (await run.wait()).output == "another"


async def test_a_request_for_approval_expires_in_a_pause() -> None:
    @tool(requires_approval=True, approval_expires=HOUR)
    async def pay() -> str:
        """Pay."""
        raise AssertionError

    model = ScriptedModel([call("pay"), "done"])
    async with house() as place, place.open(Agent("desk", tools=[pay], model=model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await pending(runtime)
        await run.pause()
        await until(runtime, run.id, "paused")
        place.clock.advance(HOUR)
        await happened(runtime, run, ApprovalExpired)
        await until(runtime, run.id, "paused")
        assert len(model.requests) == 1
        await run.resume()
        assert (await run.wait()).output == "done"


async def test_a_retry_waits_out_the_pause() -> None:
    tries: list[int] = []

    @tool(effect="idempotent_write", attempts=3)
    async def send() -> str:
        """Send; the line is busy at first."""
        tries.append(1)
        if len(tries) == 1:
            raise TransientError("busy")
        return "sent"

    model = ScriptedModel([call("send"), "done"])
    async with house() as place, place.open(Agent("desk", tools=[send], model=model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await until(runtime, run.id, "retrying")
        await run.pause()
        await until(runtime, run.id, "paused")
        place.clock.advance(HOUR)
        await trio.testing.wait_all_tasks_blocked()
        assert len(tries) == 1
        assert place.clock.waiting == ()
        await run.resume()
        await run.wait()
        assert len(tries) == 2


async def test_a_paused_run_can_be_cancelled() -> None:
    desk, model = Desk(), ScriptedModel([call("send", to="a")])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        (waiting,) = await pending(runtime)
        await run.pause()
        await runtime.approve(waiting.action, by="maria")
        await until(runtime, run.id, "paused")
        await run.cancel(by="maria", reason="enough")
        with pytest.raises(RunCancelled, match="cancelled by maria: enough"):
            await run.wait()
        assert await of(run, ActionStarted) == []
        (receipt,) = await of(run, ActionReceipted)
        assert receipt.text == "Not started: the run was cancelled by maria: enough."


async def test_pausing_and_resuming_twice_is_once_and_a_run_that_is_over_is_left_alone() -> None:
    desk, model = Desk(), ScriptedModel([call("watch"), "done"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        for _ in range(2):
            await run.pause()
        for _ in range(2):
            await run.resume()
        desk.go.set()
        await run.wait()
        await run.pause()
        assert (await run.result()).status == "succeeded"
        assert len(await of(run, PauseRequested)) == len(await of(run, ResumeRequested)) == 1


# ---- submitted for later


def moment(place_now: int, seconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(place_now // 10**9 + seconds, dt.UTC)


async def test_a_run_for_later_starts_at_its_time_and_not_before() -> None:
    model = ScriptedModel(["done"])
    async with house() as place, place.open(Desk().agent(model)) as runtime:
        options = SubmitOptions(start_at=moment(place.clock.now(), HOUR))
        run = await runtime.submit("desk", "Go.", options=options)
        await happened(runtime, run, RunWaiting)
        state = await run.state()
        assert state.control.start_at == place.clock.now() + HOUR * 10**9
        head = await runtime.journal.head(f"run/{run.id}")
        assert head is not None
        assert (head.label, head.wake_at) == ("scheduled", state.control.start_at)
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.active == 0
        # Looked at once, and then left alone.
        assert len(await of(run, RunWaiting)) == 1
        place.clock.advance(HOUR - 1)
        await trio.testing.wait_all_tasks_blocked()
        assert await of(run, RunStarted) == []
        place.clock.advance(1)
        assert (await run.wait()).output == "done"


@pytest.mark.parametrize("down_for", [HOUR - 1, HOUR, 100 * HOUR])
async def test_a_run_for_later_starts_in_whatever_process_is_there(down_for: int) -> None:
    model = ScriptedModel(["done"])
    async with house() as place:
        start_at = place.clock.now() + HOUR * 10**9
        task = Task("desk", "Go.", options=SubmitOptions(start_at=start_at))
        run = (await place.commands.submit(task)).run
        # A clock that is set back meanwhile moves nothing.
        place.clock.advance(-HOUR)
        place.clock.advance(HOUR + down_for)
        async with place.open(Desk().agent(model)) as runtime:
            if down_for < HOUR:
                await until(runtime, run, "scheduled")
                place.clock.advance(1)
            assert (await runtime.run(run).wait()).output == "done"
            assert len(await of(runtime.run(run), RunStarted)) == 1


async def test_a_run_for_later_can_be_cancelled_paused_and_steered_before_it_starts() -> None:
    model = ScriptedModel(["done"])
    async with house() as place, place.open(Desk().agent(model)) as runtime:
        options = SubmitOptions(start_at=place.clock.now() + HOUR * 10**9)
        dropped = await runtime.submit("desk", "Go.", options=options)
        kept = await runtime.submit("desk", "Go.", options=options)
        await until(runtime, dropped.id, "scheduled")
        await dropped.cancel(by="maria")
        with pytest.raises(RunCancelled):
            await dropped.wait()
        assert await of(dropped, RunStarted) == []
        await kept.steer("Be brief.")
        await kept.pause()
        await until(runtime, kept.id, "paused")
        place.clock.advance(HOUR)
        await trio.testing.wait_all_tasks_blocked()
        assert await of(kept, RunStarted) == []
        await kept.resume()
        await kept.wait()
        assert asked(model.requests[0]) == ["Go.", "Be brief."]
        assert await of(kept, ApprovalRequested) == []


async def test_the_start_belongs_to_what_a_command_id_stands_for() -> None:
    async with house() as place:
        later = SubmitOptions(start_at=place.clock.now() + HOUR)
        first = await place.commands.submit(Task("desk", "Go.", options=later), "c1")
        again = await place.commands.submit(Task("desk", "Go.", options=later), "c1")
        assert (again.run, again.repeated) == (first.run, True)
        with pytest.raises(IdempotencyConflict):
            await place.commands.submit(Task("desk", "Go."), "c1")


NAIVE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)


@pytest.mark.parametrize("bad", [NAIVE, 3.5, True, -1, 2**63, "tomorrow"])
def test_what_is_no_moment_is_refused(bad: object) -> None:
    with pytest.raises(InvalidValue, match="start_at"):
        SubmitOptions(start_at=bad)  # type: ignore[arg-type]  # that is the point
