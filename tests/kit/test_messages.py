"""Telling and asking: order, back-pressure, answers, checkpoints, rules for talking to oneself."""

from __future__ import annotations

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trouper.kit import Actor, ActorFailed, ActorStopped, MailboxFull, Ref, Reply, Request, SelfWait, open_system


@attrs.frozen
class Ping(Request[str]):
    text: str


@attrs.frozen
class Give(Request[object]):
    value: object


class Echo(Actor[Ping | Give]):
    async def receive(self, message: Ping | Give) -> object:
        return message.text if isinstance(message, Ping) else message.value


class Gated(Actor[object]):
    """Records messages; waits at a gate while it handles each."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.seen: list[object] = []

    async def receive(self, message: object) -> object:
        await self.gate.wait()
        self.seen.append(message)
        return message


async def test_an_ask_returns_what_receive_returns() -> None:
    async with open_system() as system:
        ref = await system.spawn(Echo())
        assert await ref.ask(Ping("hello")) == "hello"


@pytest.mark.parametrize("value", [None, 0, ValueError("just a value"), StopIteration(), (), NotImplemented])
async def test_an_answer_is_a_value_even_if_it_is_an_exception(value: object) -> None:
    async with open_system() as system:
        ref = await system.spawn(Echo())
        assert await ref.ask(Give(value)) is value


async def test_tell_tell_nowait_and_ask_keep_one_order() -> None:
    async with open_system() as system:
        actor = Gated()
        ref = await system.spawn(actor)
        ref.tell_nowait(1)
        await ref.tell(2)
        actor.gate.set()
        await ref.ask(Ping("3"))
        assert actor.seen == [1, 2, Ping("3")]


async def test_what_receive_returns_for_a_told_message_is_ignored() -> None:
    async with open_system() as system:
        ref = await system.spawn(Echo())
        await ref.tell(Ping("nobody asked"))
        assert await ref.ask(Ping("asked")) == "asked"


async def test_a_full_mailbox_refuses_tell_nowait_and_holds_tell_and_ask_back() -> None:
    async with open_system() as system, trio.open_nursery() as nursery:
        actor = Gated()
        ref = await system.spawn(actor, mailbox=2)
        ref.tell_nowait("in hand")
        await wait_all_tasks_blocked()
        ref.tell_nowait("first")
        ref.tell_nowait("second")
        with pytest.raises(MailboxFull) as caught:
            ref.tell_nowait("refused")
        assert (caught.value.actor, caught.value.capacity) == (ref.name, 2)
        nursery.start_soon(ref.tell, "third")
        await wait_all_tasks_blocked()
        nursery.start_soon(ref.ask, Ping("fourth"))
        await wait_all_tasks_blocked()
        assert (ref.statistics().mailbox, ref.statistics().waiting_senders) == (2, 2)
        actor.gate.set()
        await wait_all_tasks_blocked()
        assert actor.seen == ["in hand", "first", "second", "third", Ping("fourth")]
        assert (ref.statistics().mailbox, ref.statistics().waiting_senders) == (0, 0)


@given(st.random_module(), st.integers(1, 5), st.integers(1, 6))
@settings(deadline=None)
async def test_senders_that_wait_are_served_in_turn_and_none_is_lost(seed: object, mailbox: int, senders: int) -> None:
    seen: list[tuple[int, int]] = []

    class Sink(Actor[tuple[int, int]]):
        async def receive(self, message: tuple[int, int]) -> int:
            seen.append(message)
            return message[1]

    async def send(ref: Ref[tuple[int, int]], sender: int) -> None:
        for number in range(10):
            await ref.tell((sender, number))

    async with open_system() as system:
        ref = await system.spawn(Sink(), mailbox=mailbox)
        async with trio.open_nursery() as nursery:
            for sender in range(senders):
                nursery.start_soon(send, ref, sender)
        assert ref.statistics().mailbox <= mailbox
    assert sorted(seen) == [(sender, number) for sender in range(senders) for number in range(10)]
    for sender in range(senders):
        assert [number for who, number in seen if who == sender] == list(range(10))


@given(st.random_module(), st.integers(1, 3), st.integers(1, 8))
@settings(deadline=None)
async def test_each_of_many_askers_gets_its_own_answer(seed: object, mailbox: int, askers: int) -> None:
    async def ask(ref: Ref[Ping | Give], number: int) -> None:
        assert await ref.ask(Give(number)) == number

    async with open_system() as system:
        ref = await system.spawn(Echo(), mailbox=mailbox)
        async with trio.open_nursery() as nursery:
            for number in range(askers):
                nursery.start_soon(ask, ref, number)


async def test_tell_ask_spawn_stop_and_wait_are_checkpoints() -> None:
    async with open_system() as system:
        with assert_checkpoints():
            ref = await system.spawn(Echo())
        with assert_checkpoints():
            await ref.tell(Ping(""))
        with assert_checkpoints():
            await ref.ask(Ping(""))
        with assert_checkpoints():
            await ref.stop()
        with assert_checkpoints():
            await ref.wait_stopped()
        with assert_checkpoints():
            await system.stop()


async def test_a_busy_actor_lets_others_run() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Echo(), mailbox=1000)
        for _ in range(1000):
            ref.tell_nowait(Ping(""))
        nursery.start_soon(count)
        while ref.statistics().handled < 1000:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert turns > 10


class Narcissus(Actor[str]):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def receive(self, message: str) -> None:
        self.seen.append(message)
        ref = self.context.ref
        if message == "tell":
            await ref.tell("told")
            with pytest.raises(MailboxFull):
                await ref.tell("one too many")
        elif message == "ask":
            with pytest.raises(SelfWait, match="asked itself"):
                await ref.ask(Ping("me"))
        elif message == "stop":
            with pytest.raises(SelfWait, match="request_stop"):
                await ref.stop()
            with pytest.raises(SelfWait, match="request_stop"):
                await ref.wait_stopped()


async def test_an_actor_may_tell_itself_while_there_is_room_and_may_not_wait_for_itself() -> None:
    async with open_system() as system:
        actor = Narcissus()
        ref = await system.spawn(actor, mailbox=1)
        for message in ("tell", "ask", "stop"):
            await ref.tell(message)
            await wait_all_tasks_blocked()
        assert actor.seen == ["tell", "told", "ask", "stop"]


class Desk(Actor[Ping]):
    """Answers later, from a task."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.open: list[Reply[str]] = []

    async def receive(self, message: Ping) -> str:
        reply = self.context.reply_later(message)
        self.open.append(reply)
        self.context.start_task(self.work, message, reply)
        return "ignored"

    async def work(self, message: Ping, reply: Reply[str]) -> None:
        await self.gate.wait()
        if message.text == "fail":
            assert reply.fail(KeyError("no such ticket"))
        else:
            assert reply.send(message.text.upper())
        assert not reply.send("twice")
        assert not reply.fail(ValueError("twice"))


async def test_an_answer_may_come_later_from_a_task() -> None:
    answers: list[str] = []

    async def ask(ref: Ref[Ping], text: str) -> None:
        answers.append(await ref.ask(Ping(text)))

    async with open_system() as system, trio.open_nursery() as nursery:
        actor = Desk()
        ref = await system.spawn(actor)
        nursery.start_soon(ask, ref, "a")
        nursery.start_soon(ask, ref, "b")
        await wait_all_tasks_blocked()
        assert answers == []
        assert (ref.statistics().unanswered, ref.statistics().handled) == (2, 2)
        actor.gate.set()
        await wait_all_tasks_blocked()
        assert sorted(answers) == ["A", "B"]
        assert ref.statistics().unanswered == 0


async def test_a_reply_can_fail_the_ask_without_failing_the_actor() -> None:
    async with open_system() as system:
        actor = Desk()
        actor.gate.set()
        ref = await system.spawn(actor)
        with pytest.raises(ActorFailed) as caught:
            await ref.ask(Ping("fail"))
        assert isinstance(caught.value.cause, KeyError)
        assert caught.value.__cause__ is caught.value.cause
        assert await ref.ask(Ping("ok")) == "OK"
        assert ref.statistics().failures == 0


async def test_a_reply_to_a_told_message_goes_nowhere() -> None:
    async with open_system() as system:
        actor = Desk()
        ref = await system.spawn(actor)
        await ref.tell(Ping("told"))
        await wait_all_tasks_blocked()
        assert not actor.open[0].send("nobody hears")
        assert not actor.open[0].fail(ValueError())


async def test_a_reply_still_open_when_the_actor_stops_is_answered_with_actor_stopped() -> None:
    async with open_system() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Desk())

        async def ask() -> None:
            with pytest.raises(ActorStopped):
                await ref.ask(Ping("never"))

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await ref.stop()


async def test_reply_later_belongs_to_the_handlers_own_task() -> None:
    class Wrong(Actor[Ping]):
        async def receive(self, message: Ping) -> str:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.take)
            return "kept"

        async def take(self) -> None:
            with pytest.raises(RuntimeError, match="reply_later"):
                self.context.reply_later()

    async with open_system() as system:
        ref = await system.spawn(Wrong())
        assert await ref.ask(Ping("")) == "kept"
