"""Calls of one reply: they run together, within each tool's limit, and answer in the order asked."""

from __future__ import annotations

import threading
from pathlib import Path

import trio
import trio.testing
from tests.agents.office import asks, of, office, told, until

from trouper import Agent, Runtime, RuntimeOptions, ToolMessage, tool
from trouper.core.events import ActionReceipted
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._answers import Answer


async def test_calls_of_one_reply_run_together_and_answer_in_the_order_asked(tmp_path: Path) -> None:
    second_began, first_began = trio.Event(), trio.Event()

    @tool(effect="read_only")
    async def first() -> str:
        """Go first, and end last."""
        first_began.set()
        await second_ended.wait()
        return "first"

    @tool(effect="read_only")
    async def second() -> str:
        """Go second, and end first."""
        second_began.set()
        await first_began.wait()
        second_ended.set()
        return "second"

    second_ended = trio.Event()
    async with office(tmp_path, [asks(("first", {}), ("second", {})), "Both."], [first, second]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            result = await run.wait()
            assert [event.action for event in await of(run, ActionReceipted)] in (["0.1", "0.0"], ["0.0", "0.1"])
        answers = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [message.content for message in answers] == ["first", "second"]
        assert told(desk.stub.requests[1].messages) == ["first", "second"]


async def test_two_tools_of_a_fifth_of_a_second_take_no_two_fifths(autojump_clock: trio.testing.MockClock) -> None:
    """In virtual time, with the journal in memory: nothing here waits for anything real."""

    @tool(effect="read_only")
    async def wait(name: str) -> str:
        """Wait."""
        await trio.sleep(0.2 if name == "a" else 0.19)
        ended.append(name)
        return name

    ended: list[str] = []
    model = ScriptedModel([calls(call("wait", name="a"), call("wait", name="b")), "Both."])
    async with Runtime.open(None, [Agent("desk", tools=[wait], model=model)]) as runtime:
        begin = trio.current_time()
        result = await (await runtime.submit("desk", "Go.")).wait()
        assert trio.current_time() - begin < 0.35
        assert ended == ["b", "a"]
        assert [message.content for message in result.messages if isinstance(message, ToolMessage)] == ["a", "b"]


async def test_no_more_calls_of_a_tool_run_at_once_than_it_declares(tmp_path: Path) -> None:
    running: list[int] = []
    most = 0
    gates = [trio.Event() for _ in range(5)]

    @tool(effect="read_only", concurrency=2)
    async def work(n: int) -> int:
        """Work."""
        nonlocal most
        running.append(n)
        most = max(most, len(running))
        changed.set()
        await gates[n].wait()
        running.remove(n)
        return n

    changed = trio.Event()
    script: list[Answer] = [asks(*(("work", {"n": n}) for n in range(5))), "All."]
    async with office(tmp_path, script, [work]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        for left in range(5, 0, -1):
            while len(running) < min(2, left):
                await changed.wait()
                changed = trio.Event()
            await trio.testing.wait_all_tasks_blocked()
            assert len(running) == min(2, left)
            gates[running[0]].set()
        await run.wait()
        assert most == 2
        assert told(desk.stub.requests[1].messages) == ["0", "1", "2", "3", "4"]


async def test_sync_tools_run_in_threads_and_do_not_block_the_loop(tmp_path: Path) -> None:
    """The thread waits for what only the loop can do, and two threads wait for each other."""
    go = threading.Event()
    meeting = threading.Barrier(2)
    main = threading.get_ident()

    @tool(effect="read_only")
    def wait(name: str) -> bool:
        """Wait in a thread."""
        assert go.wait(30)
        meeting.wait(30)
        return threading.get_ident() == main

    @tool(effect="read_only")
    async def release() -> str:
        """Let them go."""
        go.set()
        return "released"

    script: list[Answer] = [asks(("wait", {"name": "a"}), ("wait", {"name": "b"}), ("release", {})), "All."]
    async with office(tmp_path, script, [wait, release]) as desk, desk.open() as runtime:
        await (await runtime.submit("desk", "Go.")).wait()
        assert told(desk.stub.requests[1].messages) == ["false", "false", "released"]


async def test_runs_do_not_wait_for_each_other(tmp_path: Path) -> None:
    meeting: list[str] = []
    all_there = trio.Event()

    @tool(effect="read_only")
    async def meet(run: str) -> str:
        """Wait for the others."""
        meeting.append(run)
        if len(meeting) == 10:
            all_there.set()
        await all_there.wait()
        return "met"

    async with office(tmp_path, [asks(("meet", {"run": "any"})), "Met."], [meet]) as desk, desk.open() as runtime:
        runs = [await runtime.submit("desk", f"Meet {number}.") for number in range(10)]
        assert [(await run.wait()).output for run in runs] == ["Met."] * 10


async def test_a_call_that_waits_for_its_turn_when_the_runtime_stops_runs_after_the_start(tmp_path: Path) -> None:
    """It had not begun: an orderly stop makes no doubt of it, not even of the most dangerous class."""
    first_life = True
    began = trio.Event()
    ran: list[int] = []

    @tool(effect="unqueryable_write", concurrency=1)
    async def work(n: int) -> str:
        """Work; for ever in the first life."""
        ran.append(n)
        began.set()
        if first_life:
            await trio.sleep_forever()
        return f"did {n}"

    script: list[Answer] = [asks(("work", {"n": 0}), ("work", {"n": 1})), "All."]
    async with office(tmp_path, script, [work]) as desk:
        async with desk.open(options=RuntimeOptions(drain=0.01)) as runtime:
            run = await runtime.submit("desk", "Go.")
            await began.wait()
        first_life = False
        (begun,) = ran
        async with desk.open() as runtime:
            run = runtime.run(run.id)
            (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
            assert doubt.action == f"0.{begun}"
            await runtime.resolve(f"{run.id}/{doubt.action}", "applied", by="maria")
            assert (await run.wait()).output == "All."
        assert ran == [begun, 1 - begun]
        assert f"did {1 - begun}" in told(desk.stub.requests[1].messages)
