"""A cancel at every await of the kit: nothing lost, nothing left behind, nobody hangs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.kit import Actor, ActorStopped, Ref, Reply, Request, State, Supervision, Terminated, open_system


@attrs.frozen
class Job(Request[int]):
    number: int


class Worker(Actor[Job]):
    def __init__(self) -> None:
        self.gate = trio.Event()
        self.seen: list[int] = []

    async def receive(self, message: Job) -> int:
        await self.gate.wait()
        self.seen.append(message.number)
        return message.number


async def _cancelled(fn: Callable[[], Awaitable[object]]) -> None:
    """Run ``fn`` until everything blocks, cancel it there, and see that the cancel was what ended it."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def body() -> None:
                await fn()
                pytest.fail("it returned before it was cancelled")

            nursery.start_soon(body)
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


async def test_a_tell_that_is_cancelled_before_it_starts_sends_nothing() -> None:
    async with open_system() as system:
        actor = Worker()
        actor.gate.set()
        ref = await system.spawn(actor)
        for send in (ref.tell, ref.ask):
            with trio.CancelScope() as scope:
                scope.cancel()
                await send(Job(1))
            assert scope.cancelled_caught
        await wait_all_tasks_blocked()
        assert actor.seen == []


async def test_a_spawn_that_is_cancelled_before_it_starts_spawns_nothing() -> None:
    async with open_system() as system:
        with trio.CancelScope() as scope:
            scope.cancel()
            await system.spawn(Worker())
        assert scope.cancelled_caught
        assert system.statistics().spawned == 0


async def test_a_tell_or_ask_that_is_cancelled_while_it_waits_for_room_was_not_accepted() -> None:
    async with open_system() as system:
        actor = Worker()
        ref = await system.spawn(actor, mailbox=1)
        ref.tell_nowait(Job(1))
        await wait_all_tasks_blocked()
        ref.tell_nowait(Job(2))
        await _cancelled(lambda: ref.tell(Job(3)))
        await _cancelled(lambda: ref.ask(Job(4)))
        assert ref.statistics().waiting_senders == 0
        actor.gate.set()
        assert await ref.ask(Job(5)) == 5
        assert actor.seen == [1, 2, 5]


async def test_an_accepted_ask_whose_asker_left_is_handled_all_the_same() -> None:
    async with open_system() as system:
        actor = Worker()
        ref = await system.spawn(actor)
        await _cancelled(lambda: ref.ask(Job(1)))
        await _cancelled(lambda: ref.ask(Job(2)))
        actor.gate.set()
        assert await ref.ask(Job(3)) == 3
        assert actor.seen == [1, 2, 3]


async def test_a_time_limit_is_the_callers() -> None:
    async with open_system() as system:
        ref = await system.spawn(Worker())
        with pytest.raises(trio.TooSlowError), trio.fail_after(0):
            await ref.ask(Job(1))


async def test_a_cancelled_stop_lets_the_actor_go_on_stopping() -> None:
    async with open_system() as system:
        actor = Worker()
        ref = await system.spawn(actor)
        ref.tell_nowait(Job(1))
        await _cancelled(ref.stop)
        await _cancelled(ref.wait_stopped)
        await _cancelled(system.stop)
        assert ref.statistics().state is State.STOPPING
        actor.gate.set()
        assert await ref.wait_stopped() == Terminated(ref.name, "stopped")
        assert actor.seen == [1]


class Slow(Actor[Job]):
    """Blocks for ever at the place that it is told."""

    def __init__(self, place: str, events: list[str]) -> None:
        self.place = place
        self.events = events

    async def block(self, place: str) -> None:
        self.events.append(place)
        try:
            if place == self.place:
                await trio.sleep_forever()
        except trio.Cancelled:
            self.events.append(f"cancelled {place}")
            raise

    async def started(self) -> None:
        await self.block("started")

    async def receive(self, message: Job) -> int:
        await self.block("receive")
        return message.number

    async def stopped(self) -> None:
        await self.block("stopped")


PLACES = ["started", "receive", "stopped", "idle"]


async def _drive(ref: Ref[Job], place: str, outcomes: list[object]) -> None:
    try:
        outcomes.append(await ref.ask(Job(7)))
    except ActorStopped:
        outcomes.append("stopped")
    if place == "stopped":
        ref.request_stop()


@pytest.mark.parametrize("place", PLACES)
@given(st.random_module())
@settings(deadline=None, max_examples=20)
async def test_cancelling_an_actor_ends_it_wherever_it_is(place: str, seed: object) -> None:
    events: list[str] = []
    outcomes: list[object] = []
    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Slow(place, events))
        nursery.start_soon(_drive, ref, place, outcomes)
        await wait_all_tasks_blocked()
        ref.cancel()
        assert await ref.wait_stopped() == Terminated(ref.name, "cancelled")
    assert outcomes == [7 if place in {"stopped", "idle"} else "stopped"]
    assert place == "idle" or events[-1] == f"cancelled {place}"
    assert place == "stopped" or "stopped" not in events


@pytest.mark.parametrize("place", PLACES)
@given(st.random_module())
@settings(deadline=None, max_examples=20)
async def test_cancelling_the_block_ends_everything_wherever_it_is(place: str, seed: object) -> None:
    events: list[str] = []
    outcomes: list[object] = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with open_system() as system:
                ref = await system.spawn(Slow(place, events))
                nursery.start_soon(_drive, ref, place, outcomes)
                await wait_all_tasks_blocked()
                scope.cancel()
        assert system.statistics().actors == 0
        assert await ref.wait_stopped() == Terminated(ref.name, "cancelled")
    assert len(outcomes) == 1


@given(st.random_module(), st.booleans())
@settings(deadline=None)
async def test_a_cancelled_actor_takes_no_message_more_whether_or_not_it_had_a_turn(seed: object, turn: bool) -> None:
    events: list[str] = []
    async with open_system() as system:
        ref = await system.spawn(Slow("nowhere", events))
        if turn:
            await wait_all_tasks_blocked()
        ref.tell_nowait(Job(1))
        ref.cancel()
        assert await ref.wait_stopped() == Terminated(ref.name, "cancelled")
    assert events in ([], ["started"])


async def test_an_actor_whose_block_is_cancelled_ends_after_its_tasks_have() -> None:
    gate = trio.Event()
    outcomes: list[object] = []

    class Careful(Actor[Job]):
        async def receive(self, message: Job) -> None:
            self.context.start_task(self.write, message, self.context.reply_later(message))

        async def write(self, message: Job, reply: Reply[int]) -> None:
            with trio.CancelScope(shield=True):
                await gate.wait()
            reply.send(message.number)

    async def block(scope: trio.CancelScope, refs: list[Ref[Job]]) -> None:
        with scope:
            async with open_system() as system:
                refs.append(await system.spawn(Careful()))
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        refs: list[Ref[Job]] = []
        nursery.start_soon(block, scope, refs)
        await wait_all_tasks_blocked()
        nursery.start_soon(_drive, refs[0], "idle", outcomes)
        await wait_all_tasks_blocked()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert refs[0].statistics().state.alive
        gate.set()
    assert outcomes == [7]


async def test_a_cancel_during_back_off_ends_the_wait() -> None:
    class Fails(Actor[Job]):
        async def receive(self, message: Job) -> int:
            raise ValueError

    async with open_system() as system:
        ref = await system.spawn(Fails, supervision=Supervision(first_delay=3600, max_delay=3600))
        await ref.tell(Job(1))
        await wait_all_tasks_blocked()
        assert ref.statistics().state is State.RESTARTING
        ref.cancel()
        assert (await ref.wait_stopped()).reason == "cancelled"


async def test_cancelling_the_block_during_back_off_ends_the_wait() -> None:
    class Fails(Actor[Job]):
        async def started(self) -> None:
            raise ValueError

    with trio.CancelScope() as scope:
        async with open_system() as system:
            ref = await system.spawn(Fails, supervision=Supervision(first_delay=3600, max_delay=3600))
            await wait_all_tasks_blocked()
            assert ref.statistics().state is State.RESTARTING
            scope.cancel()
    assert (await ref.wait_stopped()).reason == "cancelled"


async def test_an_error_in_the_body_cancels_all_actors_and_is_raised() -> None:
    events: list[str] = []

    async def block() -> None:
        async with open_system() as system:
            await system.spawn(Slow("receive", events), name="slow")
            await wait_all_tasks_blocked()
            raise KeyError("body")

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.group_contains(KeyError, match="body")
    assert events == ["started"]


async def test_system_cancel_ends_the_body_too() -> None:
    events: list[str] = []
    async with open_system() as system:
        ref = await system.spawn(Slow("receive", events))
        await ref.tell(Job(1))
        await wait_all_tasks_blocked()
        system.cancel()
        await trio.lowlevel.checkpoint()
        events.append("the body went on")
    assert events == ["started", "receive", "cancelled receive"]
    assert (await ref.wait_stopped()).reason == "cancelled"
