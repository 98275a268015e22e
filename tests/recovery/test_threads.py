"""Calls that outlive their time: what they still bring is neither lost, nor taken for a second outcome."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.office import AnyTool, Office, World, asks, happened, of, office, until

from trouper import Run, RunCancelled, Runtime, ToolMessage, tool
from trouper.core.events import (
    ActionInterrupted,
    ActionReceipted,
    ActionReturnedLate,
    ActionStarted,
    ActionUnresolved,
)
from trouper.errors import ToolError
from trouper.testing import ManualClock

LIMIT = 0.05


@attrs.frozen
class Slow:
    """A tool in a thread that works until the test lets it go, then has its effect."""

    effect: str = "unqueryable_write"
    timeout: float | None = LIMIT
    failure: Exception | None = None
    entered: trio.Event = attrs.Factory(trio.Event)
    release: threading.Event = attrs.Factory(threading.Event)

    def tools(self, world: World) -> Sequence[AnyTool]:
        def slow() -> str:
            """Work."""
            trio.from_thread.run_sync(self.entered.set)
            self.release.wait()
            if self.failure is not None:
                raise self.failure
            world.do("slow")
            return "slow done"

        made: AnyTool = tool(effect=self.effect, timeout=self.timeout)(slow)  # type: ignore[call-overload]  # a class
        return [made]


@asynccontextmanager
async def timed_out(slow: Slow, tmp_path: Path, *, done: bool = True) -> AsyncIterator[tuple[Office, Runtime, Run]]:
    """A run whose one call has outlived its time; its thread is still alive."""
    clock = ManualClock()
    async with (
        office(tmp_path, [asks(("slow", {})), "done"], slow.tools, clock=clock, done=done) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "go")
        await slow.entered.wait()
        await clock.wait_waiting(LIMIT)
        clock.advance(LIMIT)
        try:
            yield desk, runtime, run
        finally:
            slow.release.set()


async def test_case_18_a_timed_out_thread_is_in_doubt_and_its_late_end_settles_that(tmp_path: Path) -> None:
    slow = Slow()
    async with timed_out(slow, tmp_path) as (desk, runtime, run):
        (doubt,) = await happened(runtime, run, ActionUnresolved)
        assert doubt.text == (
            "In doubt: it timed out (it timed out and may still take effect), "
            "and it is unknown whether it took effect; it may still take effect."
        )
        assert desk.world.effects == []
        assert [action.action for action in (await run.result()).in_doubt] == ["0.0"]
        slow.release.set()
        result = await run.wait()
        assert desk.world.effects == ["slow"]
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.attempt, receipt.outcome, receipt.evidence) == (1, "ok", "late")
        assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["slow done"]


@pytest.mark.parametrize("verdict", ["not_applied", "applied", "abandon"])
async def test_case_18_a_late_end_after_a_person_settled_it_is_a_note(verdict: str, tmp_path: Path) -> None:
    slow = Slow()
    async with timed_out(slow, tmp_path) as (desk, runtime, run):
        await happened(runtime, run, ActionUnresolved)
        await runtime.resolve(f"{run.id}/0.0", verdict, by="maria")  # type: ignore[arg-type]  # one of the verdicts
        before = await run.wait()
        slow.release.set()
        (note,) = await happened(runtime, run, ActionReturnedLate)
        assert (note.attempt, note.outcome, note.text) == (1, "ok", "slow done")
        assert len(await of(run, ActionReceipted)) == 1
        assert (await run.wait()).messages == before.messages
        assert desk.world.effects == ["slow"]


async def test_case_18_a_run_that_is_over_is_told_so_though_a_thread_of_it_is_alive(tmp_path: Path) -> None:
    slow = Slow()
    async with timed_out(slow, tmp_path) as (_, runtime, run):
        await happened(runtime, run, ActionUnresolved)
        await runtime.resolve(f"{run.id}/0.0", "abandon", by="maria")
        assert (await run.wait()).status == "succeeded"
        assert (await run.wait()).status == "succeeded"
        assert runtime.active == 1


async def test_case_18_no_second_attempt_starts_while_the_first_is_alive(tmp_path: Path) -> None:
    """Not for a retry that the effect class allows; and the late success spares it."""
    slow = Slow("idempotent_write")
    async with timed_out(slow, tmp_path) as (desk, runtime, run):
        await happened(runtime, run, ActionInterrupted)
        await trio.testing.wait_all_tasks_blocked()
        assert len(await of(run, ActionStarted)) == 1
        slow.release.set()
        await run.wait()
        assert desk.world.effects == ["slow"]
        assert len(await of(run, ActionStarted)) == 1


async def test_case_18_a_thread_that_fails_after_its_time_lets_the_retry_run(tmp_path: Path) -> None:
    slow = Slow("idempotent_write", failure=OSError("broken"))
    async with timed_out(slow, tmp_path, done=False) as (_, runtime, run):
        await happened(runtime, run, ActionInterrupted)
        await trio.testing.wait_all_tasks_blocked()
        assert len(await of(run, ActionStarted)) == 1
        slow.release.set()
        # Three attempts, each of which fails at once now.
        await until(runtime, run.id, "in_doubt")
        assert [event.attempt for event in await of(run, ActionStarted)] == [1, 2, 3]


async def test_case_18_a_call_to_be_run_again_waits_for_the_first_and_is_spared_by_its_success(tmp_path: Path) -> None:
    slow = Slow()
    async with timed_out(slow, tmp_path) as (desk, runtime, run):
        await happened(runtime, run, ActionUnresolved)
        await runtime.resolve(f"{run.id}/0.0", "run_again", by="maria")
        await trio.testing.wait_all_tasks_blocked()
        assert len(await of(run, ActionStarted)) == 1
        slow.release.set()
        await run.wait()
        assert desk.world.effects == ["slow"]


async def test_case_18_a_thread_known_to_have_failed_closes_the_call(tmp_path: Path) -> None:
    slow = Slow(failure=ToolError("nothing was done"))
    async with timed_out(slow, tmp_path) as (desk, runtime, run):
        await happened(runtime, run, ActionUnresolved)
        slow.release.set()
        await run.wait()
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.outcome, receipt.evidence, receipt.text) == ("error", "late", "nothing was done")
        assert desk.world.effects == []


async def test_invariant_08_a_late_end_settles_a_doubt_also_after_the_run_has_ended(tmp_path: Path) -> None:
    slow = Slow()
    async with timed_out(slow, tmp_path, done=False) as (desk, runtime, run):
        await happened(runtime, run, ActionUnresolved)
        await run.cancel(by="maria", reason="enough")
        with pytest.raises(RunCancelled):
            await run.wait()
        assert (await run.result()).status == "cancelled-in-doubt"
        messages = (await run.result()).messages
        slow.release.set()
        await until(runtime, run.id, "cancelled")
        result = await run.result()
        assert result.in_doubt == ()
        # What was handed on stays as it was.
        assert result.messages == messages
        assert desk.world.effects == ["slow"]


def cleaning(cleanup: Callable[[], object], entered: trio.Event) -> Callable[[World], Sequence[AnyTool]]:
    def tools(world: World) -> Sequence[AnyTool]:
        @tool(effect="unqueryable_write", timeout=LIMIT)
        async def slow() -> str:
            """Work for ever, and clean up slowly."""
            entered.set()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await cleanup()  # type: ignore[misc]  # all of them are async
            raise AssertionError

        return [slow]

    return tools


async def test_case_18_cleanup_gets_a_bounded_grace(tmp_path: Path) -> None:
    clock, entered, release = ManualClock(), trio.Event(), trio.Event()
    tools = cleaning(release.wait, entered)
    async with office(tmp_path, [asks(("slow", {})), "done"], tools, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await entered.wait()
        await clock.wait_waiting(LIMIT)
        clock.advance(LIMIT)
        # The cleanup has the two seconds of the runtime's grace, and then is left behind.
        await clock.wait_waiting(2)
        assert await of(run, ActionInterrupted) == []
        clock.advance(2)
        await until(runtime, run.id, "in_doubt")
        release.set()
        await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
        await run.wait()


async def test_case_18_cleanup_that_ends_in_time_is_waited_for(tmp_path: Path) -> None:
    clock, entered, release = ManualClock(), trio.Event(), trio.Event()
    tools = cleaning(release.wait, entered)
    async with office(tmp_path, [asks(("slow", {})), "done"], tools, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await entered.wait()
        await clock.wait_waiting(LIMIT)
        clock.advance(LIMIT)
        await clock.wait_waiting(2)
        release.set()
        (event,) = await happened(runtime, run, ActionInterrupted)
        assert event.cause == "timeout"
        await until(runtime, run.id, "in_doubt")
        await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
        await run.wait()


async def test_case_18_a_thread_within_an_async_tool_is_not_abandoned_silently(tmp_path: Path) -> None:
    """The tool's own time is up, but not that of the function that it runs in a thread: its end is heard of."""
    clock, entered, release = ManualClock(), trio.Event(), threading.Event()

    def tools(world: World) -> Sequence[AnyTool]:
        def inner() -> None:
            trio.from_thread.run_sync(entered.set)
            release.wait()
            world.do("inner")

        @tool(timeout=LIMIT)
        async def outer() -> str:
            """Work in a thread."""
            await trio.to_thread.run_sync(inner)
            return "outer done"

        return [outer]

    async with office(tmp_path, [asks(("outer", {})), "done"], tools, clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await entered.wait()
        await clock.wait_waiting(LIMIT)
        clock.advance(LIMIT)
        await clock.wait_waiting(2)
        clock.advance(2)
        await until(runtime, run.id, "in_doubt")
        assert desk.world.effects == []
        release.set()
        await run.wait()
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.evidence, receipt.text) == ("late", "outer done")
        assert desk.world.effects == ["inner"]


PROGRAM = """
import sys, threading, trio
from trouper import Agent, Runtime, RuntimeOptions, tool
from trouper.testing import ScriptedModel, call

@tool(timeout=0.01)
def stuck() -> str:
    "Never return."
    threading.Event().wait()

async def main():
    agent = Agent("desk", tools=[stuck], model=ScriptedModel([call("stuck"), "done"]))
    async with Runtime.open(sys.argv[1], [agent], options=RuntimeOptions(drain=0.05, grace=0.05)) as runtime:
        run = await runtime.submit("desk", "go")
        async with runtime.journal.news() as news:
            while not (await run.result()).in_doubt:
                await news.wait()
        print((await run.result()).status)

trio.run(main)
print("left")
"""


def test_case_18_a_thread_that_never_ends_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "journal.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["in_doubt", "left"]
    assert done.returncode == 0
