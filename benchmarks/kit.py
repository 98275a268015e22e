"""Messages a second through the actor kit and through a bare trio memory channel with a buffer of 100, side by side.

Each function returns the rates of ours and of the floor, medians over rounds that alternate in one Trio run. The floor
has no actor: a task that takes from the channel with ``async for``, and for a round trip a second channel back.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable

import attrs
import trio

from trouper.kit import Actor, ActorSystem, MailboxFull, Ref, Request, open_system

BUFFER = 100
MESSAGES = 10_000
ROUNDS = 9


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
    ours: Callable[[ActorSystem], Awaitable[float]], floor: Callable[[trio.Nursery], Awaitable[float]]
) -> tuple[float, float]:
    pairs: list[tuple[float, float]] = []

    async def main() -> None:
        async with open_system() as system, trio.open_nursery() as nursery:
            pairs.extend([(await ours(system), await floor(nursery)) for _ in range(ROUNDS)])

    trio.run(main)
    # The pair whose ratio is the median: both of its rates were taken under the same load.
    pairs.sort(key=lambda pair: pair[0] / pair[1])
    return pairs[len(pairs) // 2]


def measure_tell() -> tuple[float, float]:
    """One way, each send awaited: (ours, floor) in messages/s."""
    return _side_by_side(_actor_tell, _channel_tell)


def measure_tell_nowait() -> tuple[float, float]:
    """One way, sent without waiting, a checkpoint only when full: (ours, floor) in messages/s."""
    return _side_by_side(_actor_nowait, _channel_nowait)


def measure_ask() -> tuple[float, float]:
    """A request and its answer: (ours, floor) in round trips/s."""
    return _side_by_side(_actor_ask, _channel_ask)


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


def main() -> None:
    for measure in (measure_tell, measure_tell_nowait, measure_ask):
        ours, floor = measure()
        name = measure.__name__.removeprefix("measure_")
        print(f"{name:12} {ours:12,.0f}/s  channel {floor:12,.0f}/s  ratio {ours / floor:.2f}")
    print(f"spawn + stop {measure_spawn():9.1f} µs")


if __name__ == "__main__":
    main()
