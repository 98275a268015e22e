"""The actor kit by itself, without agents: a print shop with a slow printer that jams.

Run it with ``python examples/actors.py``. Customers ask the desk, the desk hands each job to a printer, a jammed
printer is restarted by its supervision until it has jammed too often, and at the end everything stops in order.
"""

from __future__ import annotations

import logging
import sys

import attrs
import trio

from trouper.kit import (
    STOP,
    Actor,
    ActorFailed,
    ActorStopped,
    Ref,
    Reply,
    Request,
    Supervision,
    Terminated,
    open_system,
)


@attrs.frozen
class Print(Request[str]):
    """Print a document; the answer says which sheet it is on."""

    document: str


class Jammed(Exception):
    """The printer needs a person, or a restart."""


class Printer(Actor[Print]):
    """Prints one document at a time; has to be restarted when it jams."""

    def __init__(self) -> None:
        self.sheets = 0

    async def started(self) -> None:
        """Say so, at each restart too."""
        print(f"    {self.context.name} warms up")

    async def receive(self, message: Print) -> str:
        """Print one document."""
        await trio.sleep(0.02)
        if "stapled" in message.document:
            raise Jammed(message.document)
        self.sheets += 1
        return f"{message.document!r} on sheet {self.sheets}"


class Desk(Actor[Print | Terminated]):
    """Takes jobs without making customers wait for each other; whether to repeat one that failed is theirs to say."""

    async def started(self) -> None:
        """Set the printer up."""
        policy = Supervision(max_restarts=2, first_delay=0.05, when_exhausted="stop")
        # A mailbox of two: when the printer falls behind, the desk's tasks wait and not the memory fills.
        self.printer: Ref[Print] = await self.context.spawn(Printer, name="printer", mailbox=2, supervision=policy)
        self.context.watch(self.printer)

    async def receive(self, message: Print | Terminated) -> None:
        """Hand a job on from a task of its own, or note that the printer is gone."""
        match message:
            case Print():
                self.context.start_task(self.forward, message, self.context.reply_later(message))
            case Terminated(name, reason):
                print(f"    {name} is out of order ({reason})")

    async def forward(self, job: Print, reply: Reply[str]) -> None:
        """Wait for the printer in the customer's stead."""
        try:
            reply.send(await self.printer.ask(job))
        except ActorFailed as error:
            reply.fail(error.cause)
        except ActorStopped as error:
            reply.fail(error)

    async def stopped(self) -> None:
        """Say so."""
        print(f"    {self.context.name} closes")


async def customer(name: str, desk: Ref[Print | Terminated], documents: list[str]) -> None:
    """Ask for documents, one after the other."""
    for document in documents:
        try:
            print(f"{name} gets {await desk.ask(Print(document))}")
        except ActorFailed as error:
            print(f"{name} gets no {document!r}: {error.cause!r}")


async def main() -> None:
    """Open the shop, serve three customers, close it."""
    async with open_system(name="shop") as system:
        desk = await system.spawn(Desk(), name="desk", supervision=STOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(customer, "Ada", desk, ["a poem", "a map"])
            nursery.start_soon(customer, "Ben", desk, ["a stapled page", "a letter"])
            nursery.start_soon(customer, "Cleo", desk, ["a poster"])
        print(system.tree())
        await customer("Ben", desk, ["two stapled pages", "three stapled pages", "a last letter"])
        print(system.tree())
        print(system.statistics())


if __name__ == "__main__":
    logging.basicConfig(format="    log: %(message)s")
    try:
        trio.run(main)
    except* KeyboardInterrupt:
        sys.exit(130)
