"""A process beside the test's: appends, drives, or hangs, as told on the command line.

It tells what it has done line by line on standard output, and waits for a line on standard input before it begins.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from functools import partial

import trio
import trio.testing
from tests.journal.notes import REGISTRY, Note, Step

from trouper_journal import Batch, Journal, JournalBroken, JournalError, JournalOptions, Store
from trouper_journal._sqlite import SQLiteStore
from trouper_journal.testing import FaultyStore


def say(*words: object) -> None:
    print(*words, flush=True)


async def told_to_begin() -> None:
    say("ready")
    await trio.to_thread.run_sync(sys.stdin.readline)


async def append(path: str, stream: str, count: int) -> None:
    """Append that many events, each with its own commit, on the version read before."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        await told_to_begin()
        for number in range(count):
            head = await journal.head(stream)
            await journal.append(stream, [Note(number)], expected=head.version if head else 0)
    say("done")


async def flood(path: str) -> None:
    """Append for ever from ten tasks, and say what is acknowledged."""

    async def pour(journal: Journal, stream: str) -> None:
        version = 0
        while True:
            await journal.append(stream, [Note(version), Note(version)], expected=version)
            version += 2
            say(stream, version)

    async with Journal.open(path, registry=REGISTRY) as journal:
        await told_to_begin()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(pour, journal, f"s{number}")


async def drive(path: str, node: str) -> None:
    """Drive until told otherwise."""
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive(node) as fence:
        await journal.append("driven", [Step(1)], fence=fence)
        await told_to_begin()


async def fork(path: str) -> None:
    """Drive, and leave a forked child that lives until standard input ends."""
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("parent"):
        if os.fork() == 0:
            say("forked")
            sys.stdin.read()
            os._exit(0)
        await trio.sleep_forever()


async def overflow(path: str) -> None:
    """Append until the system refuses to let a file grow, then once more."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        number = 0
        try:
            while True:
                await journal.append("a", [Note(number, "x" * 10_000)])
                number += 1
        except JournalError as error:
            say(number)
            say(type(error).__name__)
        try:
            await journal.append("b", [Note(number)])
        except JournalError as error:
            say(type(error).__name__)


async def hang(path: str) -> None:
    """Leave a journal whose database call never returns."""

    async def block(store: SQLiteStore, _: Batch) -> None:
        await store._call(store._writer, lambda _: threading.Event().wait())

    def wrap(store: Store) -> Store:
        assert isinstance(store, SQLiteStore)
        return FaultyStore(store, before_write=partial(block, store))

    async def attempt(journal: Journal) -> None:
        try:
            await journal.append("a", [Note(1)])
        except JournalBroken:
            say("unknown")

    options = JournalOptions(close_timeout=0.05)
    async with trio.open_nursery() as nursery, Journal.open(path, registry=REGISTRY, options=options, wrap=wrap) as it:
        nursery.start_soon(attempt, it)
        await trio.testing.wait_all_tasks_blocked()
    say("left")


def main() -> None:
    action, path, *rest = sys.argv[1:]
    if action == "append":
        trio.run(append, path, rest[0], int(rest[1]))
    elif action == "flood":
        trio.run(flood, path)
    elif action == "drive":
        trio.run(drive, path, rest[0])
    elif action == "fork":
        trio.run(fork, path)
    elif action == "overflow":
        trio.run(overflow, path)
    else:
        trio.run(hang, path)


if __name__ == "__main__":
    main()
