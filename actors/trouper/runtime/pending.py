"""A call that waits for people, as it is shown to whoever decides."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from trouper.core.state import Action, RunState
from trouper_journal import Plain, Value


@frozen(slots=False, repr=False, eq=False)
class PendingApproval(Plain):
    """A call that waits for a person.

    Attributes:
        action: The action's id, to approve or deny by.
        agent: Who wants to call.
        tool: What it wants to call.
        arguments: With which arguments.
        digest: What a decision binds to, in hex.
        effect: The tool's effect class.
        requested_by: Who submitted the run.
        expires_at: When the request lapses (ns UTC), or None.
        path: Names of the agents from the root of its tree to the one that calls.
        quorum: How many different principals must approve.
        approved_by: Who has approved it so far, as it stands now.
        eligible: Who may decide; empty for anybody.
        separation: Whether whoever submitted the run is barred from approving.
        policy: The approval policy that has people asked; empty where the tool alone does.
        reason: Why people are asked, where there is anything to say.
    """

    action: str
    run: str
    agent: str
    tool: str
    arguments: Mapping[str, Value]
    digest: str
    effect: str
    requested_by: str | None
    expires_at: int | None
    path: tuple[str, ...] = ()
    quorum: int = 1
    approved_by: tuple[str, ...] = ()
    eligible: tuple[str, ...] = ()
    separation: bool = False
    policy: str = ""
    reason: str | None = None


def pending_of(state: RunState, action: Action) -> PendingApproval:
    """What whoever decides must see of a call."""
    return PendingApproval(
        action=f"{state.run}/{action.action}",
        run=state.run,
        agent=state.agent,
        tool=action.tool,
        arguments=action.arguments or {},
        digest=action.digest.hex(),
        effect=action.effect.value,
        requested_by=state.by.id if state.by else None,
        expires_at=action.expires_at,
        path=state.path,
        quorum=action.consent.asking.quorum,
        approved_by=tuple(vote.by.id if vote.by else "?" for vote in action.consent.votes),
        eligible=action.consent.eligible or (),
        separation=action.consent.asking.separation,
        policy=action.consent.grounds.policy,
        reason=action.consent.reason,
    )
