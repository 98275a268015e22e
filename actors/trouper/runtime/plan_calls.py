"""Plans the steps of single calls: read and checked against their tools, gated, started, looked at anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from trouper.agent import Agent
from trouper.core import child_wording, wording
from trouper.core import events as ev
from trouper.core import steps as st
from trouper.core.digests import call_digest
from trouper.core.effects import Effect
from trouper.core.events import AskedCall
from trouper.core.evolve import evolve
from trouper.core.family import DEPTH
from trouper.core.hooking import NO_EDIT
from trouper.core.state import Action, Phase, RunState
from trouper.errors import ArgumentsError
from trouper.runtime.children import begin_child
from trouper.runtime.desk import Desk
from trouper.runtime.forking import contained_anew
from trouper.runtime.launches import NOTHING, CallTool, Plan, StopTool
from trouper.runtime.plan_approvals import Gatekeeper, ask_people
from trouper.runtime.plan_output import plan_output_call
from trouper.runtime.plan_timers import fire
from trouper.sub_agents import SubAgent
from trouper.tools import Authorize, AuthorizeRequest, Tool, ask_authorize, parse_arguments
from trouper_journal import Plain, Value


@frozen(repr=False, eq=False)
class CallPlanner(Plain):
    """Plans the calls of one run's agent.

    Attributes:
        agent: Today's definition; None where the runtime has no agent of that name.
        values: Arguments already read as Python values, by action; they need not be read twice.
    """

    desk: Desk
    agent: Agent | None
    values: dict[str, Mapping[str, object]] = field(factory=dict)

    @property
    def gatekeeper(self) -> Gatekeeper:
        """Finds out who must agree to a call."""
        return Gatekeeper(self.desk)

    async def read(self, state: RunState, step: st.Plan) -> Plan:
        """Read a call and check it against its tool."""
        asked = next((call for name, call in state.unplanned if name == step.action), AskedCall("", ""))
        tool = self.agent.toolbox.get(asked.name) if self.agent else None
        effect = tool.effect if tool else Effect.READ_ONLY
        if step.refuse is not None:
            text = {
                "limit": wording.LIMIT,
                "truncated": wording.TRUNCATED,
                "refused": wording.REFUSED_CALL,
                "cancelled": wording.cancelled(state),
                "deadline": wording.cancelled(state),
            }[step.refuse]
            gate: Literal["limit", "refused"] = "limit" if step.refuse == "limit" else "refused"
            return Plan((ev.ActionPlanned(step.action, asked.name, effect, gate, refusal=text),))
        if state.terms.hands_in(asked.name):
            return Plan((plan_output_call(step.action, asked),))
        edit = state.hooks.calls.get(step.action, NO_EDIT)
        if edit.answer is not None:
            answer: Literal["ok", "error"] = "ok" if edit.ok else "error"
            return Plan(
                (ev.ActionPlanned(step.action, asked.name, effect, "hook", refusal=edit.answer, answer=answer),)
            )
        bound = state.tools.offers(state.index - 1)
        if tool is None or self.agent is None or (bound is not None and tool.name not in bound):
            text = self._no_tool(asked.name, bound)
            return Plan((ev.ActionPlanned(step.action, asked.name, effect, "refused", refusal=text),))
        if isinstance(tool, SubAgent) and len(state.path) >= DEPTH:
            text = child_wording.TOO_DEEP
            return Plan((ev.ActionPlanned(step.action, tool.name, effect, "refused", refusal=text),))
        try:
            original = tool.read(asked.arguments) if edit.arguments is None else readable(asked.arguments)
            arguments = original if edit.arguments is None else dict(edit.arguments)
            self.values[step.action] = tool.validate(arguments)
        except ArgumentsError as error:
            return Plan((ev.ActionPlanned(step.action, tool.name, effect, "refused", refusal=str(error)),))
        leave = await self.gatekeeper.leave(self.agent, state, step.action, tool, arguments)
        identity = self.agent.identities[tool.name]
        planned = ev.ActionPlanned(
            step.action,
            tool.name,
            effect,
            leave.ruling.gate,
            identity,
            call_digest(state.salt, tool.name, identity, arguments),
            tool.options.attempts,
            arguments,
            leave.refusal,
            tool.options.permissions,
            self._authorizes(tool),
            asked=original if edit.arguments is not None else None,
            direct=tool.options.return_direct,
            grounds=leave.ruling.grounds,
            people=leave.ruling.people,
            reason=leave.ruling.reason,
        )
        return Plan((planned,), (), leave.writes, leave.requires)

    def _authorizes(self, tool: Tool) -> bool:
        return tool.options.authorize is not None or self.desk.authorize is not None

    async def authorize(self, state: RunState, action: Action) -> object:
        """Ask the runtime's callback, then the tool's: what they say of a call as it would run, as an event."""
        tool = self.agent.toolbox.get(action.tool) if self.agent else None
        request = AuthorizeRequest(
            run=state.run,
            action=f"{state.run}/{action.action}",
            agent=state.agent,
            tool=action.tool,
            effect=action.effect,
            arguments=action.arguments or {},
            permissions=action.permissions,
            grants=state.tools.grants,
            by=state.by,
            approved_by=action.decision.by if action.decision else None,
        )
        callbacks: list[tuple[Literal["runtime", "tool"], Authorize | None]] = [
            ("runtime", self.desk.authorize),
            ("tool", tool.options.authorize if tool else None),
        ]
        if all(authorize is None for _, authorize in callbacks):
            return ev.ActionDenied(action.action, "runtime", reason=wording.NOBODY_TO_AUTHORIZE)
        for policy, authorize in callbacks:
            if authorize is not None:
                denied = await ask_authorize(authorize, request, self.desk.clock)
                if denied is not None:
                    return ev.ActionDenied(action.action, policy, reason=denied.reason)
        return ev.ActionAuthorized(action.action)

    def _no_tool(self, name: str, bound: tuple[str, ...] | None = None) -> str:
        toolbox = self.agent.toolbox if self.agent else {}
        names = ", ".join(toolbox if bound is None else bound) or "none"
        if bound is not None and name in toolbox:
            return f"Not started: the tool {name!r} is not available in this step. Tools: {names}."
        return f"There is no tool called {name!r}. Tools: {names}."

    def act(
        self, state: RunState, step: st.AskApproval | st.StartAction | st.QueryAction | st.AbortAction | st.FireTimer
    ) -> Plan:
        """Plan a step of a call that was read before."""
        action = state.action(step.action)
        if action is None:
            return NOTHING
        tool = self.agent.toolbox.get(action.tool) if self.agent else None
        match step:
            case st.AskApproval():
                return ask_people(self.desk, action, tool, step)
            case st.FireTimer():
                return fire(action, self.desk.clock.now())
            case st.AbortAction():
                return Plan((), (StopTool(action.action, action.tool),))
            case st.StartAction():
                return self._start_action(state, action, tool, step.attempt)
            case _:
                return self._query(action, tool)

    def _start_action(self, state: RunState, action: Action, tool: Tool | None, attempt: int) -> Plan:
        """An attempt, if the call still fits its tool; one that does not fit is over, unless that leaves a doubt."""
        try:
            values = self._values_of(action, tool)
        except ArgumentsError as error:
            name, last = action.action, action.attempt
            if last == 0:
                return Plan((ev.ActionReceipted(name, 0, "error", "not_started", f"Not started: {error}"),))
            if action.phase is Phase.INTERRUPTED and not action.doubted:
                text = f"{wording.interrupted(action)} {error}"
                return Plan((ev.ActionReceipted(name, last, "error", "tool_error", text),))
            return Plan((ev.ActionUnresolved(name, last, f"{wording.doubt(action)} {error}"),))
        assert tool is not None  # _values_of refuses a call without a tool
        if isinstance(tool, SubAgent):
            return begin_child(state, action, tool, attempt)
        return Plan((ev.ActionStarted(action.action, attempt),), (CallTool(action.action, attempt, tool, values),))

    def _query(self, action: Action, tool: Tool | None) -> Plan:
        try:
            values = self._values_of(action, tool)
        except ArgumentsError as error:
            return Plan((ev.ActionQueried(action.action, action.attempt, "unknown", str(error)),))
        assert tool is not None
        if tool.options.query is None:
            return Plan((ev.ActionQueried(action.action, action.attempt, "unknown", "the tool has no query now"),))
        return Plan((), (CallTool(action.action, action.attempt, tool, values, query=True),))

    def _values_of(self, action: Action, tool: Tool | None) -> Mapping[str, object]:
        if tool is None:
            raise ArgumentsError(self._no_tool(action.tool))
        if action.arguments is None:
            raise ArgumentsError("its arguments were erased")
        # Read before and never used: each attempt gets arguments that no earlier one has had its hands on.
        values = self.values.pop(action.action, None)
        return tool.validate(action.arguments) if values is None or action.original is not None else values

    async def revalidate(self, state: RunState) -> Plan:
        """After a change of definition: look anew at calls that have not started."""
        whole = NOTHING
        for action in state.batch:
            waiting = action.phase in {Phase.PLANNED, Phase.AWAITING, Phase.APPROVED}
            # An edit lapses with the tool that it was made for: what is asked anew is the model's own call.
            arguments = action.arguments if action.original is None else action.original
            if waiting and action.gate in {"free", "person"} and arguments is not None:
                plan = await self._look_anew(state, action, arguments)
                for event in plan.events:
                    state = evolve(state, event)
                whole = whole.then(plan)
        return whole

    async def _look_anew(self, state: RunState, action: Action, arguments: Mapping[str, Value]) -> Plan:
        assert self.agent is not None
        tool = self.agent.toolbox.get(action.tool)
        identity = self.agent.identities.get(action.tool)
        if identity == action.identity:
            return NOTHING
        try:
            if tool is None or identity is None:
                raise ArgumentsError(self._no_tool(action.tool))
            self.values[action.action] = tool.validate(arguments)
        except ArgumentsError as error:
            text = f"Not started: the tool changed meanwhile. {error}"
            return Plan((ev.ActionReceipted(action.action, 0, "error", "not_started", text),))
        lapse = (
            (ev.ApprovalExpired(action.action, action.request, "changed"),) if action.phase is Phase.AWAITING else ()
        )
        leave = await self.gatekeeper.leave(self.agent, state, action.action, tool, arguments)
        replanned = ev.ActionReplanned(
            action.action,
            tool.effect,
            leave.ruling.gate,
            identity,
            call_digest(state.salt, tool.name, identity, arguments),
            tool.options.attempts,
            tool.options.permissions,
            self._authorizes(tool),
            tool.options.return_direct,
            leave.refusal,
            leave.ruling.grounds,
            leave.ruling.people,
            leave.ruling.reason,
        )
        kept = contained_anew(state, replanned, delegated=isinstance(tool, SubAgent))
        # What must be asked after all uses up no standing rule.
        return (
            Plan((*lapse, replanned), (), leave.writes, leave.requires) if kept == replanned else Plan((*lapse, kept))
        )


def readable(raw: str) -> dict[str, Value]:
    """A model's arguments as far as they can be read."""
    try:
        return parse_arguments(raw)
    except ArgumentsError:
        return {}
