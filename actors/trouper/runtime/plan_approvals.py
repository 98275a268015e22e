"""Plans who must agree to a call: policies are asked, then standing rules are looked up, before any person is asked."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from trouper.agent import Agent
from trouper.approvals import FREE, ProposedCall, Ruling
from trouper.core import events as ev
from trouper.core import steps as st
from trouper.core import wording
from trouper.core.approvals import Consent, Grounds, objection
from trouper.core.rule_events import APPROVALS, RuleUsed
from trouper.core.rules import Planned, StandingRule, fitting
from trouper.core.state import Action, RunState
from trouper.core.tooling import missing
from trouper.runtime.desk import Desk
from trouper.runtime.launches import NO_REQUIREMENTS, Plan
from trouper.runtime.protocol import Consider
from trouper.runtime.recording import SECOND
from trouper.tools import Tool
from trouper_journal import Plain, Value, Write


@frozen(repr=False, eq=False)
class Leave(Plain):
    """Whether a call may run, and on what grounds.

    Attributes:
        ruling: What was found.
        writes: Uses of standing rules, to be recorded in the same commit as the call's plan.
        requires: Versions of streams that the ruling rests on.
    """

    ruling: Ruling
    writes: tuple[Write, ...] = ()
    requires: Mapping[str, int] = NO_REQUIREMENTS

    @property
    def refusal(self) -> str | None:
        """What the model is told where the call is refused."""
        return wording.refused(self.ruling.reason) if self.ruling.gate == "refused" else None


@frozen(repr=False, eq=False)
class Gatekeeper(Plain):
    """Finds out who must agree to the calls of one run's agent."""

    desk: Desk

    async def leave(
        self, agent: Agent, state: RunState, action: str, tool: Tool, arguments: Mapping[str, Value]
    ) -> Leave:
        """Whether a call may run.

        Raises:
            JournalError: The standing rules cannot be read.
        """
        if self.desk.approver is None or (tool.gate_kind == "none" and not agent.approvals and not self.desk.policies):
            return Leave(FREE)
        if missing(tool.options.permissions, state.tools.grants):
            # The rules deny it whatever policies say: nobody is asked, and no standing rule is used up.
            return Leave(FREE)
        call = ProposedCall(
            action=f"{state.run}/{action}",
            agent=agent.name,
            tool=tool.name,
            arguments=arguments,
            effect=tool.effect.value,
            requester=state.by,
            requires_approval=False,
        )
        ruling = await self.desk.approver.ask(Consider(tool, call))
        if ruling.gate != "person":
            return Leave(ruling)
        return await self._by_rules(state, call, agent.identities[tool.name], ruling)

    async def _by_rules(self, state: RunState, call: ProposedCall, identity: bytes, ruling: Ruling) -> Leave:
        """A standing rule is the approval of whoever made it: as many of them as the quorum, and nobody is asked."""
        book = await self.desk.rulebook.read()
        narrow = any(rule.session is not None for rule in book.rules.values())
        session = await self.desk.rulebook.session_of(state) if narrow else None
        planned = Planned(call.action, session, call.agent, call.tool, identity, call.arguments)
        taken = [(rule, f"{state.run}/{each.action}") for each in state.batch for rule in each.consent.grounds.rules]
        consent = Consent(ruling.grounds, people=ruling.people)
        chosen: dict[str, StandingRule] = {}
        for rule in fitting(book, planned, now=self.desk.clock.now(), taken=taken):
            allowed = rule.by is not None and objection(consent, state.by, rule.by, "approve") is None
            if allowed and rule.by is not None and len(chosen) < consent.asking.quorum:
                chosen.setdefault(rule.by.id, rule)
        if len(chosen) < consent.asking.quorum:
            return Leave(ruling)
        rules = tuple(rule.rule for rule in chosen.values())
        free = Ruling("free", Grounds(ruling.grounds.policy, rules), reason=_by_whom(chosen))
        counted = [RuleUsed(rule.rule, call.action) for rule in chosen.values() if rule.uses is not None]
        # Whoever revokes a rule, or uses it up, at this very moment comes first or second, and never at once.
        writes = (Write(APPROVALS, counted, expected=book.version),) if counted else ()
        return Leave(free, writes, {APPROVALS: book.version})


def _by_whom(rules: Mapping[str, StandingRule]) -> str:
    said = [f"{who}{f' ({rule.reason})' if rule.reason else ''}" for who, rule in rules.items()]
    return f"standing approval of {' and '.join(said)}"


def ask_people(desk: Desk, action: Action, tool: Tool | None, step: st.AskApproval) -> Plan:
    """Ask people."""
    consent = action.consent
    lapses = consent.asking.expires
    if lapses is None and tool is not None and tool.options.approval_expires is not None:
        lapses = int(tool.options.approval_expires * SECOND)
    asked = ev.ApprovalRequested(
        action.action,
        step.request,
        action.digest,
        None if lapses is None else desk.clock.now() + lapses,
        step.quorum,
        step.separation,
        consent.eligible or (),
    )
    return Plan((asked,))


def merged(writes: list[Write]) -> list[Write]:
    """The same with one write for each stream, on the condition of the first."""
    found: dict[str, Write] = {}
    for write in writes:
        before = found.get(write.stream)
        if before is not None:
            write = evolve(write, events=[*before.events, *write.events], expected=before.expected)
        found[write.stream] = write
    return list(found.values())
