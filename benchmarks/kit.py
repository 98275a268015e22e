"""Messages a second through the actor kit and through a bare trio memory channel with a buffer of 100, side by side.

Each measurement alternates ours and the floor in one Trio run. The floor
has no actor: a task that takes from the channel with ``async for``, and for a round trip a second channel back.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import attrs
import trio

from benchmarks.measure import Figures, Group, Key, Measured, Pair, Scale, alternate_async
from trouper.kit import Actor, ActorSystem, MailboxFull, Ref, Request, open_system

BUFFER = 100
MESSAGES = 10_000


@attrs.frozen
class Echo(Request[int]):
    number: int


class Sink(Actor[int]):
    def __init__(self) -> None:
        self.seen = 0
        self.last = trio.Event()

    async def receive(self, message: int) -> None:
        self.seen += 1
        if message == MESSAGES - 1:
            self.last.set()


class Server(Actor[Echo]):
    async def receive(self, message: Echo) -> int:
        return message.number


async def _sink(take: trio.MemoryReceiveChannel[int], last: trio.Event) -> None:
    seen = 0
    async for message in take:
        seen += 1
        if message == MESSAGES - 1:
            last.set()


async def _server(take: trio.MemoryReceiveChannel[Echo], give: trio.MemorySendChannel[int]) -> None:
    async for message in take:
        await give.send(message.number)


async def _clocked(work: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await work()
    return MESSAGES / (time.perf_counter() - begun)


async def _actor_tell(system: ActorSystem) -> float:
    actor = Sink()
    ref = await system.spawn(actor, mailbox=BUFFER)

    async def work() -> None:
        for number in range(MESSAGES):
            await ref.tell(number)
        await actor.last.wait()

    rate = await _clocked(work)
    await ref.stop()
    return rate


async def _channel_tell(nursery: trio.Nursery) -> float:
    give, take = trio.open_memory_channel[int](BUFFER)
    last = trio.Event()
    nursery.start_soon(_sink, take, last)

    async def work() -> None:
        for number in range(MESSAGES):
            await give.send(number)
        await last.wait()

    with give:
        return await _clocked(work)


async def _actor_nowait(system: ActorSystem) -> float:
    actor = Sink()
    ref = await system.spawn(actor, mailbox=BUFFER)

    async def work() -> None:
        for number in range(MESSAGES):
            await _insist(ref, number)
        await actor.last.wait()

    rate = await _clocked(work)
    await ref.stop()
    return rate


async def _insist(ref: Ref[int], number: int) -> None:
    while True:
        try:
            ref.tell_nowait(number)
        except MailboxFull:
            await trio.lowlevel.checkpoint()
        else:
            return


async def _channel_nowait(nursery: trio.Nursery) -> float:
    give, take = trio.open_memory_channel[int](BUFFER)
    last = trio.Event()
    nursery.start_soon(_sink, take, last)

    async def insist(number: int) -> None:
        while True:
            try:
                give.send_nowait(number)
            except trio.WouldBlock:
                await trio.lowlevel.checkpoint()
            else:
                return

    async def work() -> None:
        for number in range(MESSAGES):
            await insist(number)
        await last.wait()

    with give:
        return await _clocked(work)


async def _actor_ask(system: ActorSystem) -> float:
    ref = await system.spawn(Server(), mailbox=BUFFER)

    async def work() -> None:
        for number in range(MESSAGES):
            await ref.ask(Echo(number))

    rate = await _clocked(work)
    await ref.stop()
    return rate


async def _channel_ask(nursery: trio.Nursery) -> float:
    give, take = trio.open_memory_channel[Echo](BUFFER)
    back, answers = trio.open_memory_channel[int](BUFFER)
    nursery.start_soon(_server, take, back)

    async def work() -> None:
        for number in range(MESSAGES):
            await give.send(Echo(number))
            await answers.receive()

    with give:
        return await _clocked(work)


def _side_by_side(
    ours: Callable[[ActorSystem], Awaitable[float]], floor: Callable[[trio.Nursery], Awaitable[float]], scale: Scale
) -> Figures:
    async def main() -> list[Pair]:
        async with open_system() as system, trio.open_nursery() as nursery:
            return await alternate_async(scale.of(9, 2), lambda: ours(system), lambda: floor(nursery), scale)

    return Figures(trio.run(main))


def measure_tell(scale: Scale) -> Measured:
    """One way, each send awaited."""
    return {"tell": _side_by_side(_actor_tell, _channel_tell, scale)}


def measure_tell_nowait(scale: Scale) -> Measured:
    """One way, sent without waiting, a checkpoint only when full."""
    return {"tell_nowait": _side_by_side(_actor_nowait, _channel_nowait, scale)}


def measure_ask(scale: Scale) -> Measured:
    """A request and its answer."""
    return {"ask": _side_by_side(_actor_ask, _channel_ask, scale)}


async def _life(system: ActorSystem) -> float:
    begun = time.perf_counter()
    ref = await system.spawn(Server())
    await ref.stop()
    return time.perf_counter() - begun


def measure_spawn() -> float:
    """Microseconds to spawn an actor and stop it in order."""

    async def main() -> float:
        async with open_system() as system:
            return statistics.median([await _life(system) for _ in range(2_000)]) * 1e6

    return trio.run(main)


def _key(name: str, ours: str, floor: str, target: float) -> Key:
    return Key(name, "messages/s", ours, floor, target, "at_least")


GROUPS: Sequence[Group] = (
    Group("tell", [_key("tell", "tell, awaited", "memory channel, send", 0.8)], measure_tell),
    Group("tell_nowait", [_key("tell_nowait", "tell_nowait", "memory channel, send_nowait", 3)], measure_tell_nowait),
    Group("ask", [_key("ask", "ask, with its answer", "two memory channels", 0.9)], measure_ask),
)


def main() -> None:
    scale = Scale(quick=False, folder=Path(), say=lambda _: None)
    for group in GROUPS:
        for key, figures in group.measure(scale).items():
            print(f"{key:12} {figures.ours:12,.0f}/s  channel {figures.floor:12,.0f}/s  ratio {figures.ratio:.2f}")
    print(f"spawn + stop {measure_spawn():9.1f} µs")


if __name__ == "__main__":
    main()
