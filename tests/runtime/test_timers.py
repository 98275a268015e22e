"""A call sleeps in the journal, with nothing in memory, and is answered once when its time has come."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from tests.agents.office import AnyTool, happened, of, until
from tests.runtime.house import House, house

from trouper import (
    Agent,
    DeadlineExceeded,
    Run,
    RunCancelled,
    RunResult,
    Runtime,
    StateKey,
    SubmitOptions,
    Timer,
    ToolMessage,
    ToolResult,
    tool,
)
from trouper.core.events import (
    ActionReceipted,
    ActionStarted,
    ModelRequested,
    RunHeard,
    TimerFired,
    TimerSet,
)
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel, Step, call, calls
from trouper.timers import wait, wait_until

DAY = 86_400
THREE_DAYS = 3 * DAY


def sleeper(*tools: AnyTool, script: Sequence[Step] = ()) -> Agent:
    steps: Sequence[Step] = script or [call("wait", seconds=THREE_DAYS), "done"]
    return Agent("desk", tools=[wait, wait_until, *tools], model=ScriptedModel(steps, by_turn=True))


async def asleep(runtime: Runtime, run: Run) -> None:
    await happened(runtime, run, TimerSet)
    await until(runtime, run.id, "sleeping")
    await trio.testing.wait_all_tasks_blocked()


def answers(result: RunResult) -> list[str]:
    return [str(message.content) for message in result.messages if isinstance(message, ToolMessage)]


def text_at(place: House) -> str:
    moment = dt.datetime.fromtimestamp(place.clock.now() // 10**9, dt.UTC)
    return f"It is now {moment.isoformat().replace('+00:00', 'Z')}."


async def test_a_run_sleeps_for_days_with_nothing_in_memory() -> None:
    async with house() as place, place.open(sleeper()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asleep(runtime, run)
        assert runtime.active == 0
        (timer,) = await of(run, TimerSet)
        assert timer.until == place.clock.now() + THREE_DAYS * 10**9
        head = await runtime.journal.head(f"run/{run.id}")
        assert head is not None
        assert (head.label, head.wake_at) == ("sleeping", timer.until)
        place.clock.advance(THREE_DAYS - 1)
        await trio.testing.wait_all_tasks_blocked()
        assert await of(run, TimerFired) == []
        place.clock.advance(1)
        result = await run.wait()
        assert answers(result) == [text_at(place)]
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.outcome, receipt.evidence) == ("ok", "timer")
        assert len(await of(run, ActionStarted)) == 1


@pytest.mark.parametrize("gone", [DAY, THREE_DAYS, 100 * DAY])
async def test_it_fires_once_over_restarts_and_when_the_clock_jumps(gone: int, tmp_path: Path) -> None:
    async with house(tmp_path / "a.db") as place:
        async with place.open(sleeper()) as runtime:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, TimerSet)
            await until(runtime, run.id, "sleeping")
        # The wall clock is set back, and forward again.
        place.clock.advance(-DAY)
        async with place.open(sleeper()) as runtime:
            await until(runtime, run.id, "sleeping")
            assert await of(runtime.run(run.id), TimerFired) == []
        place.clock.advance(DAY + gone)
        async with place.open(sleeper()) as runtime:
            run = runtime.run(run.id)
            if gone < THREE_DAYS:
                await until(runtime, run.id, "sleeping")
                place.clock.advance(THREE_DAYS - gone)
            assert answers(await run.wait()) == [text_at(place)]
            place.clock.advance(1000 * DAY)
            assert len(await of(run, TimerFired)) == len(await of(run, TimerSet)) == 1


async def test_siblings_go_on_and_two_timers_fire_each_at_its_time() -> None:
    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "seen"

    both = calls(call("wait", seconds=2 * DAY), call("look"), call("wait", seconds=DAY))
    async with house() as place, place.open(sleeper(look, script=[both, "done"])) as runtime:
        run = await runtime.submit("desk", "Go.")
        await happened(runtime, run, TimerSet, 2)
        await until(runtime, run.id, "sleeping")
        place.clock.advance(DAY)
        await happened(runtime, run, TimerFired)
        first = text_at(place)
        await until(runtime, run.id, "sleeping")
        assert len(await of(run, ModelRequested)) == 1
        place.clock.advance(DAY)
        assert answers(await run.wait()) == [text_at(place), "seen", first]


async def test_waiting_until_a_moment_and_what_is_none() -> None:
    later = "2026-01-02T01:00:00+01:00"
    script: list[Step] = [
        call("wait_until", time=later),
        call("wait_until", time="2020-01-01T00:00:00Z"),
        calls(
            call("wait_until", time="2026-01-02T00:00:00"), call("wait_until", time="soon"), call("wait", seconds=-1)
        ),
        "done",
    ]
    async with house() as place, place.open(sleeper(script=script)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asleep(runtime, run)
        (timer,) = await of(run, TimerSet)
        assert timer.until == int(dt.datetime.fromisoformat(later).timestamp()) * 10**9
        place.clock.advance(DAY)
        told = answers(await run.wait())
        # A moment that has passed is answered at once, with the time that it is.
        assert told[:2] == [text_at(place)] * 2
        assert told[2].startswith("'2026-01-02T00:00:00' is not a moment in ISO 8601 with its time zone")
        assert told[3].startswith("'soon' is not")
        assert told[4].startswith("wait between 0 and")


async def test_a_cancelled_run_sleeps_no_more() -> None:
    async with house() as place, place.open(sleeper()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asleep(runtime, run)
        await run.cancel(by="maria", reason="enough")
        with pytest.raises(RunCancelled) as raised:
            await run.wait()
        assert isinstance(raised.value.result, RunResult)
        assert answers(raised.value.result) == ["The wait was cut short: the run was cancelled by maria: enough."]
        assert await of(run, TimerFired) == []
        place.clock.advance(THREE_DAYS)
        await trio.testing.wait_all_tasks_blocked()
        assert await of(run, TimerFired) == []


async def test_a_paused_run_is_not_woken_and_is_told_the_time_at_which_it_goes_on() -> None:
    async with house() as place, place.open(sleeper()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asleep(runtime, run)
        await run.pause()
        await trio.testing.wait_all_tasks_blocked()
        place.clock.advance(10 * DAY)
        await trio.testing.wait_all_tasks_blocked()
        assert await of(run, TimerFired) == []
        assert runtime.active == 0
        await run.resume()
        assert answers(await run.wait()) == [text_at(place)]


async def test_what_is_said_to_a_sleeping_run_waits_for_it_to_wake() -> None:
    async with house() as place, place.open(sleeper()) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asleep(runtime, run)
        await run.steer("Are you there?")
        await until(runtime, run.id, "sleeping")
        await trio.testing.wait_all_tasks_blocked()
        assert await of(run, RunHeard) == []
        assert runtime.active == 0
        place.clock.advance(THREE_DAYS)
        result = await run.wait()
        assert [message.role for message in result.messages] == ["human", "ai", "tool", "human", "ai"]


async def test_a_deadline_comes_before_the_timer() -> None:
    async with house() as place, place.open(sleeper()) as runtime:
        options = SubmitOptions(deadline=place.clock.now() + DAY * 10**9)
        run = await runtime.submit("desk", "Go.", options=options)
        await asleep(runtime, run)
        place.clock.advance(DAY)
        with pytest.raises(DeadlineExceeded) as raised:
            await run.wait()
        assert isinstance(raised.value.result, RunResult)
        assert answers(raised.value.result) == ["The wait was cut short: the run's deadline passed."]


# ---- timers of one's own


async def test_a_tool_of_ones_own_does_its_part_and_is_answered_later() -> None:
    ordered: list[str] = []

    @tool(effect="idempotent_write", secrets={"token": "t"})
    async def order(what: str, *, token: str) -> ToolResult:
        """Order a report."""
        ordered.append(what)
        timer = Timer(seconds=DAY, text=f"The report on {what} should be there ({token}).")
        return ToolResult(timer, update={"orders": what})

    script: list[Step] = [call("order", what="sales"), call("order", what="tax"), "done"]
    agent = Agent(
        "desk",
        tools=[order],
        model=ScriptedModel(script, by_turn=True),
        state={"orders": StateKey(list[str], "append")},
    )
    async with house() as place, place.open(agent, secrets={"t": "s3cret"}) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asleep(runtime, run)
        assert ordered == ["sales"]
        # What it wrote to the named state does not wait.
        assert (await run.state()).named["orders"] == ["sales"]
        place.clock.advance(DAY)
        await happened(runtime, run, TimerSet, 2)
        first = f"The report on sales should be there ([secret]). {text_at(place)}"
        await run.cancel(by="maria")
        with pytest.raises(RunCancelled) as raised:
            await run.wait()
        assert isinstance(raised.value.result, RunResult)
        told = answers(raised.value.result)
        assert "s3cret" not in str(told)
        assert told[0].partition(" (")[0] == first.partition(" (")[0]
        assert told[0].endswith(text_at(place))
        # Cut short, it has taken effect all the same.
        assert told[1] == "Took effect; the wait after that was cut short: the run was cancelled by maria."
        assert [event.outcome for event in await of(run, ActionReceipted)] == ["ok", "ok"]
        assert ordered == ["sales", "tax"]


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"seconds": 1, "until": 2},
        {"seconds": -1},
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"until": -1},
        {"seconds": 1, "text": 5},
    ],
)
def test_what_is_no_timer_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="Timer"):
        Timer(**bad)
