"""Work over processor cores: lots of names go to worker processes, answers come back in the order of the lots.

A worker is a fresh Python process that runs one module's ``main``. Processes are started as such, and not by
``multiprocessing``, which would run the program's own main module again in each of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeAlias, cast

import trio

from trouper_journal._errors import JournalError

Lots: TypeAlias = AsyncGenerator[Sequence[str], None]
Answer: TypeAlias = Sequence[object]

_AHEAD: Final = 2
"""Lots that a worker has at most: the one that it works on, and the next."""

_PER_CORE: Final = 4

_RECEIVE: Final = 65_536


def cores() -> int:
    """How many processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # pragma: no cover -- not on Linux
        return os.cpu_count() or 1


async def spread(module: str, arguments: Sequence[str], lots: Lots, number: int) -> AsyncGenerator[Answer, None]:
    """Hand lots to ``number`` worker processes, and give their answers in the order of the lots.

    Args:
        module: Its ``main`` is the worker; see `trouper_journal._verify_worker`.
        arguments: Its command line.
        lots: Lists of names; closed at the end, however that comes.
        number: How many processes, at most.

    Raises:
        JournalError: A worker could not go on, and why.
    """
    async with start_workers(module, arguments, number) as workers, aclosing(spread_over(workers, lots)) as answers:
        async for answer in answers:
            yield answer


async def spread_over(workers: Sequence[Worker], lots: Lots) -> AsyncGenerator[Answer, None]:
    """Hand lots to workers that are there; closed early, it leaves them ready for others.

    Args:
        workers: From `start_workers`.
        lots: Lists of names; closed at the end, however that comes.

    Raises:
        JournalError: A worker could not go on, and why.
    """
    waiting: deque[Worker] = deque()
    turn = 0
    async with aclosing(lots):
        try:
            async for lot in lots:
                if len(waiting) == len(workers) * _AHEAD:
                    yield await waiting.popleft().take()
                # Round and round: the worker that is given a lot is the one whose answer was taken longest ago.
                worker = workers[turn % len(workers)]
                turn += 1
                await worker.give(lot)
                waiting.append(worker)
            while waiting:
                yield await waiting.popleft().take()
        except GeneratorExit:
            while waiting:
                await waiting.popleft().take()
            raise


class Worker:
    """A worker process; it answers lots in the order in which they were given."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._received = bytearray()

    async def give(self, lot: Sequence[str]) -> None:
        """Hand a lot over.

        Raises:
            JournalError: The process is gone.
        """
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send_all(json.dumps(lot).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise await self._lost() from error

    async def take(self) -> Answer:
        """Wait for the next answer.

        Raises:
            JournalError: The process is gone, or could not go on.
        """
        assert self.process.stdout is not None
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            received = await self.process.stdout.receive_some(_RECEIVE)
            if not received:
                raise await self._lost()
            self._received += received
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: object = json.loads(line)
        if isinstance(answer, dict):
            raise JournalError(str(answer["failed"]))
        return cast("Answer", answer)

    async def _lost(self) -> JournalError:
        code = await self.process.wait()
        return JournalError(f"a worker process ended unexpectedly, with exit code {code}; try again with one job")


@asynccontextmanager
async def start_workers(module: str, arguments: Sequence[str], number: int) -> AsyncIterator[Sequence[Worker]]:
    """Start worker processes for the length of a block.

    Args:
        module: Its ``main`` is the worker.
        arguments: Its command line.
        number: How many processes, at most; more than a few for each core would only wait for each other.
    """
    # The worker finds modules where this process does, however that came to know where they are.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    workers: list[Worker] = []
    try:
        for _ in range(min(number, cores() * _PER_CORE)):
            process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            workers.append(Worker(process))
        yield workers
    finally:
        # They only read, so that it does no harm to end them at any moment.
        with trio.CancelScope(shield=True):
            for worker in workers:
                worker.process.kill()
            for worker in workers:
                await worker.process.wait()
                for pipe in (worker.process.stdin, worker.process.stdout):
                    if pipe is not None:
                        await pipe.aclose()
