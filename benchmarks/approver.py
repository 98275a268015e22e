"""The other process of the `wake` benchmark: approves the actions that it reads, one a line, and tells when."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import cast

import trio

from trouper import REGISTRY, Commands, Judgement, Principal
from trouper_journal import Committed, Journal, Key, Record, Value, Write


class TimedJournal:
    """A journal that notes when its last commit began and when it ended."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.registry = journal.registry
        self.begun = self.ended = 0.0

    async def read_page(self, stream: str, after: int = 0, limit: int = 256) -> Sequence[Record]:
        return await self._journal.read_page(stream, after, limit)

    async def commit(
        self,
        writes: Sequence[Write],
        *,
        require: Mapping[str, int] | None = None,
        key: Key | None = None,
        fence: int | None = None,
        meta: Mapping[str, Value] | None = None,
    ) -> Committed:
        self.begun = perf_counter()
        done = await self._journal.commit(writes, require=require, key=key, fence=fence, meta=meta)
        self.ended = perf_counter()
        return done


async def main(path: str) -> None:
    """Serve until the input ends."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        timed = TimedJournal(journal)
        commands = Commands(cast("Journal", timed))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            await commands.decide(line.strip(), Judgement("approve", Principal("maria")))
            sys.stdout.write(f"{timed.begun} {timed.ended}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
