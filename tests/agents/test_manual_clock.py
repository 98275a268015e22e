"""`ManualClock`: time that a test moves."""

from __future__ import annotations

import math

import trio
import trio.testing

from trouper._clock import Clock
from trouper.testing import ManualClock

SECOND = 1_000_000_000


async def test_sleepers_wake_when_their_moment_has_come_and_not_before(nursery: trio.Nursery) -> None:
    clock = ManualClock()
    begin = clock.now()
    woken: list[int] = []

    async def sleep(seconds: int) -> None:
        await clock.sleep_until(begin + seconds * SECOND)
        woken.append(seconds)

    for seconds in (3, 1, 2):
        nursery.start_soon(sleep, seconds)
        await clock.wait_waiting(seconds)
    assert clock.waiting == tuple(begin + seconds * SECOND for seconds in (1, 2, 3))
    clock.advance(0.999)
    await trio.testing.wait_all_tasks_blocked()
    assert woken == []
    clock.advance(1.001)
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(woken) == [1, 2]
    assert clock.now() == begin + 2 * SECOND
    clock.advance(1)
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(woken) == [1, 2, 3]
    assert clock.waiting == ()


async def test_a_moment_that_has_passed_is_not_waited_for() -> None:
    clock = ManualClock(5 * SECOND)
    with trio.testing.assert_checkpoints():
        await clock.sleep_until(5 * SECOND)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    with trio.CancelScope() as scope:
        scope.cancel()
        await clock.sleep_until(clock.now() + SECOND)
    assert clock.waiting == ()


async def test_time_limits_cancel_what_runs_under_them(nursery: trio.Nursery) -> None:
    clock: Clock
    clock = manual = ManualClock()
    caught: list[bool] = []

    async def work(seconds: float) -> None:
        with clock.timeout(seconds) as limit:
            await trio.Event().wait()
        caught.append(limit.cancelled_caught)

    nursery.start_soon(work, 2.5)
    nursery.start_soon(work, math.inf)
    await manual.wait_waiting(2.5)
    manual.advance(2.4)
    await trio.testing.wait_all_tasks_blocked()
    assert caught == []
    manual.advance(0.1)
    await trio.testing.wait_all_tasks_blocked()
    assert caught == [True]
    with clock.timeout(0) as limit:
        await trio.Event().wait()
    assert limit.cancelled_caught
    with clock.timeout(0.05):
        assert manual.waiting == (manual.moment + SECOND // 20,)
    with clock.timeout(1) as limit:
        await trio.lowlevel.checkpoint()
    manual.advance(5)
    assert not limit.cancel_called
    nursery.cancel_scope.cancel()
