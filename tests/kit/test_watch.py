"""Watching: news of an actor's end as a message."""

from __future__ import annotations

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.kit import STOP, Actor, Ref, Request, Supervision, Terminated, open_system
from trouper.kit._ref import cell_of


class Fragile(Actor[str]):
    async def receive(self, message: str) -> None:
        if message == "raise":
            raise ValueError
        if message == "stop":
            self.context.stop()


@attrs.frozen
class Watch(Request[None]):
    ref: Ref[str]


@attrs.frozen
class Unwatch(Request[None]):
    ref: Ref[str]


class Watcher(Actor[Watch | Unwatch | Terminated | str]):
    def __init__(self, news: list[Terminated], gate: trio.Event | None = None) -> None:
        self.news = news
        self.gate = gate

    async def receive(self, message: Watch | Unwatch | Terminated | str) -> None:
        match message:
            case Watch(ref):
                self.context.watch(ref)
            case Unwatch(ref):
                self.context.unwatch(ref)
            case Terminated():
                self.news.append(message)
            case "raise":
                raise ValueError
            case str():
                assert self.gate is not None
                await self.gate.wait()


@pytest.mark.parametrize(
    ("message", "reason", "cause"), [("stop", "stopped", type(None)), ("raise", "failed", ValueError)]
)
async def test_the_watcher_learns_how_it_ended(message: str, reason: str, cause: type) -> None:
    news: list[Terminated] = []
    async with open_system() as system:
        watcher = await system.spawn(Watcher(news))
        ref = await system.spawn(Fragile(), name="f", supervision=STOP)
        await watcher.ask(Watch(ref))
        await watcher.ask(Watch(ref))
        await ref.tell(message)
        await wait_all_tasks_blocked()
        assert [(item.name, item.reason, type(item.cause)) for item in news] == [("system/f", reason, cause)]


async def test_a_cancelled_actor_is_reported_as_cancelled() -> None:
    news: list[Terminated] = []
    async with open_system() as system:
        watcher = await system.spawn(Watcher(news))
        ref = await system.spawn(Fragile(), name="f")
        await watcher.ask(Watch(ref))
        ref.cancel()
        await wait_all_tasks_blocked()
        assert news == [Terminated("system/f", "cancelled")]


async def test_watching_an_ended_actor_reports_at_once() -> None:
    news: list[Terminated] = []
    async with open_system() as system:
        watcher = await system.spawn(Watcher(news))
        ref = await system.spawn(Fragile(), name="f")
        await ref.stop()
        await watcher.ask(Watch(ref))
        await wait_all_tasks_blocked()
        assert news == [Terminated("system/f", "stopped")]


async def test_a_restart_is_no_end_and_ends_no_watch() -> None:
    news: list[Terminated] = []
    at_once = Supervision(first_delay=0)
    async with open_system() as system:
        watcher = await system.spawn(lambda: Watcher(news), supervision=at_once)
        ref = await system.spawn(Fragile, name="f", supervision=at_once)
        await watcher.ask(Watch(ref))
        await ref.tell("raise")
        await watcher.tell("raise")
        await wait_all_tasks_blocked()
        assert (news, ref.statistics().restarts, watcher.statistics().restarts) == ([], 1, 1)
        await ref.stop()
        await wait_all_tasks_blocked()
        assert news == [Terminated("system/f", "stopped")]


async def test_unwatch_ends_the_watch() -> None:
    news: list[Terminated] = []
    async with open_system() as system:
        watcher = await system.spawn(Watcher(news))
        ref = await system.spawn(Fragile())
        await watcher.ask(Watch(ref))
        await watcher.ask(Unwatch(ref))
        await watcher.ask(Unwatch(ref))
        await ref.stop()
        await wait_all_tasks_blocked()
        assert news == []


async def test_news_goes_beyond_the_bound_of_a_full_mailbox() -> None:
    news: list[Terminated] = []
    gate = trio.Event()
    async with open_system() as system:
        watcher = await system.spawn(Watcher(news, gate), mailbox=1)
        refs = [await system.spawn(Fragile()) for _ in range(3)]
        for ref in refs:
            await watcher.ask(Watch(ref))
        await watcher.tell("block")
        await wait_all_tasks_blocked()
        await watcher.tell("fill")
        for ref in refs:
            await ref.stop()
        assert (watcher.statistics().mailbox, watcher.statistics().capacity) == (4, 1)
        gate.set()
        await wait_all_tasks_blocked()
        assert [item.name for item in news] == [ref.name for ref in refs]


async def test_senders_keep_waiting_while_news_holds_the_mailbox_above_its_bound() -> None:
    steps = trio.Semaphore(0)

    class Stepper(Actor[Ref[str] | Terminated | str]):
        async def receive(self, message: Ref[str] | Terminated | str) -> None:
            if isinstance(message, Ref):
                self.context.watch(message)
            else:
                await steps.acquire()

    async with open_system() as system, trio.open_nursery() as nursery:
        stepper = await system.spawn(Stepper(), mailbox=1)
        refs = [await system.spawn(Fragile()) for _ in range(3)]
        for ref in refs:
            await stepper.tell(ref)
        await wait_all_tasks_blocked()
        for ref in refs:
            await ref.stop()
        nursery.start_soon(stepper.tell, "a")
        nursery.start_soon(stepper.tell, "b")
        seen: list[tuple[int, int]] = []
        for _ in range(6):
            await wait_all_tasks_blocked()
            seen.append((stepper.statistics().mailbox, stepper.statistics().waiting_senders))
            steps.release()
        # One is in hand. Room for a sender is made only when the news is below the bound.
        assert seen == [(2, 2), (1, 2), (1, 1), (1, 0), (0, 0), (0, 0)]


async def test_a_watcher_that_has_ended_gets_no_news_and_is_let_go() -> None:
    news: list[Terminated] = []
    async with open_system() as system:
        watcher = await system.spawn(Watcher(news))
        ref = await system.spawn(Fragile())
        await watcher.ask(Watch(ref))
        await watcher.stop()
        assert not cell_of(ref).watchers
        await ref.stop()
        assert (news, watcher.statistics().mailbox) == ([], 0)


@given(st.random_module(), st.integers(1, 5))
@settings(deadline=None, max_examples=30)
async def test_actors_that_watch_each_other_may_end_at_the_same_time(seed: object, count: int) -> None:
    news: list[Terminated] = []
    async with open_system() as system:
        watchers = [await system.spawn(Watcher(news)) for _ in range(count)]
        for watcher in watchers:
            for other in watchers:
                await watcher.ask(Watch(other))
        async with trio.open_nursery() as nursery:
            for watcher in watchers:
                nursery.start_soon(watcher.stop)
    assert system.statistics().actors == 0
