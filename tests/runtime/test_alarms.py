"""What is due at a moment happens at that moment, whatever else is under way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from tests.agents.office import AnyTool, happened, of, pending, until
from tests.runtime.house import House, house

from trouper import Agent, ApprovalError, Principal, Run, Runtime, ToolMessage, TransientError, tool
from trouper.core.commands import Judgement
from trouper.core.events import ActionInterrupted, ActionReceipted, ActionStarted, ApprovalDecided, ApprovalExpired
from trouper.testing import ScriptedModel, call, calls

HOUR = 3600


@attrs.define
class Desk:
    """Tools that take their time, and one that needs a person within an hour."""

    effects: list[str] = attrs.Factory(list)
    began: trio.Event = attrs.Factory(trio.Event)
    go: trio.Event = attrs.Factory(trio.Event)
    failures: int = 1

    def tools(self) -> Sequence[AnyTool]:
        @tool(effect="read_only")
        async def watch() -> str:
            """Work until the test says so."""
            self.began.set()
            await self.go.wait()
            return "watched"

        @tool(effect="idempotent_write", attempts=5)
        async def send() -> str:
            """Send; the line is busy at first."""
            if self.failures:
                self.failures -= 1
                raise TransientError("busy")
            self.effects.append("sent")
            return "sent"

        @tool(requires_approval=True, approval_expires=HOUR)
        async def pay(to: str) -> str:
            """Pay."""
            self.effects.append(f"paid {to}")
            return "paid"

        return [watch, send, pay]

    def agent(self, *names: str, called: str = "desk") -> Agent:
        asked = calls(*(call(name, **({"to": "a"} if name == "pay" else {})) for name in names))
        return Agent(called, tools=self.tools(), model=ScriptedModel([asked, "done"], by_turn=True))


LAPSED = "Not started: the request for approval expired before anybody decided."


async def answers(run: Run) -> list[object]:
    result = await run.wait()
    return [message.content for message in result.messages if isinstance(message, ToolMessage)]


@asynccontextmanager
async def at_work(desk: Desk, *names: str) -> AsyncIterator[tuple[House, Runtime, Run]]:
    """A run with these calls; where ``watch`` is one of them, it has begun."""
    async with house() as place, place.open(desk.agent(*names)) as runtime:
        run = await runtime.submit("desk", "Go.")
        if "watch" in names:
            await desk.began.wait()
        yield place, runtime, run


async def test_a_request_lapses_at_its_time_while_a_sibling_works() -> None:
    desk = Desk()
    async with at_work(desk, "watch", "pay") as (place, runtime, run):
        await pending(runtime)
        place.clock.advance(HOUR - 1)
        await trio.testing.wait_all_tasks_blocked()
        assert await of(run, ApprovalExpired) == []
        place.clock.advance(1)
        await happened(runtime, run, ApprovalExpired)
        (receipt,) = await happened(runtime, run, ActionReceipted)
        assert (receipt.action, receipt.text) == ("0.1", LAPSED)
        desk.go.set()
        assert await answers(run) == ["watched", LAPSED]
        assert desk.effects == []


async def test_a_call_is_tried_again_at_its_time_while_a_sibling_works() -> None:
    desk = Desk()
    async with at_work(desk, "watch", "send") as (place, runtime, run):
        (interrupted,) = await happened(runtime, run, ActionInterrupted)
        assert interrupted.retry_at is not None
        place.clock.advance((interrupted.retry_at - place.clock.now() - 1) / 1e9)
        await trio.testing.wait_all_tasks_blocked()
        assert desk.effects == []
        place.clock.advance(1e-9)
        (receipt,) = await happened(runtime, run, ActionReceipted)
        assert (receipt.action, receipt.attempt) == ("0.1", 2)
        assert desk.effects == ["sent"]
        desk.go.set()
        assert await answers(run) == ["watched", "sent"]


@pytest.mark.parametrize("works", [True, False], ids=["a sibling works", "nothing works"])
async def test_of_two_alarms_the_later_one_is_kept_too(*, works: bool) -> None:
    desk = Desk(failures=2)
    calls_made = ("send", "pay", "watch") if works else ("send", "pay")
    async with at_work(desk, *calls_made) as (place, runtime, run):
        await pending(runtime)
        for count in (1, 2):
            await happened(runtime, run, ActionInterrupted, count)
            place.clock.advance(60)
        await happened(runtime, run, ActionReceipted)
        assert desk.effects == ["sent"]
        assert await of(run, ApprovalExpired) == []
        place.clock.advance(HOUR - 120)
        await happened(runtime, run, ApprovalExpired)
        desk.go.set()
        assert await answers(run) == ["sent", LAPSED, "watched"][: len(calls_made)]


async def test_each_run_keeps_its_own_time_in_memory_or_not() -> None:
    desk = Desk()
    agents = [desk.agent("pay", called="idle"), desk.agent("watch", "pay", called="busy")]
    async with house() as place, place.open(*agents) as runtime:
        first = await runtime.submit("idle", "Go.")
        await pending(runtime)
        place.clock.advance(HOUR / 2)
        second = await runtime.submit("busy", "Go.")
        await pending(runtime, 2)
        place.clock.advance(HOUR / 4)
        third = await runtime.submit("idle", "Go.")
        await pending(runtime, 3)
        for number, run in enumerate((first, second, third)):
            place.clock.advance(HOUR / 4 if number != 1 else HOUR / 2)
            await happened(runtime, run, ApprovalExpired)
            assert len(await runtime.approvals()) == 2 - number
        desk.go.set()
        for run in (first, second, third):
            assert LAPSED in await answers(run)
        assert desk.effects == []


# ---- decisions and their time

TOO_LATE: list[Judgement] = [
    Judgement("approve", Principal("maria")),
    Judgement("approve", Principal("maria"), arguments={"to": "b"}),
    Judgement("deny", Principal("maria")),
]


@pytest.mark.parametrize("judgement", TOO_LATE, ids=["approve", "edit", "deny"])
@pytest.mark.parametrize("where", ["while a sibling works", "while nothing works", "while the runtime is down"])
async def test_a_decision_after_the_time_is_refused_and_changes_nothing(judgement: Judgement, where: str) -> None:
    """The time alone makes it late: nobody has recorded yet that the request has lapsed."""
    desk = Desk()
    names = ("watch", "pay") if where == "while a sibling works" else ("pay",)
    async with house() as place:
        async with place.open(desk.agent(*names)) as runtime:
            run = await runtime.submit("desk", "Go.")
            (asked,) = await pending(runtime)
            (hold,) = place.stage.hold(1)
            if where != "while the runtime is down":
                await place.clock.wait_waiting(HOUR)
                place.clock.advance(HOUR)
                await hold.reached.wait()
                await refused(place, run, asked.action, judgement)
                hold.go.set()
                desk.go.set()
                assert LAPSED in await answers(run)
        if where == "while the runtime is down":
            place.clock.advance(HOUR)
            await refused(place, run, asked.action, judgement)
            hold.go.set()
        async with place.open(desk.agent(*names)) as runtime:
            assert LAPSED in await answers(runtime.run(run.id))
        assert desk.effects == []


async def refused(place: House, run: Run, action: str, judgement: Judgement) -> None:
    assert await place.commands.approvals() == []
    with pytest.raises(ApprovalError, match="can no longer be decided: the request has expired"):
        await place.commands.decide(action, judgement)
    assert await of(run, ApprovalDecided) == []
    assert await of(run, ApprovalExpired) == []


async def test_a_decision_in_time_counts_though_it_is_seen_long_after() -> None:
    desk = Desk()
    async with house() as place:
        async with place.open(desk.agent("pay")) as runtime:
            run = await runtime.submit("desk", "Go.")
            (asked,) = await pending(runtime)
            await until(runtime, run.id, "awaiting_approval")
        place.clock.advance(HOUR - 1)
        await place.commands.decide(asked.action, Judgement("approve", Principal("maria")))
        place.clock.advance(24 * HOUR)
        async with place.open(desk.agent("pay")) as runtime:
            run = runtime.run(run.id)
            assert await answers(run) == ["paid"]
            assert len(await of(run, ActionStarted)) == 1
        assert desk.effects == ["paid a"]
