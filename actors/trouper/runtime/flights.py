"""What one agent has under way outside: launched, waited for, and settled once durable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from trouper.agent import Agent
from trouper.core import events as ev
from trouper.core.exchange import ModelConfig
from trouper.core.state import Action, Phase, RunState
from trouper.errors import ActorError, MailboxFull
from trouper.kit import Ref
from trouper.runtime.askings import Askings, StartTask
from trouper.runtime.desk import Desk, further_model
from trouper.runtime.launches import AskHost, CallTool, Launch, SendRequest, SendSummary, StopModel, StopTool
from trouper.runtime.plan_output import offered, settings
from trouper.runtime.plan_session import lost_messages, summary_request
from trouper.runtime.planning import conversation
from trouper.runtime.protocol import (
    SUMMARY,
    Abandon,
    Abort,
    Acted,
    Advised,
    Answered,
    Calling,
    Deliver,
    Execute,
    ExecutorMessage,
    Generate,
    Held,
    Holding,
    Hooked,
    ModelMessage,
    Outcome,
    Query,
    Replied,
    ReplySettled,
    Settled,
)
from trouper.tools import view

M = TypeVar("M")

_M = TypeVar("_M")

# Phases in which something of an attempt may be alive, or an outcome may not be settled yet.
_HELD = frozenset({Phase.STARTED, Phase.INTERRUPTED, Phase.UNRESOLVED, Phase.REPEAT, Phase.RESOLVED})


class Flights:
    """The requests and attempts of one run that are out."""

    def __init__(self, run: str, desk: Desk, deliver: Deliver, start: StartTask) -> None:
        self._run = run
        self.askings = Askings(desk, deliver, start)
        self._desk = desk
        self._deliver = deliver
        self._model: tuple[int, int] | None = None
        self._actions: dict[str, str] = {}
        self._lingering: dict[str, str] = {}
        self._aborted: set[str] = set()
        self._agent = ""
        self._further = ""

    @property
    def any(self) -> bool:
        """Whether an outcome is still to come."""
        return self._model is not None or bool(self._actions) or bool(self._lingering) or self.askings.any

    def busy(self, action: str) -> bool:
        """Whether something of this action is still alive."""
        return action in self._actions or action in self._lingering

    def alive_after(self, outcomes: Iterable[Outcome]) -> set[str]:
        """Actions of which something is still alive once these outcomes are settled."""
        alive = {*self._lingering, *self._actions}
        for outcome in outcomes:
            match outcome:
                case Acted(action, lingering=True):
                    alive.add(action)
                case Acted(action) | Answered(action):
                    alive.discard(action)
        return alive

    # ---- after a restart

    async def orphans(self, state: RunState) -> list[object]:
        """Events for what the journal shows as under way and nobody holds any more; the rest is taken over."""
        self._agent = state.agent
        events: list[object] = []
        call = state.model
        self._further = call.model if call is not None else ""
        asking = call is not None and call.phase == "requested" and self._model is None
        if call is not None and asking and not await self._finds_call(call.index, call.attempt):
            events.append(ev.ModelLost(call.index, call.attempt, "restart"))
        compaction = state.turn.compaction if state.turn is not None else None
        asking = compaction is not None and compaction.phase == "requested" and self._model is None
        if compaction is not None and asking and not await self._finds_call(SUMMARY, compaction.attempt):
            events.append(ev.SummaryFailed(compaction.attempt, "restart"))
        for action in (*state.batch, *state.in_doubt):
            # A sub-agent is held by nobody here: it is found in its own stream.
            if action.phase in _HELD and action.child is None and not self.busy(action.action):
                events += await self._look_for(action)
        return events

    async def _look_for(self, action: Action) -> list[object]:
        held = await self._executor_holds(action)
        if held.state == "lingering":
            self._lingering[action.action] = action.tool
        if action.phase is Phase.STARTED:
            if held.state == "nothing":
                return [ev.ActionInterrupted(action.action, action.attempt, "lost")]
            self._actions[action.action] = action.tool
            self._take_over(held)
        elif isinstance(held.outcome, Acted) and held.outcome.late:
            self._lingering[action.action] = action.tool
            self._take_over(held)
        elif held.state == "over":
            # Its outcome is in the state already; only the word that it is durable was lost.
            await self._tell(action.tool, Settled(self._run, action.action, action.attempt))
        return []

    def _take_over(self, held: Held) -> None:
        if held.outcome is not None:
            self._deliver(held.outcome)

    async def _finds_call(self, index: int, attempt: int) -> bool:
        """Whether a model call is held still; then it is taken over."""
        model = self._model_for(index)
        held = Held() if model is None else await model.ask(Calling(self._run, index, attempt, self._deliver))
        if held.state == "nothing":
            return False
        self._model = (index, attempt)
        self._take_over(held)
        return True

    def _model_for(self, index: int) -> Ref[ModelMessage] | None:
        if index == SUMMARY:
            return self._desk.summarisers.get(self._agent)
        return self._desk.models.get(further_model(self._agent, self._further))

    async def _executor_holds(self, action: Action) -> Held:
        executor = self._desk.executors.get((self._agent, action.tool))
        if executor is None:
            return Held()
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
            case SendSummary():
                await self._summarise(launch, state)
            case AskHost(step) if agent is not None:
                self.askings.begin(step, agent, state)
            case StopModel():
                model = None if self._model is None else self._model_for(self._model[0])
                self._model = None
                if model is not None:
                    await _hand(model, Abandon(self._run))
            case StopTool(action, tool) if action not in self._aborted:
                self._aborted.add(action)
                await self._tell(tool, Abort(self._run, action))
            case _:
                return

    async def _send(self, launch: SendRequest, agent: Agent, state: RunState) -> None:
        self._model, self._further = (launch.index, launch.attempt), launch.model
        specs = offered(agent, closing=launch.closing, bound=state.tools.offers(launch.index))
        request = Generate(
            self._run,
            launch.index,
            launch.attempt,
            await conversation(self._desk, agent, state, launch.closing),
            specs,
            settings(agent, state, (spec.name for spec in specs), closing=launch.closing),
            self._deliver,
        )
        try:
            await _hand(self._desk.models[further_model(agent.name, launch.model)], request)
        except ActorError as error:
            self._deliver(Replied(launch.index, launch.attempt, None, error))

    async def _summarise(self, launch: SendSummary, state: RunState) -> None:
        self._model = (SUMMARY, launch.attempt)
        lost = await lost_messages(self._desk.histories, state)
        request = Generate(self._run, SUMMARY, launch.attempt, summary_request(lost), (), ModelConfig(), self._deliver)
        try:
            await _hand(self._desk.summarisers[self._agent], request)
        except ActorError as error:
            self._deliver(Replied(SUMMARY, launch.attempt, None, error))

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
            view(agent.state, state.named),
        )
        try:
            await _hand(self._desk.executors[agent.name, launch.tool.name], message)
        except ActorError as error:
            self._deliver(Acted(launch.action, launch.attempt, "not_begun", str(error)))

    async def settle(self, outcome: Outcome) -> None:
        """The outcome is durable: forget it, here and where it came from."""
        match outcome:
            case Replied(index, attempt):
                model = self._model_for(index)
                if self._model == (index, attempt) and model is not None:
                    self._model = None
                    await _hand(model, ReplySettled(self._run, index, attempt))
            case Hooked() | Advised():
                self.askings.settle(outcome)
            case Answered(action, attempt):
                await self._tell(self._actions.pop(action, None), Settled(self._run, action, attempt))
            case Acted(action, attempt, late=True):
                await self._tell(self._lingering.pop(action, None), Settled(self._run, action, attempt))
            case Acted(action, lingering=True):
                self._aborted.discard(action)
                self._lingering[action] = self._actions.pop(action, "")
            case Acted(action, attempt):
                # Another attempt may follow, where the run goes on, and must be stopped by a word of its own.
                self._aborted.discard(action)
                await self._tell(self._actions.pop(action, None), Settled(self._run, action, attempt))

    async def _tell(self, tool: str | None, message: ExecutorMessage) -> None:
        executor = self._desk.executors.get((self._agent, tool)) if tool else None
        if executor is not None:
            await _hand(executor, message)


async def _hand(ref: Ref[_M], message: _M) -> None:
    """Tell, without giving the turn away where there is room at once."""
    try:
        ref.tell_nowait(message)
    except MailboxFull:
        await ref.tell(message)
