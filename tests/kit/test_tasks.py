"""Tasks that an actor owns: they fail it, they end before it does, and they answer for it."""

from __future__ import annotations

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.kit import STOP, Actor, ActorFailed, ActorStopped, Ref, Reply, Request, State, Supervision, open_system

AT_ONCE = Supervision(first_delay=0, max_delay=0)


@attrs.frozen
class Do(Request[str]):
    what: str


async def _ask(ref: Ref[Do], what: str, outcomes: list[object]) -> None:
    try:
        outcomes.append(await ref.ask(Do(what)))
    except (ActorFailed, ActorStopped) as error:
        outcomes.append(type(error))


class Owner(Actor[Do]):
    """Runs tasks of its own."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.gate = trio.Event()
        self.scope: trio.CancelScope | None = None

    async def started(self) -> None:
        self.events.append("started")

    async def receive(self, message: Do) -> str:
        if message.what == "wait":
            await trio.sleep_forever()
        reply = self.context.reply_later(message)
        self.scope = self.context.start_task(self.work, message.what, reply)
        return "not used"

    async def work(self, what: str, reply: Reply[str]) -> None:
        try:
            await self.gate.wait()
        finally:
            self.events.append(f"ended {what}")
        if what == "raise":
            raise ValueError
        reply.send(what)


@given(st.random_module())
@settings(deadline=None, max_examples=30)
async def test_an_owned_task_that_raises_fails_the_actor_its_handler_and_its_open_asks(seed: object) -> None:
    events: list[str] = []
    outcomes: list[object] = []
    owners: list[Owner] = []

    def make() -> Owner:
        owners.append(Owner(events))
        return owners[-1]

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(make, supervision=AT_ONCE)
        for what in ("raise", "wait"):
            nursery.start_soon(_ask, ref, what, outcomes)
            await wait_all_tasks_blocked()
        assert ref.statistics().unanswered == 2
        owners[0].gate.set()
        await wait_all_tasks_blocked()
        assert outcomes == [ActorFailed, ActorFailed]
        owners[1].gate.set()
        await _ask(ref, "again", outcomes)
    assert outcomes[2] == "again"
    assert events == ["started", "ended raise", "started", "ended again"]


async def test_the_first_failure_is_the_cause() -> None:
    class Twice(Actor[Do]):
        async def receive(self, message: Do) -> None:
            self.context.start_task(self.second)
            self.context.start_task(self.first)

        async def first(self) -> None:
            raise KeyError("first")

        async def second(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("second")

    async with open_system() as system:
        ref = await system.spawn(Twice(), supervision=STOP)
        await ref.tell(Do(""))
        assert repr((await ref.wait_stopped()).cause) == "KeyError('first')"


async def test_an_owned_task_can_be_cancelled_alone() -> None:
    events: list[str] = []
    async with open_system() as system:
        owner = Owner(events)
        ref = await system.spawn(owner)
        await ref.tell(Do("a"))
        await wait_all_tasks_blocked()
        assert owner.scope is not None
        owner.scope.cancel()
        await wait_all_tasks_blocked()
        assert events == ["started", "ended a"]
        assert ref.statistics().state is State.RUNNING


async def test_a_task_that_an_ending_task_starts_is_ended_too() -> None:
    events: list[str] = []

    class Restless(Actor[Do]):
        async def started(self) -> None:
            self.context.start_task(self.first)

        async def first(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                self.context.start_task(self.second)

        async def second(self) -> None:
            try:
                events.append("second began")
                await trio.sleep_forever()
            finally:
                events.append("second ended")

    async with open_system() as system:
        ref = await system.spawn(Restless())
        await wait_all_tasks_blocked()
        await ref.stop()
        assert events == ["second began", "second ended"]


async def test_a_shielded_task_finishes_and_its_ask_is_answered_before_the_actor_ends() -> None:
    outcomes: list[object] = []
    gate = trio.Event()

    class Careful(Actor[Do]):
        async def receive(self, message: Do) -> None:
            self.context.start_task(self.write, message, self.context.reply_later(message))

        async def write(self, message: Do, reply: Reply[str]) -> None:
            with trio.CancelScope(shield=True):
                await gate.wait()
            reply.send("written")

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Careful())
        nursery.start_soon(_ask, ref, "write", outcomes)
        await wait_all_tasks_blocked()
        ref.cancel()
        await wait_all_tasks_blocked()
        assert ref.statistics().state.alive
        gate.set()
        assert (await ref.wait_stopped()).reason == "cancelled"
    assert outcomes == ["written"]


async def test_a_failure_inside_a_cancelled_nursery_of_the_handler_is_kept() -> None:
    class Nested(Actor[Do]):
        async def receive(self, message: Do) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.wait)
                nursery.start_soon(self.spoil)

        async def wait(self) -> None:
            await trio.sleep_forever()

        async def spoil(self) -> None:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                raise ValueError("while being cancelled") from None

    async with open_system() as system:
        ref = await system.spawn(Nested(), supervision=STOP)
        await ref.tell(Do(""))
        await wait_all_tasks_blocked()
        ref.cancel()
        ended = await ref.wait_stopped()
    assert ended.reason == "failed"
    assert isinstance(ended.cause, ExceptionGroup)
