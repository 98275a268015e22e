"""The approver actor: says whether a call may run or a person must be asked."""

from __future__ import annotations

from trouper.kit import Actor
from trouper.runtime.protocol import ApproverMessage, Verdict


class PeopleApprover(Actor[ApproverMessage]):
    """Asks a person wherever a tool says so."""

    async def receive(self, message: ApproverMessage) -> Verdict:
        """Judge one call."""
        gate = message.tool.gate(message.arguments)
        return Verdict("person" if gate.required else "free")
