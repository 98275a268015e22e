"""The approver actor: says whether a call may run, may not, or must be asked of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from trouper.agent import Agent
from trouper.approvals import Policy, Ruling, rule_on
from trouper.kit import Actor
from trouper.runtime.protocol import ApproverMessage


class Approver(Actor[ApproverMessage]):
    """Asks the policies, the runtime's before the agent's; where none speaks for a call, its tool decides.

    Args:
        agents: The agents by name.
        policies: The runtime's own policies.
    """

    def __init__(self, agents: Mapping[str, Agent], policies: Sequence[Policy]) -> None:
        first = [(f"runtime.approvals[{number}]", policy) for number, policy in enumerate(policies)]
        self._chains = {
            name: (*first, *((f"agent.approvals[{number}]", policy) for number, policy in enumerate(agent.approvals)))
            for name, agent in agents.items()
        }

    async def receive(self, message: ApproverMessage) -> Ruling:
        """Judge one call."""
        tool, call = message.tool, message.call
        gate = tool.gate(call.arguments)
        # That a tool always requires approval stands in its definition.
        reason = gate.reason if tool.gate_kind == "predicate" else ""
        return rule_on(self._chains[call.agent], evolve(call, requires_approval=gate.required), reason)
