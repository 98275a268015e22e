"""Tools that fail in passing: attempts by the tool's own policy, and by the model's own patience."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio.testing
from tests.agents.office import World, asks, happened, of, office, pending, told, until

from trouper import DefinitionError, Effect, Retry, ToolError, TransientError, tool
from trouper.core.events import ActionInterrupted, ActionReceipted, ActionStarted, ActionUnresolved
from trouper.testing import ManualClock
from trouper.testing._answers import Answer
from trouper.tools import Tool

SECOND = 1_000_000_000
POLICY = Retry(attempts=4, initial=10, factor=3, max=60, on=(ConnectionError,))


def failing(world: World, failures: Sequence[Exception], **declared: object) -> list[Tool[..., object]]:
    """``fetch()``, which fails so before it gives its result."""
    left = list(failures)

    def fetch() -> str:
        """Fetch."""
        world.do("fetch")
        if left:
            raise left.pop(0)
        return "fetched"

    options: Any = {"effect": "read_only", "retry": POLICY, **declared}
    return [tool(fetch, **options)]


async def test_attempts_follow_each_other_as_the_policy_says_also_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    failures = [ConnectionResetError("gone"), TransientError("busy"), ConnectionError("no route")]
    async with office(
        tmp_path, [asks(("fetch", {})), "Done."], lambda world: failing(world, list(failures)), clock=clock
    ) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "fetch it")
            for count, longest in ((1, 10), (2, 30)):
                last = clock.now()
                cut = (await happened(runtime, run, ActionInterrupted, count))[-1]
                assert cut.cause == ("retryable" if count == 1 else "transient")
                assert cut.retry_at is not None
                assert longest * SECOND // 2 <= cut.retry_at - last <= longest * SECOND
                clock.advance((cut.retry_at - last) / SECOND)
            last = clock.now()
            cut = (await happened(runtime, run, ActionInterrupted, 3))[-1]
            # Thrice thirty seconds would be above the most.
            assert cut.retry_at is not None
            assert cut.retry_at - last <= 60 * SECOND
        async with desk.open() as runtime:
            await until(runtime, run.id, "retrying")
            await trio.testing.wait_all_tasks_blocked()
            assert len(desk.world.effects) == 3
            clock.advance(60)
            run = runtime.run(run.id)
            assert (await run.wait()).output == "Done."
            assert [event.attempt for event in await of(run, ActionStarted)] == [1, 2, 3, 4]
            (receipt,) = await of(run, ActionReceipted)
            assert (receipt.attempt, receipt.outcome, receipt.text) == (4, "ok", "fetched")
        assert told(desk.stub.requests[-1].messages) == ["fetched"]


@pytest.mark.parametrize(("asked", "waited"), [(7, 7), (1e300, 86_400), (float("inf"), 86_400)])
@pytest.mark.parametrize("policy", [None, Retry(initial=1)])
async def test_a_tool_may_say_how_long_to_wait(tmp_path: Path, policy: Retry | None, asked: float, waited: int) -> None:
    clock = ManualClock()
    busy = [TransientError("busy", retry_after=asked)]
    async with (
        office(
            tmp_path,
            [asks(("fetch", {})), "Done."],
            lambda world: failing(world, busy, effect=None, retry=policy),
            clock=clock,
        ) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "fetch it")
        (cut,) = await happened(runtime, run, ActionInterrupted)
        assert cut.retry_at == clock.now() + waited * SECOND
        assert cut.message == "busy"
        clock.advance(waited)
        assert (await run.wait()).output == "Done."


@pytest.mark.parametrize("nonsense", [-1, 0, float("nan"), "soon", True])
async def test_a_wait_that_is_none_is_not_heeded(tmp_path: Path, nonsense: Any) -> None:
    clock = ManualClock()
    busy = [TransientError("busy", retry_after=nonsense)]
    async with (
        office(tmp_path, [asks(("fetch", {})), "Done."], lambda world: failing(world, busy), clock=clock) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "fetch it")
        (cut,) = await happened(runtime, run, ActionInterrupted)
        assert cut.retry_at is not None
        assert cut.retry_at <= clock.now() + 10 * SECOND
        clock.advance(10)
        await run.wait()


async def test_attempts_end_and_the_model_is_told(tmp_path: Path) -> None:
    clock = ManualClock()
    failures = [ConnectionError(f"no route {n}") for n in range(9)]
    async with (
        office(
            tmp_path,
            [asks(("fetch", {})), "Sorry."],
            lambda world: failing(world, failures, retry=Retry(2, initial=0, on=ConnectionError)),
            clock=clock,
        ) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "fetch it")
        assert (await run.wait()).output == "Sorry."
        assert desk.world.effects == ["fetch", "fetch"]
        assert told(desk.stub.requests[-1].messages) == ["Failed: it raised an error: ConnectionError: no route 1."]


async def test_errors_that_nobody_declared_are_not_tried_again(tmp_path: Path) -> None:
    async with (
        office(
            tmp_path, [asks(("fetch", {})), "Sorry."], lambda world: failing(world, [KeyError("x"), ValueError("y")])
        ) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "fetch it")
        await run.wait()
        assert desk.world.effects == ["fetch"]
        assert told(desk.stub.requests[-1].messages) == ["Failed: it raised an unexpected error: KeyError: 'x'."]


async def test_a_write_whose_attempts_end_in_declared_errors_is_in_doubt(tmp_path: Path) -> None:
    """What nobody knows is not told to be known, however often it was tried."""
    clock = ManualClock()
    failures = [ConnectionError("reset"), ConnectionError("reset")]
    async with (
        office(
            tmp_path,
            [asks(("fetch", {})), "Done."],
            lambda world: failing(
                world, failures, effect="idempotent_write", retry=Retry(2, initial=0, on=(ConnectionError,))
            ),
            clock=clock,
        ) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "fetch it")
        await happened(runtime, run, ActionUnresolved)
        assert [event.cause for event in await of(run, ActionInterrupted)] == ["retryable", "retryable"]
        await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
        assert (await run.wait()).output == "Done."


@pytest.mark.parametrize("effect", [None, "unqueryable_write", Effect.UNQUERYABLE_WRITE])
def test_an_unqueryable_write_declares_no_errors(effect: Effect | None) -> None:
    def send() -> None: ...

    with pytest.raises(DefinitionError, match="tool send, retry: an unqueryable_write is not tried again"):
        tool(send, effect=effect, retry=POLICY)
    # Without errors of its own the policy says how long to wait after a TransientError.
    assert tool(send, effect=effect, retry=Retry(5)).options.attempts == 5


@pytest.mark.parametrize(
    "bad",
    [
        {"attempts": 0},
        {"attempts": True},
        {"initial": -1},
        {"initial": float("nan")},
        {"factor": 0.5},
        {"max": 1e9},
        {"on": "ConnectionError"},
        {"on": (KeyboardInterrupt,)},
        {"on": 5},
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(DefinitionError, match=f"retry, {next(iter(bad))}"):
        Retry(**bad)  # type: ignore[arg-type]  # what is to be refused


def test_attempts_are_declared_once() -> None:
    with pytest.raises(DefinitionError, match="leave out attempts="):
        tool(lambda: None, name="look", effect="read_only", attempts=2, retry=Retry())
    with pytest.raises(DefinitionError, match="give a Retry, not int"):
        tool(lambda: None, name="look", effect="read_only", retry=3)  # type: ignore[call-overload]  # to be refused


@pytest.mark.parametrize("restart", [False, True])
async def test_the_model_tries_again_by_itself(tmp_path: Path, *, restart: bool) -> None:
    """Two refusals in words, then a result: three calls of three ids, each with its receipt."""
    answers = ["TEMP_UNAVAILABLE: try again", "TEMP_UNAVAILABLE: try again", "42"]

    @tool(effect="read_only", requires_approval=restart)
    def measure() -> str:
        """Measure."""
        answer = answers.pop(0)
        if answer.startswith("TEMP_UNAVAILABLE:"):
            raise ToolError(answer)
        return answer

    script: list[Answer] = [asks(("measure", {})), asks(("measure", {})), asks(("measure", {})), "It is 42."]
    async with office(tmp_path, script, [measure]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "measure")
            if restart:
                await pending(runtime)
        for turn in range(3 if restart else 0):
            async with desk.open() as runtime:
                (waiting,) = await pending(runtime)
                await runtime.approve(waiting.action, by="maria")
                await happened(runtime, runtime.run(run.id), ActionReceipted, turn + 1)
                if turn < 2:
                    await pending(runtime)
        async with desk.open() as runtime:
            run = runtime.run(run.id)
            assert (await run.wait()).output == "It is 42."
            receipts = await of(run, ActionReceipted)
            assert [(each.action, each.outcome, each.text) for each in receipts] == [
                ("0.0", "error", "TEMP_UNAVAILABLE: try again"),
                ("1.0", "error", "TEMP_UNAVAILABLE: try again"),
                ("2.0", "ok", "42"),
            ]
            assert len(await of(run, ActionStarted)) == 3
        sent = [
            call["id"]  # type: ignore[index, call-overload]  # a request's JSON
            for message in desk.stub.requests[-1].messages
            for call in message.get("tool_calls") or ()  # type: ignore[union-attr]  # a request's JSON
        ]
        assert len(sent) == len(set(sent)) == 3
        assert answers == []
