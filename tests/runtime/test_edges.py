"""Corners of the runtime that were once dark."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Iterator, Mapping

import pytest
import trio
import trio.testing
from tests.agents.office import AnyTool, happened, of, pending, until
from tests.runtime.house import house

from trouper import (
    Agent,
    Limits,
    Run,
    RunCancelled,
    RuntimeOptions,
    StepLimitExceeded,
    ToolMessage,
    TransientError,
    tool,
)
from trouper.core.events import ActionInterrupted, ActionPlanned, ActionReceipted, ActionStarted, Principal
from trouper.runtime import Task
from trouper.runtime.agent import AgentActor
from trouper.testing import ScriptedModel, call, calls
from trouper.tools import Found, Unsure
from trouper.tools._options import EffectName
from trouper_journal import Value

LIMIT = 5.0


def desk(*script: object, tools: list[AnyTool], name: str = "desk", limits: Limits | None = None) -> Agent:
    model = ScriptedModel([*script, "done"], by_turn=True)  # type: ignore[list-item]  # answers
    return Agent(name, tools=tools, model=model, limits=limits or Limits())


async def answers(run: Run) -> list[object]:
    result = await run.wait()
    return [message.content for message in result.messages if isinstance(message, ToolMessage)]


async def test_agents_and_tools_may_have_any_names_that_are_allowed() -> None:
    """`a-b` with `c` and `a` with `b-c` are two pairs, and so are names that look like the runtime's own."""

    def named(name: str, result: str) -> AnyTool:
        @tool(name=name, effect="read_only")
        async def work() -> str:
            return result

        return work

    pairs = [("a-b", "c"), ("a", "b-c"), ("a_b", "c"), ("a", "b_c"), ("approver", "model"), ("executor", "a-b")]
    tools: dict[str, list[AnyTool]] = {}
    for name, made in pairs:
        tools.setdefault(name, []).append(named(made, f"{name} {made}"))
    agents = [
        desk(calls(*(call(made.name) for made in toolbox)), tools=toolbox, name=name) for name, toolbox in tools.items()
    ]
    async with house() as place, place.open(*agents) as runtime:
        for agent in agents:
            run = await runtime.submit(agent.name, "Go.")
            assert await answers(run) == [f"{agent.name} {made}" for made in agent.toolbox]


async def test_a_thread_that_goes_on_after_its_time_still_counts_among_the_calls_of_its_tool() -> None:
    go = [threading.Event() for _ in range(3)]
    alive: list[int] = []
    most = 0
    began = [trio.Event() for _ in range(3)]

    def begin(n: int) -> None:
        nonlocal most
        alive.append(n)
        most = max(most, len(alive))
        began[len(order)].set()
        order.append(n)

    order: list[int] = []

    @tool(effect="read_only", timeout=LIMIT, concurrency=1)
    def slow(n: int) -> str:
        """Work."""
        trio.from_thread.run_sync(begin, n)
        go[n].wait()
        alive.remove(n)
        return "late"

    agent = desk(calls(*(call("slow", n=n) for n in range(3))), tools=[slow])
    async with house() as place, place.open(agent) as runtime:
        try:
            run = await runtime.submit("desk", "Go.")
            for turn in range(3):
                await began[turn].wait()
                place.clock.advance(LIMIT)
                await happened(runtime, run, ActionInterrupted, turn + 1)
                await trio.testing.wait_all_tasks_blocked()
                assert len(order) == turn + 1
                go[order[turn]].set()
            await run.wait()
            assert most == 1
        finally:
            for event in go:
                event.set()


class Vault(Mapping[str, str]):
    """A source of secrets that is down at times."""

    down = True

    def __getitem__(self, name: str) -> str:
        if self.down:
            raise ConnectionError(f"no way to {name}: hunter2")
        return "hunter2"

    def __iter__(self) -> Iterator[str]:
        return iter(["crm/token"])

    def __len__(self) -> int:
        return 1


async def test_a_source_of_secrets_that_fails_fails_the_call_and_nothing_else() -> None:
    used: list[str] = []

    @tool(effect="read_only", secrets={"token": "crm/token"})
    async def look(*, token: str) -> str:
        """Look."""
        used.append(token)
        return "looked"

    @tool(effect="read_only")
    async def other() -> str:
        """Need nothing."""
        return "other"

    vault = Vault()
    async with (
        house() as place,
        place.open(desk(calls(call("look"), call("other")), tools=[look, other]), secrets=vault) as runtime,
    ):
        told = await answers(await runtime.submit("desk", "Go."))
        assert told == ["secret crm/token is not available; nothing was run", "other"]
        assert used == []
        vault.down = False
        assert await answers(await runtime.submit("desk", "Go.")) == ["looked", "other"]
        assert used == ["hunter2"]


SCHEMA: dict[str, Value] = {
    "type": "object",
    "properties": {"to": {"type": "array"}, "options": {"type": "object"}},
    "required": ["to", "options"],
}


class Careless:
    """Tools and a query that change what they were given; they note what that was."""

    def __init__(self, failure: type[Exception]) -> None:
        self.seen: list[Value] = []
        self.failure = failure

    def note(self, to: list[Value], options: dict[str, Value]) -> None:
        self.seen.append(copy.deepcopy([to, options]))
        to.pop()
        options["m"] = []
        if isinstance(numbers := options["n"], list):
            numbers.append(7)

    def ask(self, to: list[Value], options: dict[str, Value]) -> Unsure:
        self.note(to, options)
        return Unsure("who knows")

    def ask_remote(self, **arguments: object) -> Unsure:
        return self.ask(**arguments)  # type: ignore[arg-type]  # as the schema says

    def send(self, to: list[str], options: dict[str, list[int]]) -> str:
        """Send; twice it fails, and then the line breaks."""
        self.note(to, options)  # type: ignore[arg-type]  # JSON values
        if len(self.seen) < 3:
            raise self.failure("busy")
        raise OSError("connection reset")

    def remote(self, **arguments: object) -> str:
        """Send what a schema describes."""
        return self.send(**arguments)  # type: ignore[arg-type]  # as the schema says

    def tool(self, declared: str, *, gated: bool, queried: bool) -> AnyTool:
        effect: EffectName = "queryable_write" if queried else "idempotent_write"
        if declared == "by schema":
            query = self.ask_remote if queried else None
            return tool(name="send", schema=SCHEMA, requires_approval=gated, effect=effect, query=query)(self.remote)
        return tool(requires_approval=gated, effect=effect, query=self.ask if queried else None)(self.send)


@pytest.mark.parametrize("declared", ["by signature", "by schema"])
@pytest.mark.parametrize("failure", [OSError, TransientError], ids=["at once", "after a while"])
@pytest.mark.parametrize("edited", [False, True])
async def test_each_attempt_gets_arguments_that_nobody_has_touched(
    declared: str, failure: type[Exception], *, edited: bool
) -> None:
    careless = Careless(failure)
    queried = failure is TransientError
    made = careless.tool(declared, gated=edited, queried=queried)
    given: dict[str, Value] = {"to": ["a", "b"], "options": {"n": [1]}}
    wanted: dict[str, Value] = {"to": ["c", "d"], "options": {"n": [1]}} if edited else copy.deepcopy(given)
    async with house() as place, place.open(desk(call("send", **given), tools=[made])) as runtime:
        run = await runtime.submit("desk", "Go.")
        if edited:
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria", arguments=wanted)
        for count in (1, 2, 3):
            await happened(runtime, run, ActionInterrupted, count)
            place.clock.advance(60)
        (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
        assert careless.seen == [[wanted["to"], wanted["options"]]] * (4 if queried else 3)
        assert doubt.arguments == wanted
        (planned,) = await of(run, ActionPlanned)
        assert planned.arguments == given
        await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
        await run.wait()


@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")], ids="-".join)
async def test_an_outcome_that_cannot_be_recorded_takes_none_of_its_siblings_along(order: tuple[str, str]) -> None:
    """Both return while the disk is slow, so that they come to be recorded together."""
    writing, disk = trio.Event(), trio.Event()
    gates = {name: trio.Event() for name in ("first", "good", "bad")}

    async def slow_disk(_: object) -> None:
        writing.set()
        await disk.wait()

    @tool
    async def work(name: str) -> str:
        """Work."""
        await gates[name].wait()
        return "x" * (64 * 2**20 + 1) if name == "bad" else f"{name}, receipt 4711"

    agent = desk(calls(*(call("work", name=name) for name in gates)), tools=[work])
    async with house() as place, place.open(agent) as runtime:
        run = await runtime.submit("desk", "Go.")
        await happened(runtime, run, ActionStarted, 3)
        place.store.before_write = slow_disk
        gates["first"].set()
        await writing.wait()
        for name in order:
            gates[name].set()
            await trio.testing.wait_all_tasks_blocked()
        disk.set()
        first, good, bad = await answers(run)
        assert (first, good) == ("first, receipt 4711", "good, receipt 4711")
        assert str(bad).startswith("[the result cannot be journaled: ")
        # It is known to have returned, and only that.
        assert [receipt.outcome for receipt in await of(run, ActionReceipted)] == ["ok"] * 3


@pytest.mark.parametrize("raised", [1, 2])
async def test_a_limit_raised_before_the_start_adds_to_the_agents_own(raised: int) -> None:
    """Three steps are the agent's limit and five are needed."""

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "looked"

    limits = Limits(max_steps=3, model_attempts=2)
    async with house() as place:
        run_id = (await place.commands.submit(Task("desk", "Go."))).run
        await place.commands.raise_limit(run_id, raised, by=Principal("maria"), reason=None)
        async with place.open(desk(call("look"), call("look"), tools=[look], limits=limits)) as runtime:
            run = runtime.run(run_id)
            if raised == 1:
                with pytest.raises(StepLimitExceeded):
                    await run.wait()
            else:
                assert (await run.wait()).output == "done"
            assert (await run.state()).limits == Limits(max_steps=3 + raised, model_attempts=2)
            assert (await run.result()).steps == 3 + raised


# ---- queries


async def test_a_query_that_hangs_keeps_a_cancelled_run_only_so_long() -> None:
    asked = trio.Event()

    async def look() -> Found:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    @tool(effect="queryable_write", query=look)
    async def send() -> str:
        """Send."""
        raise OSError("connection reset")

    async with house() as place, place.open(desk(call("send"), tools=[send])) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asked.wait()
        await run.cancel(by="maria")
        place.clock.advance(29)
        await trio.testing.wait_all_tasks_blocked()
        assert not (await run.state()).ended
        place.clock.advance(1)
        with pytest.raises(RunCancelled):
            await run.wait()
        assert (await run.result()).status == "cancelled-in-doubt"


async def test_a_query_has_its_tools_time_limit_where_that_is_shorter() -> None:
    asked = trio.Event()

    async def look() -> Found:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    @tool(effect="queryable_write", query=look, timeout=LIMIT)
    async def send() -> str:
        """Send."""
        raise OSError("connection reset")

    async with house() as place, place.open(desk(call("send"), tools=[send])) as runtime:
        run = await runtime.submit("desk", "Go.")
        await asked.wait()
        place.clock.advance(LIMIT)
        (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
        assert "it timed out" in doubt.text
        await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
        await run.wait()


async def test_a_query_that_gets_no_thread_in_time_cannot_tell() -> None:
    """All threads of the tool hang in queries of other calls."""
    count = 42
    hang = threading.Event()
    hanging = 0
    changed = trio.Event()

    def note() -> None:
        nonlocal hanging
        hanging += 1
        changed.set()

    def look() -> Found:
        trio.from_thread.run_sync(note)
        hang.wait()
        return Found("too late")

    @tool(effect="queryable_write", query=look)
    async def send() -> str:
        """Send."""
        raise OSError("connection reset")

    agent = desk(calls(*(call("send") for _ in range(count))), tools=[send])
    async with house() as place, place.open(agent, options=RuntimeOptions(grace=2)) as runtime:
        try:
            run = await runtime.submit("desk", "Go.")
            await happened(runtime, run, ActionInterrupted, count)
            while hanging < 40:
                await changed.wait()
                changed = trio.Event()
            await trio.testing.wait_all_tasks_blocked()
            place.clock.advance(30)
            await place.clock.wait_waiting(2)
            place.clock.advance(2)
            async with runtime.journal.news() as news:
                while len((await run.result()).in_doubt) < count:
                    await news.wait()
            await run.cancel(by="maria")
            with pytest.raises(RunCancelled):
                await run.wait()
        finally:
            hang.set()


async def test_an_executor_keeps_nothing_of_calls_whose_query_was_asked() -> None:
    """Neither their outcomes nor, through these, the agents of runs that have ended."""

    def look() -> Found:
        return Found("found")

    @tool(effect="queryable_write", query=look)
    async def send() -> str:
        """Send."""
        raise OSError("connection reset")

    def agents() -> int:
        gc.collect()
        return sum(type(each) is AgentActor for each in gc.get_objects())

    async with house() as place, place.open(desk(call("send"), tools=[send])) as runtime:
        before = agents()
        for _ in range(10):
            assert await answers(await runtime.submit("desk", "Go.")) == ["found"]
        while runtime.active:
            await trio.testing.wait_all_tasks_blocked()
        # A few frames may still hold the last of them.
        assert agents() - before < 4
