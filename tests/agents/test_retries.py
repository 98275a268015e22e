"""Model requests that fail: one layer of retries, journaled, at the provider's pace, and the same over restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio.testing
from tests.agents.office import happened, of, office, until

from trouper import Limits, RunFailed
from trouper.core.events import ModelFailed, ModelRequested, ModelResponded
from trouper.testing import Drop, ManualClock, Raw, Status
from trouper.testing._answers import Answer

SECOND = 1_000_000_000
BUSY = Status(429, headers={"retry-after": "7"})


@pytest.mark.parametrize("restart", [False, True])
async def test_a_busy_provider_is_asked_again_when_it_said(tmp_path: Path, *, restart: bool) -> None:
    clock = ManualClock()
    async with office(tmp_path, [BUSY, "Hello."], by_turn=False, clock=clock) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Hello?")
            begin = clock.now()
            (failed,) = await happened(runtime, run, ModelFailed)
            assert (failed.status, failed.retry_at) == (429, begin + 7 * SECOND)
            head = await runtime.journal.head(f"run/{run.id}")
            assert head is not None
            assert (head.label, head.wake_at) == ("retrying", begin + 7 * SECOND)
            clock.advance(6.999)
            await trio.testing.wait_all_tasks_blocked()
            assert len(desk.stub.requests) == 1
            if not restart:
                clock.advance(0.001)
                assert (await run.wait()).output == "Hello."
        if restart:
            async with desk.open() as runtime:
                await until(runtime, run.id, "retrying")
                await trio.testing.wait_all_tasks_blocked()
                assert len(desk.stub.requests) == 1
                clock.advance(0.001)
                assert (await runtime.run(run.id).wait()).output == "Hello."
        assert len(desk.stub.requests) == 2


@pytest.mark.parametrize("asked", ["86401", "1796065870", "1796065870123", "1e300"])
async def test_nobody_is_waited_for_longer_than_a_day(tmp_path: Path, asked: str) -> None:
    clock = ManualClock()
    # Some providers name a moment where a number of seconds belongs.
    absurd = Status(429, headers={"retry-after": asked})
    async with office(tmp_path, [absurd, "Hello."], by_turn=False, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Hello?")
        (failed,) = await happened(runtime, run, ModelFailed)
        assert failed.retry_at == clock.now() + 86_400 * SECOND
        clock.advance(86_400)
        assert (await run.wait()).output == "Hello."


async def test_each_request_on_the_wire_is_an_event_and_nobody_else_retries(tmp_path: Path) -> None:
    clock = ManualClock()
    failures: list[Answer] = [Status(500), Drop(), Status(503), Raw(b"<html>")]
    async with (
        office(tmp_path, [*failures, "Hello."], by_turn=False, clock=clock) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Hello?")
        last = clock.now()
        for count in range(1, len(failures) + 1):
            failed = (await happened(runtime, run, ModelFailed, count))[-1]
            assert len(desk.stub.requests) == count
            assert failed.retry_at is not None
            # Doubled from half a second, with jitter downwards to the half.
            longest = SECOND // 2 * 2 ** (count - 1)
            assert longest // 2 <= failed.retry_at - last <= longest
            clock.advance((failed.retry_at - last) / SECOND)
            last = clock.now()
        assert (await run.wait()).output == "Hello."
        requested = await of(run, ModelRequested)
        assert [(event.index, event.attempt) for event in requested] == [(0, n) for n in range(1, 6)]
        # The same messages every time.
        assert len({event.digest for event in requested}) == 1
        assert len({request.raw for request in desk.stub.requests}) == 1
        (responded,) = await of(run, ModelResponded)
        assert (responded.attempt, responded.request_id) == (5, "req-5")


async def test_a_run_gives_up_after_its_attempts_and_can_be_resumed(tmp_path: Path) -> None:
    clock = ManualClock()
    answers: Iterator[Answer] = iter([Status(500), Status(500), Status(500), Status(500), "Hello."])
    async with office(tmp_path, lambda _: next(answers), clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Hello?", limits=Limits(model_attempts=3))
        for count in (1, 2):
            await happened(runtime, run, ModelFailed, count)
            clock.advance(60)
        with pytest.raises(RunFailed, match="the provider answered 500: injected"):
            await run.wait()
        assert len(desk.stub.requests) == 3
        await runtime.resume(run.id, by="maria", reason="the provider is back")
        # It has as many attempts again.
        await happened(runtime, run, ModelFailed, 4)
        clock.advance(60)
        assert (await run.wait()).output == "Hello."
        assert [event.attempt for event in await of(run, ModelRequested)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_cannot_help_is_not_tried_again(tmp_path: Path, status: int) -> None:
    async with office(tmp_path, [Status(status)]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Hello?")
        with pytest.raises(RunFailed, match=f"the provider answered {status}"):
            await run.wait()
        assert len(desk.stub.requests) == 1
        (failed,) = await of(run, ModelFailed)
        assert (failed.status, failed.retry_at) == (status, None)


async def test_restarts_use_up_no_attempts(tmp_path: Path) -> None:
    clock = ManualClock()
    async with office(tmp_path, lambda _: Status(500), clock=clock) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Hello?", limits=Limits(model_attempts=2))).id
            await happened(runtime, runtime.run(run_id), ModelFailed)
        for _ in range(3):
            async with desk.open() as runtime:
                await until(runtime, run_id, "retrying")
        clock.advance(60)
        async with desk.open() as runtime:
            with pytest.raises(RunFailed):
                await runtime.run(run_id).wait()
        assert len(desk.stub.requests) == 2
