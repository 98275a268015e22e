"""What one agent has under way outside: launched, waited for, and settled once durable."""

from __future__ import annotations

from collections.abc import Iterable

from trouper.agent import Agent
from trouper.core import events as ev
from trouper.core.state import Action, Phase, RunState
from trouper.errors import ActorError
from trouper.runtime.desk import Desk
from trouper.runtime.planning import CallTool, Launch, SendRequest, StopModel, StopTool, conversation
from trouper.runtime.protocol import (
    Abandon,
    Abort,
    Acted,
    Answered,
    Calling,
    Deliver,
    Execute,
    Generate,
    Holding,
    Outcome,
    Query,
    Replied,
    Settled,
)


class Flights:
    """The requests and attempts of one run that are out."""

    def __init__(self, run: str, desk: Desk, deliver: Deliver) -> None:
        self._run = run
        self._desk = desk
        self._deliver = deliver
        self._model: tuple[int, int] | None = None
        self._actions: dict[str, str] = {}
        self._lingering: set[str] = set()
        self._aborted: set[str] = set()
        self._agent = ""

    @property
    def any(self) -> bool:
        """Whether an outcome is still to come."""
        return self._model is not None or bool(self._actions) or bool(self._lingering)

    def busy(self, action: str) -> bool:
        """Whether something of this action is still alive."""
        return action in self._actions or action in self._lingering

    def alive_after(self, outcomes: Iterable[Outcome]) -> set[str]:
        """Actions of which something is still alive once these outcomes are settled."""
        alive = self._lingering | self._actions.keys()
        for outcome in outcomes:
            match outcome:
                case Acted(action, lingering=True):
                    alive.add(action)
                case Acted(action) | Answered(action):
                    alive.discard(action)
        return alive

    # ---- after a restart

    async def orphans(self, state: RunState) -> list[object]:
        """Events for what the journal shows as under way and nobody holds any more."""
        events: list[object] = []
        self._agent = state.agent
        call = state.model
        if call is not None and call.phase == "requested" and self._model is None:
            if await self._model_holds(call.index, call.attempt):
                self._model = (call.index, call.attempt)
            else:
                events.append(ev.ModelLost(call.index, call.attempt, "restart"))
        for action in state.batch:
            if action.phase not in {Phase.STARTED, Phase.INTERRUPTED} or self.busy(action.action):
                continue
            if await self._executor_holds(action):
                held = self._actions if action.phase is Phase.STARTED else None
                if held is None:
                    self._lingering.add(action.action)
                else:
                    held[action.action] = action.tool
            elif action.phase is Phase.STARTED:
                events.append(ev.ActionInterrupted(action.action, action.attempt, "lost"))
        return events

    async def _model_holds(self, index: int, attempt: int) -> bool:
        model = self._desk.models.get(self._agent)
        return model is not None and await model.ask(Calling(self._run, index, attempt, self._deliver))

    async def _executor_holds(self, action: Action) -> bool:
        executor = self._desk.executors.get((self._agent, action.tool))
        if executor is None:
            return False
        return await executor.ask(Holding(self._run, action.action, action.attempt, self._deliver))

    # ---- out and back

    async def launch(self, launch: Launch, agent: Agent | None, state: RunState) -> None:
        """Carry out what has just become durable."""
        self._agent = state.agent
        match launch:
            case SendRequest() if agent is not None:
                await self._send(launch, agent, state)
            case CallTool() if agent is not None:
                await self._call(launch, agent, state)
            case StopModel():
                self._model = None
                await self._desk.models[self._agent].tell(Abandon(self._run))
            case StopTool(action, tool) if action not in self._aborted:
                self._aborted.add(action)
                executor = self._desk.executors.get((self._agent, tool))
                if executor is not None:
                    await executor.tell(Abort(self._run, action))
            case _:
                return

    async def _send(self, launch: SendRequest, agent: Agent, state: RunState) -> None:
        self._model = (launch.index, launch.attempt)
        request = Generate(
            self._run,
            launch.index,
            launch.attempt,
            conversation(agent, state, launch.closing),
            () if launch.closing else agent.specs,
            agent.config,
            self._deliver,
        )
        try:
            await self._desk.models[agent.name].tell(request)
        except ActorError as error:
            self._deliver(Replied(launch.index, launch.attempt, None, error))

    async def _call(self, launch: CallTool, agent: Agent, state: RunState) -> None:
        self._actions[launch.action] = launch.tool.name
        kind = Query if launch.query else Execute
        message = kind(
            self._run,
            launch.action,
            launch.attempt,
            launch.tool,
            launch.arguments,
            agent.name,
            state.by.id if state.by else None,
            self._deliver,
        )
        try:
            await self._desk.executors[agent.name, launch.tool.name].tell(message)
        except ActorError as error:
            self._deliver(Acted(launch.action, launch.attempt, "exception", str(error)))

    async def settle(self, outcome: Outcome) -> None:
        """The outcome is durable: forget it, here and where it came from."""
        match outcome:
            case Replied(index, attempt):
                if self._model == (index, attempt):
                    self._model = None
            case Answered(action):
                self._actions.pop(action, None)
            case Acted(action, attempt):
                await self._settle_action(outcome, action, attempt)

    async def _settle_action(self, outcome: Acted, action: str, attempt: int) -> None:
        if outcome.late:
            self._lingering.discard(action)
        tool = self._actions.pop(action, None) if not outcome.late else None
        if outcome.lingering:
            self._lingering.add(action)
            return
        executor = self._desk.executors.get((self._agent, tool)) if tool else None
        if executor is not None:
            await executor.tell(Settled(self._run, action, attempt))
