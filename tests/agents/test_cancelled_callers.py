"""A caller that is cancelled at any of its awaits: what it asked for is there and driven, or it is not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import trio

from trouper import Agent, Run, Runtime, WhatIf
from trouper.testing import ScriptedModel

AWAITS = 8  # more than any of these has


@attrs.define(eq=False)
class CancelAt(trio.abc.Instrument):
    """Cancels a scope when a task has come to its n-th stop."""

    scope: trio.CancelScope
    left: int
    task: trio.lowlevel.Task | None = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


async def cancelled_at(stop: int, ask: Callable[[], Awaitable[Run]]) -> bool:
    """Ask in a task that is cancelled at its n-th stop; whether it came to that."""
    with trio.CancelScope() as scope:
        canceller = CancelAt(scope, stop)

        async def in_task() -> None:
            canceller.task = trio.lowlevel.current_task()
            await ask()

        trio.lowlevel.add_instrument(canceller)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(in_task)
        finally:
            trio.lowlevel.remove_instrument(canceller)
    return scope.cancelled_caught


@pytest.mark.parametrize("how", ["submit", "send", "supersede", "fork"])
async def test_what_a_cancelled_caller_asked_for_goes_on_or_never_was(tmp_path: Path, how: str) -> None:
    desk = Agent("desk", model=ScriptedModel(["ok"] * 9 * AWAITS))
    cut = 0
    with trio.fail_after(30):
        async with Runtime.open(tmp_path / "journal.db", agents=[desk]) as runtime:
            other = await runtime.submit("desk", "first")
            await other.wait()
            for stop in range(1, AWAITS + 1):

                async def ask(stop: int = stop) -> Run:
                    name = f"{how} {stop}"
                    if how == "submit":
                        return await runtime.submit("desk", name, command_id=name)
                    if how == "fork":
                        return await other.fork(WhatIf(say=name), command_id=name)
                    session = runtime.session("desk", f"ann-{stop}")
                    return await session.send(name, command_id=name, supersede=how == "supersede")

                cut += await cancelled_at(stop, ask)
                # Whoever asks again finds it: done, under way, or begun just now.
                run = await ask()
                assert (await run.wait()).output == "ok"
            assert cut
            states = [
                await runtime.commands.state(head.stream.removeprefix("run/")) async for head in runtime.commands.runs()
            ]
            assert len(states) == 1 + AWAITS
            assert all(state.ended for state in states)
