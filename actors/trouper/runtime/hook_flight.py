"""The hooks that a run's agent has out: at most those of one point at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from trouper.agent import Agent
from trouper.core.state import RunState
from trouper.core.steps import RunHook
from trouper.runtime.desk import Desk
from trouper.runtime.hook_calls import HookCalls
from trouper.runtime.planning import whole_history
from trouper.runtime.protocol import Deliver


class StartTask(Protocol):
    """Starts a task that ends with the agent."""

    def __call__(
        self,
        fn: Callable[[RunHook, Agent, RunState], Awaitable[object]],
        step: RunHook,
        agent: Agent,
        state: RunState,
        /,
    ) -> trio.CancelScope:
        """Start it; the scope that it runs in."""
        ...


class HookFlight:
    """Calls hooks beside the agent's turns, so that nothing waits for them that need not."""

    def __init__(self, desk: Desk, deliver: Deliver, start: StartTask) -> None:
        self._desk = desk
        self._deliver = deliver
        self._start = start
        self._scope: trio.CancelScope | None = None

    @property
    def out(self) -> bool:
        """Whether hooks are being called."""
        return self._scope is not None

    def begin(self, step: RunHook, agent: Agent, state: RunState) -> None:
        """Call the hooks of a point; what comes of it is delivered."""
        self._scope = self._start(self._make, step, agent, state)

    async def _make(self, step: RunHook, agent: Agent, state: RunState) -> None:
        messages = await whole_history(self._desk, state)
        self._deliver(await HookCalls(step.point, step.subject, agent, state, self._desk.clock, messages).make())

    def settle(self) -> None:
        """What came of it was taken in."""
        self._scope = None

    def stop(self) -> None:
        """Stop, because nobody wants to know any more: they have no effects, and are called again when needed."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None
