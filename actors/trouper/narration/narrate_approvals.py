"""Sentences about who must agree to a call, and about standing rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trouper.core.approvals import Consent
from trouper.core.events import ActionPlanned, ActionReplanned, ApprovalRequested, RuleAdded, RuleRevoked, RuleUsed
from trouper.core.rules import StandingRule
from trouper.core.terms import Principal
from trouper.narration.line import PERHAPS_TEXT, RUNTIME, Line, deed, reason_text
from trouper.narration.text import call_text, clean, count, who
from trouper.narration.when import when
from trouper_journal import ERASED, Erased

_GATES = {
    "free": "may run",
    "hook": "is answered by a hook",
    "recorded": "is answered by the recorded receipt",
    "simulated": "is simulated",
}


def gate_text(event: ActionPlanned | ActionReplanned, limit: int | None) -> str:
    """Whether a call may run, and by whose leave."""
    gate = _GATES.get(event.gate, "needs a person's approval")
    if isinstance(event, ActionPlanned) and event.recorded is not None:
        gate += f" of {clean(event.recorded)}"
    gate += f" ({event.effect.value})"
    if event.grounds.rules:
        gate += f" by standing {' and '.join(f'rule {clean(rule)}' for rule in event.grounds.rules)}"
    if event.grounds.policy:
        gate += f", says {clean(event.grounds.policy)}"
    return gate + reason_text(event.reason, limit)


def waits_text(event: ApprovalRequested) -> str:
    """Who is waited for."""
    many = "a person" if event.quorum == 1 else f"{event.quorum} people"
    if isinstance(event.eligible, Erased):
        many += f" of {PERHAPS_TEXT}"
    elif event.eligible:
        many += f" of {', '.join(map(clean, event.eligible))}"
    apart = ", who did not ask for it themselves" if event.separation else ""
    expiry = f", until {when(event.expires_at)}" if event.expires_at else ""
    return f"waits for {many}{apart}{expiry} (digest {event.digest.hex()[:12]})"


def wanted_text(consent: Consent, requester: Principal | None) -> Iterator[str]:
    """Who must agree to a call that waits, who has, and why they are asked: lines for whoever decides."""
    asking, eligible = consent.asking, consent.eligible
    if asking.quorum > 1 or eligible or asking.separation:
        many = "One person" if asking.quorum == 1 else f"{asking.quorum} different people"
        of = f" of {', '.join(map(clean, eligible))}" if eligible else ""
        apart = f"; not {who(requester)}, who asked for the run" if asking.separation else ""
        yield f"{many}{of} must approve{apart}."
    if consent.votes:
        yield f"Approved so far by {', '.join(who(vote.by) for vote in consent.votes)}."
    if consent.editor is not None:
        yield f"{who(consent.editor)} changed the arguments; the model's own are in the record."
    if consent.grounds.policy or consent.reason:
        said = clean(consent.grounds.policy) or "Asked because"
        yield f"{said}{reason_text(consent.reason, None)}"


def scope_text(event: RuleAdded | StandingRule, limit: int | None) -> str:
    """How far a standing rule reaches."""
    # A standing rule that was folded has None where they were erased.
    parts = [call_text(event.tool, ERASED if event.arguments is None else event.arguments, limit)]
    parts.append("any agent" if event.agent is None else f"agent {clean(event.agent)}")
    if event.root is not None:
        parts.append(f"run {clean(event.root)}")
    if event.session is not None:
        parts.append(f"session {clean(event.session)}")
    if event.uses is not None:
        parts.append(count(event.uses, "use"))
    if event.until is not None:
        parts.append(f"until {when(event.until)}")
    return ", ".join(parts)


def _added(event: RuleAdded, limit: int | None) -> Line:
    text = f"adds standing rule {clean(event.rule)}: {scope_text(event, limit)}"
    return deed(event.by, f"{text}{reason_text(event.reason, limit)}")


def _revoked(event: RuleRevoked, limit: int | None) -> Line:
    return deed(event.by, f"revokes standing rule {clean(event.rule)}{reason_text(event.reason, limit)}")


def _used(event: RuleUsed, limit: int | None) -> Line:  # noqa: ARG001 -- as all sentences
    return Line(RUNTIME, f"standing rule {clean(event.rule)} lets {clean(event.action)} run", "dim")


APPROVAL_SENTENCES: Mapping[type, Callable[..., Line]] = {
    RuleAdded: _added,
    RuleRevoked: _revoked,
    RuleUsed: _used,
}
