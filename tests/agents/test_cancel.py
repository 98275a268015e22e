"""Cancelling a run in each phase of its life: what is under way comes to a known end, and nothing else begins."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.agents.office import asks, happened, of, office, pending, types, until

from trouper import (
    ApprovalError,
    Limits,
    Principal,
    ResolveError,
    Run,
    RunCancelled,
    Runtime,
    RuntimeOptions,
    ToolContext,
    ToolMessage,
    TransientError,
    tool,
)
from trouper.core.commands import Judgement
from trouper.core.events import (
    ActionInterrupted,
    ActionReceipted,
    ActionReturnedLate,
    ActionStarted,
    ModelFailed,
    ModelLost,
    ModelRequested,
    RunStarted,
)
from trouper.runtime import Task
from trouper.runtime.results import RunResult
from trouper.testing import ManualClock, Status, Wait
from trouper.testing._answers import Answer
from trouper.tools._options import EffectName

MARIA = Principal("maria")


async def ended(run: Run) -> RunResult:
    """Wait for the end of a cancelled run, and see that asking again tells the same at once."""
    with pytest.raises(RunCancelled, match="cancelled by maria: enough") as caught:
        await run.wait()
    result = caught.value.result
    assert isinstance(result, RunResult)
    with pytest.raises(RunCancelled):
        await run.wait()
    return result


def answers(result: RunResult) -> list[tuple[object, str]]:
    return [(message.content, message.status) for message in result.messages if isinstance(message, ToolMessage)]


async def test_before_anybody_took_it_up(tmp_path: Path) -> None:
    async with office(tmp_path, ["never"], done=False) as desk:
        async with desk.commands() as commands:
            run_id = (await commands.submit(Task("desk", "Go."))).run
            await commands.cancel(run_id, by=MARIA, reason="enough")
        async with desk.open() as runtime:
            result = await ended(runtime.run(run_id))
            assert (result.status, [message.role for message in result.messages]) == ("cancelled", ["human"])
            assert await of(runtime.run(run_id), RunStarted) == []
        assert desk.stub.requests == []


async def test_while_the_model_is_asked(tmp_path: Path) -> None:
    async with office(tmp_path, [Wait(trio.Event(), "never")]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.stub.wait_requests(1)
        await run.cancel(by="maria", reason="enough")
        result = await ended(run)
        # The connection is closed at once; what the provider bills for it nobody knows.
        await desk.stub.wait_until(lambda stub: stub.disconnects == 1)
        assert [event.reason for event in await of(run, ModelLost)] == ["cancelled"]
        assert result.usage.unknown == 1


async def test_while_it_waits_to_ask_the_model_again(tmp_path: Path) -> None:
    clock = ManualClock()
    async with office(tmp_path, [Status(500)], clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await happened(runtime, run, ModelFailed)
        await run.cancel(by="maria", reason="enough")
        await ended(run)
        clock.advance(3600)
        assert len(await of(run, ModelRequested)) == 1


async def test_while_a_person_is_asked(tmp_path: Path) -> None:
    script = [asks(("send_email", {"to": "a"}), ("send_email", {"to": "b"}))]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        first, second = await pending(runtime, 2)
        await run.cancel(by="maria", reason="enough")
        text = "Not started: the run was cancelled by maria: enough."
        assert answers(await ended(run)) == [(text, "error"), (text, "error")]
        assert await runtime.approvals() == []
        for asked in (first, second):
            with pytest.raises(ApprovalError):
                await runtime.approve(asked.action, by="maria")
        assert desk.world.effects == []


async def test_a_decision_that_came_before_the_cancel_stands_and_starts_nothing_after_it(tmp_path: Path) -> None:
    script = [asks(("send_email", {"to": "a"}))]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Go.")).id
            (asked,) = await pending(runtime)
        async with desk.commands() as commands:
            await commands.decide(asked.action, Judgement("approve", MARIA))
            await commands.cancel(run_id, by=MARIA, reason="enough")
        async with desk.open() as runtime:
            result = await ended(runtime.run(run_id))
            assert answers(result) == [("Not started: the run was cancelled by maria: enough.", "error")]
            await runtime.approve(asked.action, by="maria")
        assert desk.world.effects == []


# ---- while a tool works


async def cancel_in_tool(runtime: Runtime, began: trio.Event) -> Run:
    run = await runtime.submit("desk", "Go.")
    await began.wait()
    await run.cancel(by="maria", reason="enough")
    return run


EFFECTS: list[EffectName] = ["read_only", "idempotent_write", "unqueryable_write"]


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_tool_is_told_to_stop_and_what_is_known_of_it_is_recorded(tmp_path: Path, effect: EffectName) -> None:
    began = trio.Event()
    cleaned: list[str] = []

    async def work() -> str:
        """Work for ever."""
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            cleaned.append("up")
        raise AssertionError

    made = tool(effect=effect)(work)

    async with office(tmp_path, [asks(("work", {}))], [made]) as desk, desk.open() as runtime:
        run = await cancel_in_tool(runtime, began)
        result = await ended(run)
        assert cleaned == ["up"]
        ((text, status),) = answers(result)
        assert status == "error"
        if effect == "read_only":
            assert (result.status, result.in_doubt) == ("cancelled", ())
            assert str(text).startswith("Failed: the run was cancelled while it ran")
        else:
            assert result.status == "cancelled-in-doubt"
            assert [action.action for action in result.in_doubt] == ["0.0"]
            assert str(text).startswith("In doubt: the run was cancelled while it ran")


async def test_a_tool_that_finishes_all_the_same_keeps_its_receipt(tmp_path: Path) -> None:
    began = trio.Event()

    @tool
    async def work(ctx: ToolContext) -> str:
        """Finish in spite of all."""
        began.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            assert ctx.cancel_requested
        return "done all the same"

    async with office(tmp_path, [asks(("work", {}))], [work]) as desk, desk.open() as runtime:
        result = await ended(await cancel_in_tool(runtime, began))
        assert answers(result) == [("done all the same", "ok")]
        assert result.status == "cancelled"


async def test_a_thread_that_ends_in_time_keeps_its_receipt(tmp_path: Path) -> None:
    began = trio.Event()

    @tool
    def work(ctx: ToolContext) -> str:
        """Work in a thread, and look now and then whether to end."""
        trio.from_thread.run_sync(began.set)
        for _ in range(30_000):
            if ctx.cancel_requested:
                return "done, asked to stop"
            threading.Event().wait(0.001)
        return "never asked"

    options = RuntimeOptions(grace=30)
    async with office(tmp_path, [asks(("work", {}))], [work]) as desk, desk.open(options=options) as runtime:
        assert answers(await ended(await cancel_in_tool(runtime, began))) == [("done, asked to stop", "ok")]


async def test_a_thread_that_does_not_end_is_left_behind_and_settles_its_doubt_late(tmp_path: Path) -> None:
    began, go = trio.Event(), threading.Event()
    clock = ManualClock()

    @tool
    def work() -> str:
        """Work in a thread."""
        trio.from_thread.run_sync(began.set)
        assert go.wait(30)
        return "done at last"

    async with (
        office(tmp_path, [asks(("work", {}))], [work], clock=clock) as desk,
        desk.open(options=RuntimeOptions(grace=7)) as runtime,
    ):
        run = await cancel_in_tool(runtime, began)
        await clock.wait_waiting(7)
        clock.advance(7)
        result = await ended(run)
        assert result.status == "cancelled-in-doubt"
        assert str(answers(result)[0][0]).startswith("In doubt: the run was cancelled while it ran")
        go.set()
        (receipt,) = await happened(runtime, run, ActionReceipted)
        assert (receipt.evidence, receipt.text) == ("late", "done at last")
        assert (await run.result()).status == "cancelled"
        # What the model was told is history.
        assert answers(await run.result()) == answers(result)


async def test_a_late_return_after_a_person_settled_it_is_a_note(tmp_path: Path) -> None:
    began, go = trio.Event(), threading.Event()
    clock = ManualClock()

    @tool
    def work() -> str:
        """Work in a thread."""
        trio.from_thread.run_sync(began.set)
        assert go.wait(30)
        return "done at last"

    async with (
        office(tmp_path, [asks(("work", {}))], [work], clock=clock) as desk,
        desk.open(options=RuntimeOptions(grace=7)) as runtime,
    ):
        run = await cancel_in_tool(runtime, began)
        await clock.wait_waiting(7)
        clock.advance(7)
        await ended(run)
        await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria", evidence="I looked")
        go.set()
        (note,) = await happened(runtime, run, ActionReturnedLate)
        assert (note.outcome, note.text) == ("ok", "done at last")
        assert await of(run, ActionReceipted) == []
        assert (await run.result()).status == "cancelled"


async def test_a_call_that_waits_for_its_turn_is_not_started(tmp_path: Path) -> None:
    began = trio.Event()
    ran: list[int] = []

    @tool(effect="unqueryable_write", concurrency=1)
    async def work(n: int) -> str:
        """Work for ever."""
        ran.append(n)
        began.set()
        await trio.sleep_forever()
        raise AssertionError

    script = [asks(("work", {"n": 0}), ("work", {"n": 1}))]
    async with office(tmp_path, script, [work]) as desk, desk.open() as runtime:
        result = await ended(await cancel_in_tool(runtime, began))
        assert len(ran) == 1
        waited = 1 - ran[0]
        text, status = answers(result)[waited]
        assert status == "error"
        assert str(text).startswith("Did not take effect: it was not begun")
        assert [action.action for action in result.in_doubt] == [f"0.{ran[0]}"]


async def test_while_a_call_waits_to_be_tried_again(tmp_path: Path) -> None:
    clock = ManualClock()

    @tool(effect="idempotent_write")
    async def work() -> str:
        """Never work."""
        raise TransientError("busy")

    async with office(tmp_path, [asks(("work", {}))], [work], clock=clock) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await happened(runtime, run, ActionInterrupted)
        await run.cancel(by="maria", reason="enough")
        result = await ended(run)
        assert (result.status, result.in_doubt) == ("cancelled", ())
        clock.advance(3600)
        assert len(await of(run, ActionStarted)) == 1


async def test_while_a_call_is_in_doubt(tmp_path: Path) -> None:
    @tool
    async def work() -> str:
        """Break."""
        raise OSError("connection reset")

    async with office(tmp_path, [asks(("work", {}))], [work]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await until(runtime, run.id, "in_doubt")
            await run.cancel(by="maria", reason="enough")
            result = await ended(run)
            assert result.status == "cancelled-in-doubt"
            with pytest.raises(ResolveError, match="cannot run again: its run is over"):
                await runtime.resolve(f"{run.id}/0.0", "run_again", by="maria")
        async with desk.open() as runtime:
            run = runtime.run(run.id)
            assert (await run.result()).status == "cancelled-in-doubt"
            await runtime.resolve(f"{run.id}/0.0", "applied", by="maria", evidence="the log of the server")
            assert (await run.result()).status == "cancelled"
            assert (await run.result()).in_doubt == ()


async def test_while_its_definition_has_changed(tmp_path: Path) -> None:
    script = [asks(("send_email", {"to": "a"}))]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Go.")).id
            (asked,) = await pending(runtime)
        async with desk.open(desk.agent(limits=Limits(max_steps=9))) as runtime:
            await runtime.approve(asked.action, by="maria")
            await until(runtime, run_id, "drifted")
            await runtime.cancel(run_id, by="maria", reason="enough")
            await ended(runtime.run(run_id))
        assert desk.world.effects == []


async def test_without_its_agent(tmp_path: Path) -> None:
    script = [asks(("send_email", {"to": "a"}))]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run_id = (await runtime.submit("desk", "Go.")).id
            await pending(runtime)
        async with desk.open(desk.agent("other")) as runtime:
            await runtime.cancel(run_id, by="maria", reason="enough")
            result = await ended(runtime.run(run_id))
            assert answers(result) == [("Not started: the run was cancelled by maria: enough.", "error")]


# ---- who cancels what


async def test_only_the_first_cancel_counts_and_none_after_the_end(tmp_path: Path) -> None:
    gate = trio.Event()
    async with office(tmp_path, [Wait(gate, "Done.")]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.stub.wait_requests(1)
        await run.cancel(by="maria", reason="enough")
        await run.cancel(by="peter", reason="me too")
        await ended(run)
        before = await types(run)
        await run.cancel(by="peter", reason="and again")
        assert await types(run) == before


async def test_after_the_end_nothing_changes(tmp_path: Path) -> None:
    async with office(tmp_path, ["Done."]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await run.wait()
        before = await types(run)
        await run.cancel(by="maria", reason="too late")
        assert (await run.wait()).output == "Done."
        assert await types(run) == before


async def test_who_is_cancelled_while_waiting_leaves_the_run_alone(tmp_path: Path) -> None:
    gate = trio.Event()
    async with office(tmp_path, [Wait(gate, "Done.")]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.stub.wait_requests(1)
        waiting: list[Callable[[], Awaitable[object]]] = [run.wait, run.wait]
        async with trio.open_nursery() as nursery:
            for wait in waiting:
                nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        gate.set()
        assert (await run.wait()).output == "Done."


async def test_other_runs_are_not_touched(tmp_path: Path) -> None:
    gate = trio.Event()
    async with office(tmp_path, lambda _: Wait(gate, "Done.")) as desk, desk.open() as runtime:
        one, other = await runtime.submit("desk", "Go."), await runtime.submit("desk", "Go.")
        await desk.stub.wait_requests(2)
        await one.cancel(by="maria", reason="enough")
        await ended(one)
        gate.set()
        assert (await other.wait()).output == "Done."


async def test_a_cancel_is_carried_out_though_the_runtime_is_left_at_once(tmp_path: Path) -> None:
    """By a clock that stands still, nobody's patience ends: the run's end is not waited for in vain."""
    never: list[Answer] = [Wait(trio.Event(), "never")]
    async with office(tmp_path, never, clock=ManualClock()) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await desk.stub.wait_requests(1)
            await run.cancel(by="maria", reason="enough")
        async with desk.commands() as commands:
            assert (await commands.state(run.id)).phase == "cancelled"
        async with desk.open() as runtime:
            await ended(runtime.run(run.id))
        assert len(desk.stub.requests) == 1


async def test_a_cancel_outlives_the_process_that_took_it(tmp_path: Path) -> None:
    never: list[Answer] = [Wait(trio.Event(), "never")]
    async with office(tmp_path, never) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await desk.stub.wait_requests(1)
        async with desk.commands() as commands:
            await commands.cancel(run.id, by=MARIA, reason="enough")
        async with desk.open() as runtime:
            await ended(runtime.run(run.id))
        assert len(desk.stub.requests) == 1
