"""Room for so many runs at a time: who has a place, who waits for one, and that nobody waits for ever."""

from __future__ import annotations

import threading

import attrs
import pytest
import trio
import trio.testing
from tests.agents.office import AnyTool, of, pending, types, until
from tests.runtime.house import House, house

from trouper import AI, Agent, Limits, Run, Runtime, RuntimeOptions, tool
from trouper.core.events import RunWaiting
from trouper.runtime import Task
from trouper.testing import ModelRequest, ScriptedModel, call, calls

LIMIT = 5.0


@attrs.define
class Workshop:
    """Runs that work until the test lets them go, each under the number that is its input."""

    began: list[int] = attrs.Factory(list)
    at_once: int = 0
    most: int = 0
    changed: trio.Event = attrs.Factory(trio.Event)
    gates: dict[int, trio.Event] = attrs.Factory(dict)

    def agent(self) -> Agent:
        @tool(effect="read_only")
        async def work(n: int) -> str:
            """Work."""
            self.began.append(n)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.changed.set()
            await self.gate(n).wait()
            self.at_once -= 1
            return f"did {n}"

        def ask(request: ModelRequest) -> AI:
            return call("work", n=int(str(request.messages[0].content)))

        return Agent("worker", tools=[work], model=ScriptedModel([ask, "done"], by_turn=True))

    def gate(self, n: int) -> trio.Event:
        return self.gates.setdefault(n, trio.Event())

    async def working(self, count: int) -> None:
        """Wait until so many have begun."""
        while len(self.began) < count:
            await self.changed.wait()
            self.changed = trio.Event()


def clerk() -> Agent:
    """An agent that only answers."""
    return Agent("clerk", model=ScriptedModel(["done"], by_turn=True))


def room(count: int) -> RuntimeOptions:
    return RuntimeOptions(max_active=count)


async def in_memory(runtime: Runtime, count: int) -> None:
    """Wait until just so many runs are in memory."""
    while runtime.active != count:
        await trio.testing.wait_all_tasks_blocked()


async def test_a_run_begins_as_soon_as_one_place_is_free() -> None:
    shop = Workshop()
    async with house() as place, place.open(shop.agent(), clerk(), options=room(8)) as runtime:
        runs = [await runtime.submit("worker", str(n)) for n in range(8)]
        await shop.working(8)
        ninth = await runtime.submit("clerk", "Hello?")
        await trio.testing.wait_all_tasks_blocked()
        assert await types(ninth) == ["run.submitted"]
        assert runtime.active == 8
        shop.gate(3).set()
        assert (await ninth.wait()).output == "done"
        assert shop.at_once == 7
        for n, run in enumerate(runs):
            shop.gate(n).set()
            assert (await run.wait()).output == "done"


@pytest.mark.parametrize("found", ["at the start", "later"])
async def test_a_backlog_is_worked_off_oldest_first_and_never_more_at_once(found: str) -> None:
    shop = Workshop()
    async with house() as place:
        if found == "at the start":
            runs = [(await place.commands.submit(Task("worker", str(n)))).run for n in range(10)]
        async with place.open(shop.agent(), options=room(2)) as runtime:
            if found == "later":
                runs = [(await runtime.submit("worker", str(n))).id for n in range(10)]
            for n in range(10):
                await shop.working(min(n + 2, 10))
                shop.gate(n).set()
            for run in runs:
                assert (await runtime.run(run).wait()).output == "done"
        assert shop.began in ([0, 1, *range(2, 10)], [1, 0, *range(2, 10)])
        assert shop.most == 2


async def test_a_run_that_waits_for_a_person_has_no_place_and_gets_one_when_there_is_one() -> None:
    shop = Workshop()

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    payer = Agent("payer", tools=[pay], model=ScriptedModel([call("pay"), "done"], by_turn=True))
    async with house() as place, place.open(shop.agent(), payer, options=room(1)) as runtime:
        waiting = await runtime.submit("payer", "Go.")
        (asked,) = await pending(runtime)
        worker = await runtime.submit("worker", "1")
        await shop.working(1)
        await runtime.approve(asked.action, by="maria")
        await trio.testing.wait_all_tasks_blocked()
        assert (await types(waiting))[-1] == "approval.decided"
        shop.gate(1).set()
        assert (await waiting.wait()).output == "done"
        assert (await worker.wait()).output == "done"


async def test_a_run_that_has_ended_takes_no_place_though_a_thread_of_it_hangs() -> None:
    hang = threading.Event()
    hanging: list[str] = []
    both = trio.Event()

    def note() -> None:
        hanging.append("one")
        if len(hanging) == 2:
            both.set()

    @tool(effect="read_only", timeout=LIMIT)
    def slow() -> str:
        """Hang."""
        trio.from_thread.run_sync(note)
        hang.wait()
        return "late"

    sleeper = Agent("sleeper", tools=[slow], model=ScriptedModel([call("slow"), "done"], by_turn=True))
    async with house() as place, place.open(sleeper, clerk(), options=room(2)) as runtime:
        try:
            runs = [await runtime.submit("sleeper", "Go.") for _ in range(2)]
            await both.wait()
            place.clock.advance(LIMIT)
            for run in runs:
                assert (await run.wait()).output == "done"
            for _ in range(3):
                assert (await (await runtime.submit("clerk", "Hello?")).wait()).output == "done"
            # What their threads may still bring is waited for.
            await in_memory(runtime, 2)
        finally:
            hang.set()
        await in_memory(runtime, 0)


# ---- runs whose agent has changed


@attrs.define
class Payments:
    """Calls that wait for a person."""

    made: list[int] = attrs.Factory(list)

    def agent(self, count: int = 1, *, limits: Limits | None = None) -> Agent:
        model = ScriptedModel([calls(*(call("pay", n=n) for n in range(count))), "done"], by_turn=True)
        return Agent("payer", tools=[self.tool()], model=model, limits=limits or Limits())

    def tool(self) -> AnyTool:
        @tool(effect="idempotent_write", requires_approval=True)
        async def pay(n: int) -> str:
            """Pay."""
            self.made.append(n)
            return f"paid {n}"

        return pay


async def drifted(place: House, *agents: Agent) -> Run:
    """A run with two calls that wait, one of them approved; the process that did so was not fit to go on."""
    payments = Payments()
    async with place.open(payments.agent(2)) as runtime:
        run = await runtime.submit("payer", "Go.")
        asked = await pending(runtime, 2)
    async with place.open(*agents) as runtime:
        await runtime.approve(asked[0].action, by="maria")
        await until(runtime, run.id, "drifted")
        assert payments.made == []
    return run


@pytest.mark.parametrize("how", ["without its agent", "with another contract"])
async def test_an_approved_call_is_found_when_the_agent_is_back_though_another_still_waits(how: str) -> None:
    async with house() as place:
        others = [] if how == "without its agent" else [Payments().agent(2, limits=Limits(max_steps=9))]
        run = await drifted(place, *others)
        payments = Payments()
        async with place.open(payments.agent(2)) as runtime:
            state = await until(runtime, run.id, "awaiting_approval")
            assert state.drift is None
            assert payments.made == [0]
        async with place.open(payments.agent(2)) as runtime:
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria")
            assert (await runtime.run(run.id).wait()).output == "done"
        assert payments.made == [0, 1]


@pytest.mark.parametrize("places", [1, 2])
async def test_runs_without_their_agent_all_get_their_turn_when_it_is_back(places: int) -> None:
    """More of them than there are places; each takes one only for as long as it takes to see that it must wait."""
    async with house() as place:
        async with place.open(options=room(places)) as runtime:
            runs = [(await place.commands.submit(Task("clerk", "Hello?"))).run for _ in range(8)]
            for run in runs:
                await until(runtime, run, "drifted")
        async with place.open(clerk(), options=room(places)) as runtime:
            for run in runs:
                assert (await runtime.run(run).wait()).output == "done"


async def test_runs_that_go_on_waiting_for_their_agent_keep_no_other_from_its_turn() -> None:
    """All of those found at the start wait again at once; behind them is one that can run."""
    async with house() as place:
        async with place.open() as runtime:
            runs = [(await place.commands.submit(Task("gone", "Hello?"))).run for _ in range(8)]
            for run in runs:
                await until(runtime, run, "drifted")
        last = (await place.commands.submit(Task("clerk", "Hello?"))).run
        async with place.open(clerk(), options=room(2)) as runtime:
            assert (await runtime.run(last).wait()).output == "done"
            await in_memory(runtime, 0)
            for run in runs:
                # Nothing new to say.
                assert len(await of(runtime.run(run), RunWaiting)) == 1


async def test_a_run_that_was_passed_over_for_want_of_a_place_is_not_forgotten() -> None:
    """It becomes due, by a decision, while every place is taken, and nothing else happens to it later."""
    shop, payments = Workshop(), Payments()
    async with house() as place, place.open(shop.agent(), payments.agent(), options=room(2)) as runtime:
        runs = [await runtime.submit("payer", "Go.") for _ in range(5)]
        asked = await pending(runtime, 5)
        await in_memory(runtime, 0)
        workers = [await runtime.submit("worker", str(n)) for n in range(2)]
        await shop.working(2)
        for each in asked:
            await runtime.approve(each.action, by="maria")
        await trio.testing.wait_all_tasks_blocked()
        assert payments.made == []
        shop.gate(0).set()
        for run in runs:
            assert (await run.wait()).output == "done"
        assert payments.made == [0] * 5
        shop.gate(1).set()
        for worker in workers:
            assert (await worker.wait()).output == "done"
