"""From what must happen to what is recorded of it: steps in, events and launches out.

Whatever a step needs from outside the state (tools, approvers, the time) is asked here, once, and enters the journal
as an event before anything is launched on it.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from attrs import frozen

from trouper.agent import Agent
from trouper.core import events as ev
from trouper.core import steps as st
from trouper.core.conversation import Message
from trouper.core.decide import RULES
from trouper.core.digests import request_digest
from trouper.core.evolve import evolve
from trouper.core.evolve_session import lead_of
from trouper.core.hooking import shown
from trouper.core.state import RunState
from trouper.core.steps import Step
from trouper.runtime.children import pass_on, take_in
from trouper.runtime.desk import Desk
from trouper.runtime.forking import contained
from trouper.runtime.launches import NOTHING, AskHost, Plan, SendRequest, StopModel
from trouper.runtime.plan_budget import SpendPlanner
from trouper.runtime.plan_calls import CallPlanner
from trouper.runtime.plan_output import briefing, check_output, wrap_up
from trouper.runtime.plan_session import TurnPlanner
from trouper.sub_agents import SubAgent
from trouper.tools import defaults_of, misfits
from trouper_journal import Plain, Write


@frozen(repr=False, eq=False)
class Planner(Plain):
    """Plans the steps of one run's agent.

    Attributes:
        agent: Today's definition; None where the runtime has no agent of that name.
        calls: Plans the steps of single calls.
        turns: Plans what comes before a session's turn.
        spending: Plans what is spent.
    """

    desk: Desk
    agent: Agent | None
    calls: CallPlanner
    turns: TurnPlanner
    spending: SpendPlanner

    @classmethod
    def of(cls, desk: Desk, agent: Agent | None) -> Planner:
        """The planner for an agent."""
        return cls(desk, agent, CallPlanner(desk, agent), TurnPlanner(desk, agent), SpendPlanner(desk, agent))

    async def plan(self, state: RunState, step: Step) -> Plan:
        """Events and launches of one step."""
        match step:
            case st.Start():
                return await self._start(state)
            case st.RequestModel():
                return await self._request(state, step)
            case st.Plan():
                return await self._contained(state, await self.calls.read(state, step))
            case st.StartAction() | st.AskApproval() | st.QueryAction() | st.AbortAction() | st.FireTimer():
                return await self._act(state, step)
            case st.RunHook() | st.BindTools() | st.Authorize():
                return Plan((), (AskHost(step),))
            case st.Summarise(attempt):
                return await self.turns.summarise(state, attempt)
            case st.Compact():
                return self.turns.compact(state)
            case st.AbandonSummary(attempt):
                return Plan((ev.SummaryFailed(attempt, "cancelled"),), (StopModel(),))
            case st.AbandonModel(index, attempt):
                reason: Literal["cancelled", "deadline"] = "deadline" if state.cancel is None else "cancelled"
                return Plan((ev.ModelLost(index, attempt, reason),), (StopModel(),))
            case st.CancelChild() | st.PauseChild():
                return pass_on(state, step, self.desk.clock.now())
            case st.CheckOutput(index):
                return NOTHING if self.agent is None else Plan((check_output(self.agent, state, index),))
            case st.Close(evidence="child"):
                return take_in(self.agent, state, step)
            case _:
                return Plan((self._consequence(state, step),))

    def _consequence(self, state: RunState, step: Step) -> object:
        return self.spending.own(state, step) if isinstance(step, st.Refuse | st.Warn) else _consequence(step)

    async def _act(
        self, state: RunState, step: st.AskApproval | st.StartAction | st.QueryAction | st.AbortAction | st.FireTimer
    ) -> Plan:
        if isinstance(step, st.StartAction) and self.spending.counts(state):
            instead = await self.spending.call(state, step)
            if instead:
                return Plan(instead)
        return self.calls.act(state, step)

    async def _request(self, state: RunState, step: st.RequestModel) -> Plan:
        agent, before = self.agent, list[object]()
        while True:
            event = self._requested(state, step)
            if agent is None or not self.spending.counts(state):
                break
            told = await self.spending.request(
                state, event, partial(conversation, self.desk, agent, state, step.closing)
            )
            if isinstance(told, ev.ModelRequested):
                event = told
                break
            if told is not None:
                before.append(told)
            if not isinstance(told, ev.BudgetWarned):
                return Plan(tuple(before))
            # The request shows the model what it is told by that.
            state = evolve(state, told)
        return Plan((*before, event), (SendRequest(event.index, event.attempt, event.closing, event.model),))

    def _requested(self, state: RunState, step: st.RequestModel) -> ev.ModelRequested:
        digest = request_digest(state.chain, state.definition, step.closing, state.tools.offers(step.index))
        chosen = state.hooks.chosen(step.index)
        model = chosen if self.agent is not None and chosen in self.agent.cast else ""
        return ev.ModelRequested(step.index, step.attempt, digest, step.closing, model)

    async def _start(self, state: RunState) -> Plan:
        if self.agent is None:
            return NOTHING
        definition = self.agent.definition
        limits = state.limits or self.agent.limits
        before = await self.turns.before_start(state)
        if before is not None and before.launches:
            return before
        compacted = () if before is None else before.events
        for event in compacted:
            state = evolve(state, event)
        base = None
        if state.base is not None:
            await self.desk.histories.pieces(state.base.refs, whole=True)
            base = await self.desk.histories.pin(state.base, lead_of(state), state.salt)
        time = limits.nanoseconds
        started = ev.RunStarted(
            definition.digest,
            definition.contract_digest,
            definition.prose_digest,
            RULES,
            limits,
            self.agent.terms,
            base,
            defaults_of(self.agent.state),
            None if time is None else self.desk.clock.now() + time,
        )
        wrong = misfits(self.agent.state, state.named)
        refused = (ev.StateRefused(wrong),) if wrong else ()
        return Plan((*compacted, started, *refused), (), definition_writes(self.desk, self.agent))

    async def _contained(self, state: RunState, plan: Plan) -> Plan:
        planned = plan.events[0]
        if state.forked is None or self.agent is None or not isinstance(planned, ev.ActionPlanned):
            return plan
        delegated = isinstance(self.agent.toolbox.get(planned.tool), SubAgent)
        events = await contained(self.desk.receipts, state, planned, delegated=delegated)
        # What the record answers, or what must be asked after all, uses up no standing rule.
        return plan if events == plan.events else Plan(events)

    # ---- definitions

    def today(self, state: RunState) -> tuple[str, ...]:
        """What stands between the run's pinned definition and today's, as lines; empty if nothing does."""
        if self.agent is None:
            return (f"no agent called {state.agent} is registered here",)
        if not state.started or state.definition == self.agent.definition.digest:
            return ()
        changed = []
        if state.contract != self.agent.definition.contract_digest:
            changed.append("contract")
        if state.prose != self.agent.definition.prose_digest:
            changed.append("prose")
        return tuple(changed)

    def adopts(self, changes: tuple[str, ...]) -> bool:
        """Whether the policy is to go on under today's definition without asking."""
        policy = {"contract": self.desk.drift.contract, "prose": self.desk.drift.prose}
        return self.agent is not None and all(policy.get(change) == "adopt" for change in changes)


def _consequence(step: Step) -> object:
    match step:
        case st.Deny(action, missing):
            return ev.ActionDenied(action, "permissions", missing)
        case st.Expire(action, request):
            return ev.ApprovalExpired(action, request, "time")
        case st.Close(action, attempt, outcome, evidence, text):
            return ev.ActionReceipted(action, attempt, outcome, evidence, text)
        case st.Doubt(action, attempt, text):
            return ev.ActionUnresolved(action, attempt, text)
        case st.PassDeadline(moment):
            return ev.DeadlinePassed(moment)
        case st.Hear(through):
            return ev.RunHeard(through)
        case st.Reject(index, text):
            return ev.OutputRejected(index, "incomplete", text)
        case st.Succeed(source):
            return ev.RunSucceeded(source)
        case st.Fail(kind, message):
            return ev.RunFailed(kind, message)
        case st.EndCancelled():
            return ev.RunCancelled()
        case _:
            raise TypeError(f"no plan for {step!r}")


def definition_writes(desk: Desk, agent: Agent) -> tuple[Write, ...]:
    """The definition document, unless the journal is known to have it."""
    definition = agent.definition
    if definition.digest in desk.recorded:
        return ()
    event = ev.DefinitionRecorded(definition.contract_digest, definition.prose_digest, definition.document)
    return (Write(f"definition/{definition.digest}", [event], expected=0),)


async def conversation(desk: Desk, agent: Agent, state: RunState, closing: bool) -> tuple[Message, ...]:
    """What is sent: instructions, what the run starts from, its own messages, and at its limit the word to wrap up."""
    middle = await whole_history(desk, state)
    if state.hooks.ops:
        middle = shown(middle, state.hooks.ops)
    return (*briefing(agent), *middle, *((wrap_up(agent, state.budget.refused),) if closing else ()))


async def whole_history(desk: Desk, state: RunState) -> tuple[Message, ...]:
    """What the run starts from, and its own messages, as nothing was done to them."""
    return (*await desk.histories.before(state, whole=True), *state.messages)
