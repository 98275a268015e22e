"""Orderly stop: what was accepted is handled, children stop first, every ask gets an answer."""

from __future__ import annotations

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.kit import (
    Actor,
    ActorFailed,
    ActorStopped,
    Ref,
    Request,
    SelfWait,
    State,
    Supervision,
    Terminated,
    open_system,
)


@attrs.frozen
class Job(Request[int]):
    number: int


class Worker(Actor[Job]):
    def __init__(self, events: list[str], gate: trio.Event) -> None:
        self.events = events
        self.gate = gate

    async def receive(self, message: Job) -> int:
        await self.gate.wait()
        self.events.append(f"handled {message.number}")
        return message.number

    async def stopped(self) -> None:
        self.events.append(f"stopped {self.context.name}")


async def test_what_was_accepted_is_handled_and_what_comes_later_is_refused() -> None:
    events: list[str] = []
    answers: list[object] = []
    gate = trio.Event()

    async def ask(ref: Ref[Job], number: int) -> None:
        try:
            answers.append(await ref.ask(Job(number)))
        except ActorStopped as error:
            answers.append((number, error.actor))

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Worker(events, gate), name="w", mailbox=2)
        for number in (1, 2, 3, 4):
            nursery.start_soon(ask, ref, number)
            await wait_all_tasks_blocked()
        ref.request_stop()
        ref.request_stop()
        assert ref.statistics().state is State.STOPPING
        await wait_all_tasks_blocked()
        # The fourth waited for room: it was not accepted.
        assert answers == [(4, "system/w")]
        for refused in (ref.tell, ref.ask):
            with pytest.raises(ActorStopped):
                await refused(Job(5))
        with pytest.raises(ActorStopped):
            ref.tell_nowait(Job(5))
        gate.set()
        assert await ref.stop() == Terminated("system/w", "stopped")
        await wait_all_tasks_blocked()
    assert answers == [(4, "system/w"), 1, 2, 3]
    assert events == ["handled 1", "handled 2", "handled 3", "stopped system/w"]
    with pytest.raises(ActorStopped):
        ref.tell_nowait(Job(6))


async def test_a_tell_that_waits_for_room_is_refused_by_a_stop() -> None:
    gate = trio.Event()

    async def tell(ref: Ref[Job]) -> None:
        with pytest.raises(ActorStopped):
            await ref.tell(Job(3))

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Worker([], gate), mailbox=1)
        ref.tell_nowait(Job(1))
        await wait_all_tasks_blocked()
        ref.tell_nowait(Job(2))
        nursery.start_soon(tell, ref)
        await wait_all_tasks_blocked()
        ref.request_stop()
        await wait_all_tasks_blocked()
        gate.set()


@given(st.random_module(), st.integers(1, 4), st.integers(0, 12))
@settings(deadline=None)
async def test_every_ask_is_answered_exactly_once_however_a_stop_falls(seed: object, mailbox: int, asks: int) -> None:
    outcomes: list[tuple[int, str]] = []
    events: list[str] = []
    gate = trio.Event()
    gate.set()

    async def ask(ref: Ref[Job], number: int) -> None:
        try:
            await ref.ask(Job(number))
        except ActorStopped:
            outcomes.append((number, "refused"))
        else:
            outcomes.append((number, "handled"))

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Worker(events, gate), mailbox=mailbox)
        for number in range(asks):
            nursery.start_soon(ask, ref, number)
        nursery.start_soon(ref.stop)
    assert sorted(number for number, _ in outcomes) == list(range(asks))
    handled = {f"handled {number}" for number, what in outcomes if what == "handled"}
    assert handled == {event for event in events if event.startswith("handled")}


class Parent(Actor[Job]):
    def __init__(self, events: list[str]) -> None:
        self.events = events

    async def started(self) -> None:
        gate = trio.Event()
        gate.set()
        for name in ("a", "b"):
            await self.context.spawn(Worker(self.events, gate), name=name)
        self.context.start_task(self.tick)

    async def tick(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.events.append("task ended")

    async def receive(self, message: Job) -> int:
        self.events.append(f"handled {message.number}")
        return message.number

    async def stopped(self) -> None:
        self.events.append("stopped parent")


async def test_children_stop_before_their_parent_the_last_spawned_first_and_tasks_last() -> None:
    events: list[str] = []
    async with open_system() as system:
        ref = await system.spawn(Parent(events), name="p")
        await ref.tell(Job(1))
        await ref.stop()
        assert events == ["handled 1", "stopped system/p/b", "stopped system/p/a", "stopped parent", "task ended"]


async def test_leaving_the_block_stops_all_actors_in_order_the_last_spawned_first() -> None:
    events: list[str] = []
    async with open_system(name="shop") as system:
        for name in ("one", "two"):
            ref = await system.spawn(Parent(events), name=name)
            await ref.tell(Job(1))
        await wait_all_tasks_blocked()
        events.clear()
    assert [event for event in events if event.startswith("stopped shop")] == [
        "stopped shop/two/b",
        "stopped shop/two/a",
        "stopped shop/one/b",
        "stopped shop/one/a",
    ]
    with pytest.raises(ActorStopped):
        await system.spawn(Parent(events))


async def test_an_actor_may_stop_itself_and_finishes_what_is_in_hand() -> None:
    class Once(Actor[Job]):
        async def receive(self, message: Job) -> int:
            self.context.stop()
            await trio.lowlevel.checkpoint()
            return message.number

    async with open_system() as system:
        ref = await system.spawn(Once())
        assert await ref.ask(Job(1)) == 1
        assert (await ref.wait_stopped()).reason == "stopped"


async def test_a_descendant_must_not_await_its_ancestors_end() -> None:
    refused: list[str] = []

    class Child(Actor[Ref[Job]]):
        async def receive(self, message: Ref[Job]) -> None:
            for wait in (message.stop, message.wait_stopped):
                try:
                    await wait()
                except SelfWait as error:
                    refused.append(type(error).__name__)

    class Ancestor(Actor[Job]):
        async def started(self) -> None:
            child = await self.context.spawn(Child())
            await child.tell(self.context.ref)

        async def receive(self, message: Job) -> int:
            return message.number

    async with open_system() as system:
        await system.spawn(Ancestor())
        await wait_all_tasks_blocked()
        assert refused == ["SelfWait", "SelfWait"]


async def test_an_actor_must_not_await_its_systems_end() -> None:
    refused: list[str] = []

    async with open_system() as system:

        class Rebel(Actor[Job]):
            async def receive(self, message: Job) -> int:
                try:
                    await system.stop()
                except SelfWait as error:
                    refused.append(type(error).__name__)
                return message.number

        ref = await system.spawn(Rebel())
        await ref.ask(Job(1))
        assert system.tree().state is State.RUNNING
    assert refused == ["SelfWait"]


async def test_a_failure_while_stopping_ends_it_as_failed_and_answers_the_rest() -> None:
    gate = trio.Event()
    outcomes: list[object] = []

    class Fails(Actor[Job]):
        async def receive(self, message: Job) -> int:
            await gate.wait()
            raise ValueError

    async def ask(ref: Ref[Job]) -> None:
        try:
            await ref.ask(Job(0))
        except (ActorStopped, ActorFailed) as error:
            outcomes.append(type(error))

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Fails, supervision=Supervision(first_delay=0))
        for _ in range(2):
            nursery.start_soon(ask, ref)
        await wait_all_tasks_blocked()
        ref.request_stop()
        gate.set()
        ended = await ref.wait_stopped()
        assert (ended.reason, type(ended.cause)) == ("failed", ValueError)
        assert ref.statistics().restarts == 0
    assert sorted(outcomes, key=str) == [ActorFailed, ActorStopped]


async def test_a_stop_during_back_off_ends_the_wait_and_answers_the_asks() -> None:
    class Fails(Actor[Job]):
        async def receive(self, message: Job) -> int:
            raise ValueError

    async def ask(ref: Ref[Job], expected: type[Exception]) -> None:
        with pytest.raises(expected):
            await ref.ask(Job(0))

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Fails, supervision=Supervision(first_delay=3600, max_delay=3600))
        nursery.start_soon(ask, ref, ActorFailed)
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, ref, ActorStopped)
        await wait_all_tasks_blocked()
        assert ref.statistics().mailbox == 1
        assert (await ref.stop()).reason == "stopped"


async def test_a_stop_while_it_starts_is_taken_after_the_start() -> None:
    events: list[str] = []
    gate = trio.Event()

    class Slow(Worker):
        async def started(self) -> None:
            await self.gate.wait()
            self.events.append("started")

    async with open_system() as system:
        ref = await system.spawn(Slow(events, gate), name="s")
        ref.tell_nowait(Job(1))
        await wait_all_tasks_blocked()
        assert ref.statistics().state is State.STARTING
        ref.request_stop()
        gate.set()
        await ref.wait_stopped()
    assert events == ["started", "handled 1", "stopped system/s"]


async def test_an_ended_actor_may_be_stopped_cancelled_and_awaited_again() -> None:
    async with open_system() as system:
        ref = await system.spawn(Worker([], trio.Event()))
        ended = await ref.stop()
        ref.request_stop()
        ref.cancel()
        assert await ref.stop() == ended
        assert await ref.wait_stopped() == ended
        assert ref.statistics().state is State.STOPPED
