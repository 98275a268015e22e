"""Time limits and cancellation: bounded, honest about doubt, and no receipt lost."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper._clock import SystemClock
from trouper.errors import ToolError
from trouper.tools import Failed, Returned, Tool, ToolContext, ToolHost, ToolReturn, call_tool, tool, tool_attempt


@attrs.define
class LateNews:
    """What tools brought after their calls had been given up."""

    outcomes: list[ToolReturn] = attrs.Factory(list)
    arrived: trio.Event = attrs.Factory(trio.Event)

    def __call__(self, context: ToolContext, outcome: ToolReturn, /) -> None:
        self.outcomes.append(outcome)
        self.arrived.set()


@pytest.fixture
def late() -> LateNews:
    return LateNews()


@pytest.fixture
def limiter() -> trio.CapacityLimiter:
    return trio.CapacityLimiter(4)


@pytest.fixture
def host(nursery: trio.Nursery, limiter: trio.CapacityLimiter, late: LateNews) -> ToolHost:
    return ToolHost(nursery=nursery, clock=SystemClock(), limiter=limiter, grace=5, on_late=late)


IN_DOUBT = Failed("timeout", "it timed out and may still take effect", left=True)


@attrs.define
class Blocker:
    """Holds a sync tool in its thread until the test lets it go."""

    started: trio.Event = attrs.Factory(trio.Event)
    go: threading.Event = attrs.Factory(threading.Event)
    effects: list[str] = attrs.Factory(list)

    def tool(self, **options: float) -> Tool[..., object]:
        def work(ctx: ToolContext) -> str:
            trio.from_thread.run_sync(self.started.set)
            self.go.wait()
            self.effects.append("cancel seen" if ctx.cancel_requested else "done")
            return "late"

        return tool(work, timeout=options.get("timeout"))


@asynccontextmanager
async def calling(made: Tool[..., object], context: ToolContext, host: ToolHost) -> AsyncIterator[Under]:
    under = Under()

    async def run() -> None:
        with under.scope:
            under.outcome = await call_tool(made, {}, context=context, secrets={}, host=host)
            under.reported.set()
            await trio.sleep_forever()
        under.ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield under
        under.scope.cancel()


@attrs.define
class Under:
    """A call under way."""

    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    reported: trio.Event = attrs.Factory(trio.Event)
    ended: trio.Event = attrs.Factory(trio.Event)
    outcome: ToolReturn | None = None


async def test_a_timed_out_thread_is_in_doubt_and_its_end_is_told_late(
    mock_clock: MockClock, context: ToolContext, host: ToolHost, limiter: trio.CapacityLimiter, late: LateNews
) -> None:
    blocker = Blocker()
    async with calling(blocker.tool(timeout=0.05), context, host) as under:
        await blocker.started.wait()
        mock_clock.jump(0.06)
        await under.reported.wait()
        assert under.outcome == IN_DOUBT
        assert late.outcomes == []
        assert limiter.borrowed_tokens == 1
        blocker.go.set()
        await late.arrived.wait()
    assert late.outcomes == [Returned("late")]
    assert blocker.effects == ["cancel seen"]
    assert limiter.borrowed_tokens == 0


async def test_an_async_tool_that_times_out_is_cancelled(
    autojump_clock: MockClock, context: ToolContext, host: ToolHost, late: LateNews
) -> None:
    cleaned: list[str] = []

    @tool(timeout=10)
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
                cleaned.append("yes")

    outcome = await call_tool(work, {}, context=context, secrets={}, host=host)
    assert outcome == Failed("timeout", "it timed out while it was working; whether it took effect is unknown")
    assert cleaned == ["yes"]
    assert trio.current_time() == pytest.approx(12)
    assert late.outcomes == []


async def test_cleanup_without_end_is_left_behind(
    autojump_clock: MockClock, context: ToolContext, host: ToolHost, late: LateNews
) -> None:
    release = trio.Event()

    @tool(timeout=10)
    async def work() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await release.wait()
            raise

    assert await call_tool(work, {}, context=context, secrets={}, host=host) == IN_DOUBT
    assert trio.current_time() == pytest.approx(15)
    assert len(host.nursery.child_tasks) == 1
    release.set()
    await late.arrived.wait()
    ended = "it timed out while it was working; whether it took effect is unknown"
    assert late.outcomes == [Failed("timeout", ended)]
    await wait_all_tasks_blocked()
    assert not host.nursery.child_tasks


async def test_how_a_tool_ends_within_the_grace_is_the_outcome(
    autojump_clock: MockClock, context: ToolContext, host: ToolHost
) -> None:
    @tool(timeout=1)
    async def finishes() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        return "done after all"

    @tool(timeout=1)
    async def knows() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise ToolError("rolled back") from None

    @tool(timeout=1)
    async def fails() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("in cleanup")

    async def outcome(made: Tool[..., object]) -> ToolReturn:
        return await call_tool(made, {}, context=context, secrets={}, host=host)

    assert await outcome(finishes) == Returned("done after all")
    assert await outcome(knows) == Failed("tool_error", "rolled back")
    assert await outcome(fails) == Failed("exception", "ValueError: in cleanup")


async def test_waiting_for_a_thread_is_not_the_tools_time(
    mock_clock: MockClock, context: ToolContext, host: ToolHost
) -> None:
    narrow = attrs.evolve(host, limiter=trio.CapacityLimiter(1))
    first, second = Blocker(), Blocker()
    async with calling(first.tool(), context, narrow) as one:
        await first.started.wait()
        async with calling(second.tool(timeout=5), context, narrow) as two:
            await wait_all_tasks_blocked()
            mock_clock.jump(60)
            second.go.set()
            first.go.set()
            await one.reported.wait()
            await two.reported.wait()
    assert one.outcome == two.outcome == Returned("late")


async def test_a_cancelled_call_returns_the_outcome_of_a_tool_that_ends_in_time(
    context: ToolContext, host: ToolHost
) -> None:
    blocker = Blocker()
    async with calling(blocker.tool(), context, host) as under:
        await blocker.started.wait()
        under.scope.cancel()
        await wait_all_tasks_blocked()
        assert not under.reported.is_set()
        blocker.go.set()
        await under.reported.wait()
        assert under.outcome == Returned("late")
        assert blocker.effects == ["cancel seen"]
        await under.ended.wait()
        assert under.scope.cancelled_caught


async def test_a_cancelled_async_tool_is_cancelled(context: ToolContext, host: ToolHost) -> None:
    running = trio.Event()

    @tool
    async def work(ctx: ToolContext) -> None:
        running.set()
        await trio.sleep_forever()

    async with calling(work, context, host) as under:
        await running.wait()
        under.scope.cancel()
        await under.ended.wait()
        assert under.scope.cancelled_caught
    assert under.outcome == Failed(
        "cancelled", "it was cancelled while it was working; whether it took effect is unknown"
    )


async def test_cancelling_is_bounded_by_the_grace(
    mock_clock: MockClock, context: ToolContext, host: ToolHost, late: LateNews
) -> None:
    blocker = Blocker()
    async with calling(blocker.tool(), context, host) as under:
        await blocker.started.wait()
        under.scope.cancel()
        await wait_all_tasks_blocked()
        mock_clock.jump(host.grace + 1)
        await under.reported.wait()
        assert under.outcome == Failed("cancelled", "it was cancelled and may still take effect", left=True)
        blocker.go.set()
        await late.arrived.wait()
    assert late.outcomes == [Returned("late")]


@pytest.mark.parametrize("sync", [False, True])
async def test_a_call_that_is_cancelled_before_it_starts_runs_nothing(
    context: ToolContext, host: ToolHost, limiter: trio.CapacityLimiter, sync: bool
) -> None:
    ran: list[str] = []

    @tool
    def in_thread() -> None:
        ran.append("thread")

    @tool
    async def in_loop() -> None:
        ran.append("loop")

    with trio.CancelScope() as scope:
        scope.cancel()
        await call_tool(in_thread if sync else in_loop, {}, context=context, secrets={}, host=host)
        pytest.fail("it did not raise")
    assert scope.cancelled_caught
    assert ran == []
    assert limiter.borrowed_tokens == 0


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("seconds", [None, 60])
@pytest.mark.parametrize("sync", [False, True])
async def test_an_abort_in_whatever_moment_of_a_beginning_is_heeded(
    context: ToolContext,
    host: ToolHost,
    limiter: trio.CapacityLimiter,
    late: LateNews,
    sync: bool,
    seconds: float | None,
    narrow: bool,
) -> None:
    aborted = False
    began: list[bool] = []

    def in_thread() -> None:
        began.append(aborted)

    async def in_loop() -> None:
        began.append(aborted)

    made = tool(in_thread if sync else in_loop, timeout=seconds)
    # Trio takes the tasks of one moment in any order: each moment is tried a few times.
    for moments in list(range(8)) * 8:
        outcomes: list[ToolReturn | None] = []
        aborted, places = False, trio.CapacityLimiter(1) if narrow else None
        began.clear()
        async with trio.open_nursery() as nursery:
            own = attrs.evolve(host, nursery=nursery, places=places)
            attempt = tool_attempt(made, {}, context=context, secrets={}, host=own, done=outcomes.append)
            nursery.start_soon(attempt.run)
            for _ in range(moments):
                await trio.lowlevel.checkpoint()
            attempt.abort()
            aborted = True
        (outcome,) = outcomes
        assert True not in began
        if not began:
            assert outcome == Failed("not_begun", "it was cancelled before it began")
        assert limiter.borrowed_tokens == 0
        assert places is None or places.borrowed_tokens == 0
    assert late.outcomes == []


async def test_a_shutdown_does_not_hang_on_a_thread_left_behind(
    mock_clock: MockClock, context: ToolContext, host: ToolHost, late: LateNews
) -> None:
    blocker = Blocker()
    async with trio.open_nursery() as nursery:
        own = attrs.evolve(host, nursery=nursery)
        async with calling(blocker.tool(timeout=1), context, own) as under:
            await blocker.started.wait()
            mock_clock.jump(2)
            await under.reported.wait()
        nursery.cancel_scope.cancel()
    assert under.outcome == IN_DOUBT
    assert late.outcomes == []
    # The loop lives on, so what the thread brings in the end is still told.
    blocker.go.set()
    await late.arrived.wait()
    assert late.outcomes == [Returned("late")]


async def test_errors_in_the_cleanup_of_a_tool_left_behind_do_not_escape(
    autojump_clock: MockClock, context: ToolContext, host: ToolHost, late: LateNews
) -> None:
    @tool(timeout=1)
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(100)
            async with trio.open_nursery() as inner:
                inner.start_soon(trio.sleep_forever)
                raise ValueError("in cleanup")

    async with trio.open_nursery() as nursery:
        own = attrs.evolve(host, nursery=nursery)
        assert await call_tool(work, {}, context=context, secrets={}, host=own) == IN_DOUBT
        nursery.cancel_scope.cancel()
    assert late.outcomes == [Failed("exception", "ValueError: in cleanup")]
