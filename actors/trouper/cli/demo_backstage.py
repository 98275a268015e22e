"""Behind the demo: starting daemons, listening to them, killing them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Final

import trio
from attrs import define, field, frozen

from trouper._clock import SystemClock
from trouper.errors import TrouperError

PATIENCE: Final = 30.0
"""Seconds that a child may take for one step before the demo gives up."""


class DemoError(TrouperError):
    """The demo did not come as far as its claims."""


@frozen
class Kill:
    """A daemon's violent end."""

    at: int
    process: int
    code: int
    when: str


@define
class Child:
    """A daemon that runs, and what it tells."""

    process: trio.Process
    log: Path
    _buffer: bytes = b""

    async def expect(self, key: str) -> dict[str, object]:
        """What it tells under a key; what it tells before that is passed over.

        Raises:
            DemoError: It ended, or told nothing for too long.
        """
        with trio.move_on_after(PATIENCE):
            while True:
                told = json.loads(await self._line(key))
                if key in told:
                    return dict(told)
        raise DemoError(f"process {self.process.pid} has not come to {key!r} in {PATIENCE:.0f} seconds")

    async def _line(self, key: str) -> bytes:
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            received = await self.process.stdout.receive_some()
            if not received:
                said = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
                raise DemoError(f"process {self.process.pid} ended before {key!r}: {' '.join(said) or 'no word'}")
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@define
class Backstage:
    """Where the demo's processes come from, and end.

    Attributes:
        journal: The journal that they work on.
        kills: The violent ends so far.
    """

    journal: Path
    clock: SystemClock = field(factory=SystemClock)
    kills: list[Kill] = field(factory=list)

    def last_words(self) -> str:
        """The last line that a child wrote to standard error."""
        said = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return said[-1] if said else "no word"

    @property
    def log(self) -> Path:
        """Where the children's standard error goes."""
        return self.journal.with_suffix(".log")

    @asynccontextmanager
    async def spawned(self, program: list[str]) -> AsyncIterator[trio.Process]:
        """A child process that does not outlive the block."""
        with self.log.open("ab") as log:
            # In the journal's folder, so that nothing in the user's is taken for a module.
            process = await trio.lowlevel.open_process(
                program, stdin=PIPE, stdout=PIPE, stderr=log, cwd=self.journal.parent
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await trio.aclose_forcefully(stream)

    @asynccontextmanager
    async def daemon(self, pause: str) -> AsyncIterator[Child]:
        """A daemon that stops at a point, waiting to be killed; the empty name is no point."""
        program = [sys.executable, "-m", "trouper.cli.demo_daemon", str(self.journal), pause]
        async with self.spawned(program) as process:
            yield Child(process, self.log)

    async def kill(self, child: Child, when: str) -> Kill:
        """End a daemon without giving it any chance to do something about it."""
        at = self.clock.now()
        os.kill(child.process.pid, signal.SIGKILL)
        code = await child.process.wait()
        self.kills.append(Kill(at, child.process.pid, code, when))
        return self.kills[-1]
