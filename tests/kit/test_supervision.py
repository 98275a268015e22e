"""Supervision at work: restarts, intensity, stop, escalation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.kit import (
    STOP,
    Actor,
    ActorFailed,
    ActorStopped,
    Ref,
    Request,
    State,
    Supervision,
    Terminated,
    open_system,
)

AT_ONCE = Supervision(first_delay=0, max_delay=0)


@attrs.frozen
class Do(Request[str]):
    what: str


class HeldClock:
    """A clock that stands still; a time limit passes when the test lets it."""

    def __init__(self) -> None:
        self.moment = 1_700_000_000_000_000_000
        self.delays: list[float] = []
        self.scopes: list[trio.CancelScope] = []

    def now(self) -> int:
        return self.moment

    async def sleep_until(self, moment: int) -> None:
        raise NotImplementedError

    def timeout(self, seconds: float) -> AbstractContextManager[trio.CancelScope]:
        self.delays.append(seconds)
        self.scopes.append(trio.CancelScope())
        return self.scopes[-1]

    def pass_limit(self) -> None:
        self.scopes[-1].cancel()


class Fragile(Actor[Do]):
    """Counts its instances; raises when told so."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    async def started(self) -> None:
        self.events.append("started")

    async def receive(self, message: Do) -> str:
        self.events.append(message.what)
        if message.what == "raise":
            raise ValueError("as told")
        return message.what

    async def stopped(self) -> None:
        self.events.append("stopped")


def factory(events: list[str]) -> Callable[[], Fragile]:
    return lambda: Fragile(events)


async def _ask(ref: Ref[Do], what: str, outcomes: list[object]) -> None:
    try:
        outcomes.append(await ref.ask(Do(what)))
    except (ActorFailed, ActorStopped) as error:
        outcomes.append(type(error))


async def test_a_restart_makes_a_new_instance_keeps_the_mailbox_and_drops_the_message_in_hand() -> None:
    events: list[str] = []
    outcomes: list[object] = []
    clock = HeldClock()
    async with open_system(clock=clock) as system, trio.open_nursery() as nursery:
        ref = await system.spawn(factory(events), supervision=Supervision(first_delay=0.5))
        for what in ("a", "raise", "b"):
            nursery.start_soon(_ask, ref, what, outcomes)
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert ref.statistics().state is State.RESTARTING
        nursery.start_soon(_ask, ref, "c", outcomes)
        await wait_all_tasks_blocked()
        assert clock.delays == [0.5]
        clock.pass_limit()
        await wait_all_tasks_blocked()
        statistics = ref.statistics()
        assert (statistics.failures, statistics.restarts, statistics.state) == (1, 1, State.RUNNING)
    assert events.count("raise") == 1
    assert events.count("started") == 2
    assert sorted(map(str, outcomes)) == sorted(map(str, ["a", "b", "c", ActorFailed]))
    # The failed instance gets no stopped hook; only the last one does.
    assert events.count("stopped") == 1


async def test_the_asker_learns_the_cause() -> None:
    async with open_system() as system:
        ref = await system.spawn(factory([]), name="f", supervision=AT_ONCE)
        with pytest.raises(ActorFailed, match="actor system/f: it failed with ValueError") as caught:
            await ref.ask(Do("raise"))
        assert str(caught.value.cause) == "as told"


async def test_delays_grow_and_the_failure_after_the_last_restart_gives_up() -> None:
    events: list[str] = []
    clock = HeldClock()
    policy = Supervision(max_restarts=3, first_delay=1, max_delay=3, when_exhausted="stop")
    async with open_system(clock=clock) as system:
        ref = await system.spawn(factory(events), supervision=policy)
        for _ in range(3):
            ref.tell_nowait(Do("raise"))
            await wait_all_tasks_blocked()
            clock.pass_limit()
            await wait_all_tasks_blocked()
        assert ref.statistics().state is State.RUNNING
        ref.tell_nowait(Do("raise"))
        ended = await ref.wait_stopped()
        assert (ended.reason, type(ended.cause)) == ("failed", ValueError)
        assert clock.delays == [1, 2, 3]
        assert ref.statistics().state is State.FAILED
        with pytest.raises(ActorStopped):
            await ref.ask(Do("a"))
    assert "stopped" not in events


async def test_failures_that_lie_further_apart_than_the_period_are_forgiven() -> None:
    clock = HeldClock()
    async with open_system(clock=clock) as system:
        ref = await system.spawn(factory([]), supervision=Supervision(max_restarts=1, period=10, first_delay=1))
        for _ in range(5):
            ref.tell_nowait(Do("raise"))
            await wait_all_tasks_blocked()
            clock.pass_limit()
            await wait_all_tasks_blocked()
            clock.moment += 10_000_000_000
        assert ref.statistics().restarts == 5
        assert clock.delays == [1] * 5


@pytest.mark.parametrize("place", ["factory", "started"])
async def test_a_failure_to_start_is_a_failure_like_any_other(place: str) -> None:
    tries: list[str] = []

    class Starts(Actor[Do]):
        async def started(self) -> None:
            if place == "started" and len(tries) < 3:
                raise OSError

        async def receive(self, message: Do) -> str:
            return message.what

    def make() -> Starts:
        tries.append("try")
        if place == "factory" and len(tries) < 3:
            raise OSError
        return Starts()

    async with open_system() as system:
        ref = await system.spawn(make, supervision=AT_ONCE)
        assert await ref.ask(Do("at last")) == "at last"
        assert ref.statistics().restarts == 2


async def test_stop_ends_the_actor_alone_and_answers_its_asks() -> None:
    outcomes: list[object] = []
    async with open_system() as system, trio.open_nursery() as nursery:
        bystander = await system.spawn(factory([]))
        ref = await system.spawn(Fragile([]), supervision=STOP)
        for what in ("raise", "a"):
            nursery.start_soon(_ask, ref, what, outcomes)
        ended = await ref.wait_stopped()
        assert ended.reason == "failed"
        await wait_all_tasks_blocked()
        assert await bystander.ask(Do("fine")) == "fine"
    assert set(outcomes) <= {ActorFailed, ActorStopped, "a"}
    assert outcomes.count(ActorFailed) == 1


async def test_by_default_a_failure_escalates_out_of_the_block_like_an_exception_in_a_task() -> None:
    async def block() -> None:
        async with open_system() as system:
            ref = await system.spawn(Fragile([]), name="f")
            await ref.tell(Do("raise"))
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.group_contains(ActorFailed, match="system/f")


class Parent(Actor[Do]):
    """Forwards to a child."""

    def __init__(self, events: list[str], policy: Supervision) -> None:
        self.events = events
        self.policy = policy

    async def started(self) -> None:
        self.events.append("parent started")
        self.child = await self.context.spawn(factory(self.events), name="child", supervision=self.policy)

    async def receive(self, message: Do) -> str:
        if message.what == "wait":
            await trio.sleep_forever()
        if message.what == "raise parent":
            raise KeyError
        return await self.child.ask(message)


@given(st.random_module())
@settings(deadline=None, max_examples=30)
async def test_an_escalation_fails_the_parent_and_cancels_its_handler(seed: object) -> None:
    events: list[str] = []
    outcomes: list[object] = []
    escalate = Supervision(on_failure="escalate")
    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(lambda: Parent(events, escalate), name="p", supervision=AT_ONCE)
        nursery.start_soon(_ask, ref, "raise", outcomes)
        await wait_all_tasks_blocked()
        assert outcomes == [ActorFailed]
        # Both live again: the parent was restarted and its started hook spawned a new child.
        nursery.start_soon(_ask, ref, "hello", outcomes)
        await wait_all_tasks_blocked()
        assert outcomes == [ActorFailed, "hello"]
        assert ref.statistics().restarts == 1
        assert [node.path for node in system.tree().children[0].children] == ["system/p/child"]
    assert events.count("parent started") == 2


async def test_a_failing_parents_children_are_cancelled_before_it_restarts() -> None:
    events: list[str] = []
    async with open_system() as system:
        ref = await system.spawn(lambda: Parent(events, AT_ONCE), name="p", supervision=AT_ONCE)
        await ref.tell(Do("raise parent"))
        await wait_all_tasks_blocked()
        assert events == ["parent started", "started", "parent started", "started"]
        assert system.statistics().actors == 2


async def test_a_childs_restarts_do_not_touch_its_parent() -> None:
    events: list[str] = []
    outcomes: list[object] = []
    async with open_system() as system:
        parent = Parent(events, AT_ONCE)
        ref = await system.spawn(parent, supervision=STOP)
        await wait_all_tasks_blocked()
        await _ask(parent.child, "raise", outcomes)
        assert await ref.ask(Do("hello")) == "hello"
    assert outcomes == [ActorFailed]
    assert events.count("parent started") == 1


async def test_an_escalation_while_the_parent_stops_ends_it_as_failed() -> None:
    gate = trio.Event()

    class Child(Actor[Do]):
        async def receive(self, message: Do) -> str:
            await gate.wait()
            raise ValueError

    class Stopping(Actor[Do]):
        async def started(self) -> None:
            child = await self.context.spawn(Child())
            await child.tell(Do("raise"))

        async def receive(self, message: Do) -> str:
            return message.what

    async with open_system() as system:
        ref = await system.spawn(Stopping, supervision=AT_ONCE)
        await wait_all_tasks_blocked()
        ref.request_stop()
        await wait_all_tasks_blocked()
        gate.set()
        ended = await ref.wait_stopped()
        assert (ended.reason, type(ended.cause)) == ("failed", ActorFailed)


async def test_what_is_no_exception_goes_through_and_ends_the_block() -> None:
    class Halt(BaseException):
        pass

    class Halting(Actor[Do]):
        async def receive(self, message: Do) -> None:
            raise BaseExceptionGroup("mixed", [ValueError(), Halt()])

    async def block() -> None:
        async with open_system() as system:
            ref = await system.spawn(Halting(), supervision=STOP)
            await ref.tell(Do(""))
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await block()
    assert caught.value.subgroup(Halt) is not None
    assert caught.value.subgroup(ValueError) is None


@given(st.random_module())
@settings(deadline=None, max_examples=50)
async def test_a_message_that_arrives_with_a_failure_is_left_to_the_next_instance(seed: object) -> None:
    handled: list[int] = []

    class Numbered(Actor[Do]):
        count = 0

        async def started(self) -> None:
            Numbered.count += 1
            self.number = Numbered.count

        async def receive(self, message: Do) -> None:
            if message.what == "task":
                self.context.start_task(self.spoil)
            else:
                handled.append(self.number)

        async def spoil(self) -> None:
            self.context.ref.tell_nowait(Do("late"))
            raise ValueError

    async with open_system() as system:
        ref = await system.spawn(Numbered, supervision=AT_ONCE)
        await ref.tell(Do("task"))
        await wait_all_tasks_blocked()
    assert handled == [2]


async def test_an_instance_serves_one_spawn_and_cannot_be_restarted() -> None:
    async with open_system() as system:
        with pytest.raises(ValueError, match="restart needs a factory"):
            await system.spawn(Fragile([]), supervision=AT_ONCE)
        actor = Fragile([])
        await system.spawn(actor)
        with pytest.raises(ValueError, match="spawned before"):
            await system.spawn(actor)
        assert system.statistics().actors == 1


async def test_a_factory_that_hands_out_the_same_instance_twice_is_told_so() -> None:
    async with open_system() as system:
        actor = Fragile([])
        policy = Supervision(first_delay=0, max_restarts=1, when_exhausted="stop")
        ref = await system.spawn(lambda: actor, supervision=policy)
        await ref.tell(Do("raise"))
        ended = await ref.wait_stopped()
    assert isinstance(ended.cause, ValueError)
    assert "new instance" in str(ended.cause)


async def test_a_message_that_the_actor_cannot_take_is_a_failure() -> None:
    class Bare(Actor[Do]):
        pass

    async with open_system() as system:
        ref = await system.spawn(Bare(), supervision=STOP)
        with pytest.raises(ActorFailed) as caught:
            await ref.ask(Do("anything"))
        assert isinstance(caught.value.cause, NotImplementedError)


async def test_a_failure_is_logged_without_what_the_exception_says(caplog: pytest.LogCaptureFixture) -> None:
    async with open_system() as system:
        ref = await system.spawn(Fragile([]), name="f", supervision=STOP)
        await ref.tell(Do("raise"))
        assert await ref.wait_stopped() == Terminated("system/f", "failed")
    assert [record.getMessage() for record in caplog.records] == ["actor system/f failed with ValueError: Stop()"]
