"""The nursery that an actor owns, opened when it is first used.

Most actors own no tasks, and a nursery costs more than all the rest of an actor. It cannot be opened around the
handler that first wants it (that would have to be done from inside), so a small host task, in the same nursery as the
actor's own task, opens it. The actor never ends before its host has, so the tree of tasks has no orphans.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVarTuple

import trio

Ts = TypeVarTuple("Ts")


class StartSoon(Protocol):
    """Starts a task in some nursery."""

    def __call__(self, fn: Callable[[], Awaitable[None]], /, *, name: str) -> None:
        """Start ``fn``."""
        ...


class OwnedNursery:
    """A nursery beside its owner's task."""

    __slots__ = ("_closed", "_done", "_early", "_name", "_nursery")

    def __init__(self, start_host: StartSoon, name: str) -> None:
        self._name = name
        self._nursery: trio.Nursery | None = None
        self._early: list[Callable[[trio.Nursery], None]] = []
        self._closed = trio.Event()
        self._done = trio.Event()
        start_host(self._host, name=f"{name} (nursery)")

    def start_soon(self, fn: Callable[[*Ts], Awaitable[None]], /, *args: *Ts, name: str) -> None:
        """Start a task. It runs at least to its first checkpoint, even when everything is being cancelled."""
        if self._nursery is None:
            self._early.append(lambda nursery: nursery.start_soon(fn, *args, name=name))
        else:
            self._nursery.start_soon(fn, *args, name=name)

    async def close(self) -> None:
        """Cancel what still runs and wait for it.

        This is the join of a nursery and like it cannot be cancelled: everything inside was.
        """
        self._closed.set()
        with trio.CancelScope(shield=True):
            await self._done.wait()

    @trio.lowlevel.enable_ki_protection
    async def _host(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for start in self._early:
                    start(nursery)
                self._early.clear()
                await self._closed.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._done.set()
