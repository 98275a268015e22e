"""Standing rules: "approve this and everything like it", in the stream ``system/approvals``."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from trouper.core.terms import Principal
from trouper_journal import Content, Plain, Value, event

APPROVALS: Final = "system/approvals"
"""The stream of standing rules."""


@event("rule.added", schema=1)
@frozen(slots=False, repr=False, eq=False)
class RuleAdded(Plain):
    """Whoever approved a call approves all like it from now on.

    Attributes:
        rule: The rule's id.
        action: The call that it was made of, by its full id.
        tool: The tool.
        identity: Digest of what the tool promises; a changed tool is another tool.
        arguments: Arguments that must be these; what is not named here may be anything.
        agent: The agent that may call it, or None for any.
        root: The run, with all below it, that it is for; None for any.
        session: The session whose runs, with all below them, it is for; None for any run.
        until: When it ends (ns UTC), or None.
        uses: How many calls it lets run, or None for any number.
        by: Who made it, and whose approval it stands for.
        reason: Why.
    """

    rule: str
    action: str
    tool: str
    identity: bytes
    arguments: Content[dict[str, Value]]
    agent: str | None = None
    root: str | None = None
    session: str | None = None
    until: int | None = None
    uses: int | None = None
    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("rule.revoked", schema=1)
@frozen(slots=False, repr=False, eq=False)
class RuleRevoked(Plain):
    """A standing rule is over."""

    rule: str
    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("rule.used", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class RuleUsed(Plain):
    """A standing rule with a number of uses let a call run; in the same commit as the call's plan.

    Attributes:
        action: The call, by its full id.
    """

    rule: str
    action: str
