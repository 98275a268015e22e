"""What a run's agent has asked of its host's own code: its hooks, its ``authorize`` and ``bind`` callbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

import trio

from trouper.agent import Agent
from trouper.core.state import RunState
from trouper.core.steps import Authorize, BindTools, RunHook, Step
from trouper.runtime.desk import Desk
from trouper.runtime.hook_calls import HookCalls
from trouper.runtime.plan_calls import CallPlanner
from trouper.runtime.plan_tools import choose_tools
from trouper.runtime.planning import whole_history
from trouper.runtime.protocol import Advised, Deliver, Hooked

Asked: TypeAlias = RunHook | Authorize | BindTools
"""The steps for which it is asked."""


class StartTask(Protocol):
    """Starts a task that ends with the agent."""

    def __call__(
        self,
        fn: Callable[[Asked, Agent, RunState], Awaitable[object]],
        step: Asked,
        agent: Agent,
        state: RunState,
        /,
    ) -> trio.CancelScope:
        """Start it; the scope that it runs in."""
        ...


class Askings:
    """Asks beside the agent's turns, so that nothing waits for an answer that need not."""

    def __init__(self, desk: Desk, deliver: Deliver, start: StartTask) -> None:
        self._desk = desk
        self._deliver = deliver
        self._start = start
        self._out: dict[Asked, trio.CancelScope] = {}

    @property
    def any(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._out)

    def blocks(self, step: Step, taken: Sequence[object]) -> bool:
        """Whether a step waits for an answer that is not among those taken in; hooks are called a point at a time."""
        if isinstance(step, RunHook):
            answered = any(isinstance(outcome, Hooked) for outcome in taken)
            return not answered and any(isinstance(asked, RunHook) for asked in self._out)
        return step in self._out and not any(isinstance(outcome, Advised) and outcome.step == step for outcome in taken)

    def begin(self, step: Asked, agent: Agent, state: RunState) -> None:
        """Ask; what comes of it is delivered."""
        self._out[step] = self._start(self._ask, step, agent, state)

    async def _ask(self, step: Asked, agent: Agent, state: RunState) -> None:
        match step:
            case RunHook(point, subject):
                messages = await whole_history(self._desk, state)
                self._deliver(await HookCalls(point, subject, agent, state, self._desk.clock, messages).make())
            case Authorize() | BindTools():
                event = await self._advice(step, agent, state)
                # Whoever is stopped may say anything by it: what was to be known is asked again.
                await trio.lowlevel.checkpoint_if_cancelled()
                self._deliver(Advised(step, event, state))

    async def _advice(self, step: Authorize | BindTools, agent: Agent, state: RunState) -> object:
        if isinstance(step, BindTools):
            return await choose_tools(self._desk, agent, state)
        action = state.action(step.action)
        assert action is not None
        return await CallPlanner(self._desk, agent).authorize(state, action)

    def settle(self, outcome: Hooked | Advised) -> None:
        """What came of it was taken in."""
        if isinstance(outcome, Advised):
            self._out.pop(outcome.step, None)
        else:
            self._out = {step: scope for step, scope in self._out.items() if not isinstance(step, RunHook)}

    def stop_all_but(self, wanted: Sequence[Step]) -> None:
        """Stop what nobody wants to know any more: it has no effects, and is asked again when it is needed."""
        hooked = any(isinstance(step, RunHook) for step in wanted)
        for step, scope in list(self._out.items()):
            if not (hooked if isinstance(step, RunHook) else step in wanted):
                scope.cancel()
                del self._out[step]
