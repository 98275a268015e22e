"""A cancelled program: what is done has its receipt, what is not known says so, and the cancellation comes through."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from tests.agents.office import AnyTool, Office, World, asks, happened, of, office, pending, types, until

from trouper import REGISTRY, Run, RunCancelled, Runtime, RuntimeOptions, ToolMessage, tool
from trouper.core.conversation import Value
from trouper.core.events import (
    ActionInterrupted,
    ActionReceipted,
    ActionStarted,
    CancelRequested,
    ModelLost,
    ModelRequested,
    ModelResponded,
)
from trouper.testing import Chunks, Reply
from trouper_journal import Journal, JournalOptions
from trouper_journal.testing import FaultyStore

QUICK = RuntimeOptions(drain=0.05, grace=0.05)
"""For what would wait for its time to be up."""


async def the_run(desk: Office, runtime: Runtime) -> Run:
    """The journal's one run."""
    (head,) = [head async for head in runtime.journal.streams(prefix="run/")]
    return runtime.run(head.stream.removeprefix("run/"))


def cancelling_tool(scope: trio.CancelScope, world: World, *, sync: bool, checkpoint: bool) -> Sequence[AnyTool]:
    """A tool that cancels the program right after its effect."""

    def pay() -> str:
        world.do("pay")
        trio.from_thread.run_sync(scope.cancel)
        return "paid"

    async def pay_async() -> str:
        world.do("pay")
        scope.cancel()
        if checkpoint:
            await trio.lowlevel.checkpoint()
        return "paid"

    return [tool(name="pay")(pay) if sync else tool(name="pay")(pay_async)]


@pytest.mark.parametrize(("sync", "checkpoint"), [(True, False), (False, False), (False, True)])
async def test_invariant_13_a_done_effect_is_receipted_though_the_program_is_cancelled(
    tmp_path: Path, *, sync: bool, checkpoint: bool
) -> None:
    scope = trio.CancelScope()
    async with office(
        tmp_path,
        [asks(("pay", {})), "done"],
        lambda world: cancelling_tool(scope, world, sync=sync, checkpoint=checkpoint),
    ) as desk:
        with scope:
            async with desk.open() as runtime:
                await (await runtime.submit("desk", "go")).wait()
        assert scope.cancelled_caught
        async with desk.journal() as journal:
            recorded = [record.type async for record in journal.read_all()]
            # Whether the run's next turn comes before the cancellation is seen is for the event loop to say.
            assert recorded.count("action.receipted") == 1
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            assert (await run.wait()).output == "done"
            assert len(await of(run, ActionStarted)) == 1
        assert desk.world.effects == ["pay"]


@pytest.mark.parametrize("moment", range(0, 60, 3))
async def test_case_04_cancelled_while_it_opens_a_program_comes_to_its_end(tmp_path: Path, moment: int) -> None:
    """After so many steps of the event loop, from the opening of the file to the first request."""
    steps = 0

    class Count(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += 1
            if steps == moment:
                scope.cancel()

    async with office(tmp_path, ["done"], done=False) as desk:
        counting = Count()
        with trio.CancelScope() as scope:
            trio.lowlevel.add_instrument(counting)
            try:
                async with desk.open() as runtime:
                    await runtime.submit("desk", "go")
                    scope.cancel()
                    await trio.sleep_forever()
            finally:
                trio.lowlevel.remove_instrument(counting)
        assert scope.cancelled_caught
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "go", command_id="again")
            assert (await run.wait()).output == "done"


async def test_case_04_cancelled_with_a_reply_under_way_journals_it_and_starts_nothing(tmp_path: Path) -> None:
    scope = trio.CancelScope()

    def answer(body: dict[str, Value]) -> Reply:
        if scope.cancel_called:
            return Reply("done")
        scope.cancel()
        return asks(("add", {"n": 1}))

    async with office(tmp_path, answer, lambda world: [world.adder()]) as desk:
        with scope:
            async with desk.open() as runtime:
                await (await runtime.submit("desk", "go")).wait()
        assert scope.cancelled_caught
        assert desk.world.effects == []
        async with desk.journal() as journal:
            assert [record.type async for record in journal.read_all()][-1] == "model.responded"
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            assert (await run.wait()).output == "done"
            assert [(event.index, event.attempt) for event in await of(run, ModelRequested)] == [(0, 1), (1, 1)]
        assert desk.world.effects == ["add 1"]
        assert len(desk.stub.requests) == 2


async def test_case_04_cancelled_in_the_middle_of_a_stream_says_that_the_reply_is_lost(tmp_path: Path) -> None:
    scope = trio.CancelScope()
    never = trio.Event()
    broken_off = Chunks([{"role": "assistant", "content": "do"}, never, {"content": "ne"}])

    def answer(body: dict[str, Value]) -> Reply | Chunks:
        if scope.cancel_called:
            return Reply("done")
        scope.cancel()
        return broken_off

    async with office(tmp_path, answer, stream=True) as desk:
        with scope:
            async with desk.open(options=QUICK) as runtime:
                await (await runtime.submit("desk", "go")).wait()
        assert scope.cancelled_caught
        await desk.stub.wait_until(lambda stub: stub.disconnects == 1)
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            assert (await run.wait()).output == "done"
            assert [event.reason for event in await of(run, ModelLost)] == ["shutdown"]
            assert [event.attempt for event in await of(run, ModelResponded)] == [2]
            assert (await run.result()).usage.unknown == 1


async def test_case_04_cancelled_while_an_approval_waits_changes_nothing(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("send_email", {"to": "a"})), "done"], lambda world: [world.mailer()]) as desk:
        with trio.CancelScope() as scope:
            async with desk.open() as runtime:
                run = await runtime.submit("desk", "go")
                (before,) = await pending(runtime)
                version = len(await run.events())
                scope.cancel()
                await run.wait()
        assert scope.cancelled_caught
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            assert await runtime.approvals() == [before]
            assert len(await run.events()) == version
            await runtime.approve(before.action, by="maria")
            assert (await run.wait()).output == "done"
        assert desk.world.effects == ["mail a"]


async def test_case_04_waiting_for_a_run_can_be_cancelled_and_the_run_goes_on(tmp_path: Path) -> None:
    async with (
        office(tmp_path, [asks(("send_email", {"to": "a"})), "done"], lambda world: [world.mailer()]) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "go")
        (asked,) = await pending(runtime)
        with trio.move_on_after(0) as scope:
            await run.wait()
        assert scope.cancelled_caught
        await runtime.approve(asked.action, by="maria")
        assert (await run.wait()).output == "done"


async def test_invariant_13_a_second_cancel_during_cleanup_loses_no_receipt(tmp_path: Path) -> None:
    """The first cancel stops the program; while it waits for what is under way, another comes from further out."""
    entered, release = trio.Event(), trio.Event()

    def tools(world: World) -> Sequence[AnyTool]:
        @tool
        async def pay() -> str:
            """Pay, slowly."""
            entered.set()
            await release.wait()
            world.do("pay")
            return "paid"

        return [pay]

    async with office(tmp_path, [asks(("pay", {})), "done"], tools) as desk:
        inner, outer = trio.CancelScope(), trio.CancelScope()

        async def disturb() -> None:
            await entered.wait()
            inner.cancel()
            await trio.testing.wait_all_tasks_blocked()
            outer.cancel()
            await trio.testing.wait_all_tasks_blocked()
            release.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(disturb)
            with outer, inner:
                async with desk.open() as runtime:
                    await (await runtime.submit("desk", "go")).wait()
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            await run.wait()
            assert [receipt.attempt for receipt in await of(run, ActionReceipted)] == [1]
        assert desk.world.effects == ["pay"]


async def test_case_04_a_write_that_does_not_end_in_time_is_recorded_as_unknown(tmp_path: Path) -> None:
    entered = trio.Event()

    def tools(world: World) -> Sequence[AnyTool]:
        @tool
        async def pay() -> str:
            """Pay for ever."""
            entered.set()
            await trio.sleep_forever()
            raise AssertionError

        return [pay]

    async with office(tmp_path, [asks(("pay", {})), "done"], tools) as desk:
        with trio.CancelScope() as scope:
            async with desk.open(options=QUICK) as runtime:
                run = await runtime.submit("desk", "go")
                await entered.wait()
                scope.cancel()
                await run.wait()
        assert scope.cancelled_caught
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            state = await until(runtime, run.id, "in_doubt")
            assert [action.action for action in state.in_doubt] == ["0.0"]
            assert [event.cause for event in await of(run, ActionInterrupted)] == ["shutdown"]
            await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
            await run.wait()


async def test_case_04_status_tells_done_in_doubt_and_not_started_apart(tmp_path: Path) -> None:
    entered = trio.Event()

    def tools(world: World) -> Sequence[AnyTool]:
        @tool
        async def pay() -> str:
            """Pay for ever."""
            entered.set()
            await trio.sleep_forever()
            raise AssertionError

        return [world.adder(), pay, world.mailer()]

    batch = asks(("add", {"n": 1}), ("pay", {}), ("send_email", {"to": "a"}))
    async with office(tmp_path, [batch], tools) as desk, desk.open(options=QUICK) as runtime:
        run = await runtime.submit("desk", "go")
        await happened(runtime, run, ActionReceipted)
        await entered.wait()
        await pending(runtime)
        await run.cancel(by="maria", reason="too dear")
        with pytest.raises(RunCancelled, match="cancelled by maria: too dear"):
            await run.wait()
        (asked,) = await of(run, CancelRequested)
        assert asked.reason == "too dear"
        assert (await types(run))[-1] == "run.cancelled"
        result = await run.result()
        assert result.status == "cancelled-in-doubt"
        assert [action.action for action in result.in_doubt] == ["0.1"]
        done, doubt, never = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert (done.status, done.content) == ("ok", "added 1")
        assert str(doubt.content).startswith("In doubt: the run was cancelled while it ran")
        assert never.content == "Not started: the run was cancelled by maria: too dear."
        # A doubt can be settled after the end, and then the status is plain.
        await runtime.resolve(f"{run.id}/0.1", "not_applied", by="maria", evidence="asked the bank")
        await until(runtime, run.id, "cancelled")


async def test_case_04_a_database_call_that_hangs_does_not_hold_a_cancelled_program_for_ever(tmp_path: Path) -> None:
    """The receipt cannot be written. The program ends all the same; the next one finds the call in doubt."""
    hang, hanging = threading.Event(), trio.Event()
    armed = False

    async def before(_: object) -> None:
        if armed:
            hanging.set()
            await trio.to_thread.run_sync(hang.wait, abandon_on_cancel=True)

    def tools(world: World) -> Sequence[AnyTool]:
        @tool
        async def pay() -> str:
            """Pay."""
            nonlocal armed
            armed = True
            world.do("pay")
            return "paid"

        return [pay]

    async with office(tmp_path, [asks(("pay", {})), "done"], tools) as desk:
        with trio.CancelScope() as scope:
            async with (
                Journal.open(
                    desk.path,
                    registry=REGISTRY,
                    options=JournalOptions(close_timeout=0.05),
                    wrap=lambda store: FaultyStore(store, before_write=before),
                ) as journal,
                Runtime.over(journal, [desk.agent()], options=QUICK) as runtime,
            ):
                run = await runtime.submit("desk", "go")
                await hanging.wait()
                scope.cancel()
                await run.wait()
        assert scope.cancelled_caught
        hang.set()
        async with desk.open() as runtime:
            run = await the_run(desk, runtime)
            await until(runtime, run.id, "in_doubt")
            await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
            assert (await run.wait()).output == "done"
        assert desk.world.effects == ["pay"]
