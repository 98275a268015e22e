"""What people may do to a run, as pure rules: state and wish in; the event to append, or an error, out.

The same rules hold in the runtime and in any other process, because both fold the same stream. Asking for the same
thing twice is never an error: the rule then says `Already`, with what stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from trouper.core.approvals import Broken, Consent, objection, voter_digest
from trouper.core.conversation import ToolMessage
from trouper.core.digests import call_digest
from trouper.core.events import (
    ActionResolved,
    ApprovalDecided,
    CancelRequested,
    Principal,
    ResumeRequested,
)
from trouper.core.evolve_budget import LIMIT_FAILURES
from trouper.core.raising import check_not_handed_on, limit_of
from trouper.core.raising import raise_limit as raise_limit
from trouper.core.state import Action, Phase, RunPhase, RunState
from trouper.errors import ApprovalConflict, ApprovalError, NotEligible, ResolveError, TrouperError, UnknownAction
from trouper_journal import Plain, Value

Verdict: TypeAlias = Literal["applied", "not_applied", "run_again", "abandon"]


@frozen(slots=False, repr=False, eq=False)
class Already(Plain):
    """The wish was fulfilled before; nothing needs to be appended."""


@frozen(slots=False, repr=False, eq=False)
class Judgement(Plain):
    """A decision that somebody wants to take on a call.

    Attributes:
        decision: ``approve`` or ``deny``.
        by: Who decides.
        reason: Why; a denial's is told to the model.
        arguments: Arguments to run instead of the model's, or None.
        digest: Digest of the call as it was shown to whoever decides: its hex form, or at least the first eight
            digits of that; None not to insist on it.
    """

    decision: Literal["approve", "deny"]
    by: Principal
    reason: str | None = None
    arguments: Mapping[str, Value] | None = None
    digest: str | None = None


def split_action_id(action_id: str) -> tuple[str, str]:
    """Run and action of an action id.

    Raises:
        UnknownAction: If it is not of the form ``<run>/<model index>.<call index>``.
    """
    run, slash, action = action_id.rpartition("/") if isinstance(action_id, str) else ("", "", "")
    index, dot, call = action.partition(".")
    if not (run and slash and dot and index.isdecimal() and call.isdecimal()):
        raise UnknownAction(f"{action_id!r} is not an action id: expected <run>/<model index>.<call index>")
    return run, action


def find_action(state: RunState, action: str) -> Action:
    """The action of that name.

    Raises:
        UnknownAction: If the run has none, or one long closed that nobody ever had to decide on.
    """
    found = state.action(action)
    if found is None:
        raise UnknownAction(f"run {state.run} has no action {action} that waits, was decided on or is in doubt")
    return found


def _closed_before(state: RunState, name: str) -> bool:
    """Whether that call was answered in an earlier turn, and nothing is left to decide about it."""
    call = f"{state.run}/{name}"
    answered = (message.call_id for message in state.messages if isinstance(message, ToolMessage))
    return state.action(name) is None and call in answered


def expired(action: Action, now: int) -> bool:
    """Whether a request for approval is out of time, even if its driver has not said so yet."""
    return action.expires_at is not None and action.expires_at <= now


def too_late(state: RunState, now: int) -> bool:
    """Whether the run's time is up, even if its driver has not said so yet."""
    return state.control.deadline is not None and state.control.deadline <= now


def decide_approval(state: RunState, name: str, judgement: Judgement, *, now: int) -> ApprovalDecided | Already:
    """Approve or deny a call; the first decision stored wins.

    Where several must approve, each decision is a vote: so many different principals must approve the same call, and
    one denial denies it. Arguments of one's own make it another call, on which the votes so far do not count.

    Args:
        state: The run.
        name: The action.
        judgement: The decision.
        now: Now (ns UTC): a decision after the request's time is late.

    Raises:
        UnknownAction: No such action.
        ApprovalConflict: It was decided otherwise before.
        NotEligible: Whoever decides may not; the error names the rule.
        ApprovalError: It does not wait for a decision (never did, expired, or the run is over).
    """
    if _closed_before(state, name):
        raise ApprovalError(f"action {state.run}/{name} does not wait for a decision: it is closed")
    action = find_action(state, name)
    if action.phase is Phase.AWAITING and not state.ended and not state.stopping:
        if too_late(state, now):
            raise ApprovalError(f"action {state.run}/{name} can no longer be decided: the run's deadline has passed")
        if expired(action, now):
            raise ApprovalError(f"action {state.run}/{name} can no longer be decided: the request has expired")
        if judgement.digest is not None and not _is_of(judgement.digest.lower(), action):
            raise ApprovalError(f"action {state.run}/{name} is not the call that was shown: look at it again")
        broken = objection(action.consent, state.by, judgement.by, judgement.decision)
        if broken is not None:
            raise NotEligible(f"{state.run}/{name}", broken, _why_not(broken, action.consent, judgement.by))
        return Already() if _voted(state, action, judgement) else _decide(state, action, judgement)
    if action.decision is not None:
        if action.decision.decision == judgement.decision and _alike(state, action, judgement):
            return Already()
        by = action.decision.by.id if action.decision.by else "somebody"
        raise ApprovalConflict(f"{state.run}/{name}", action.decision.decision, by)
    if state.cancel is not None or state.phase is RunPhase.CANCELLED:
        raise ApprovalError(f"action {state.run}/{name} can no longer be decided: the run is being cancelled")
    if state.control.overdue:
        raise ApprovalError(f"action {state.run}/{name} can no longer be decided: the run's deadline has passed")
    if state.ended and action.phase is Phase.AWAITING:
        raise ApprovalError(f"action {state.run}/{name} can be decided when its run is resumed: it has failed")
    raise ApprovalError(f"action {state.run}/{name} does not wait for a decision: it is {action.phase.value}")


def _is_of(digest: str, action: Action) -> bool:
    # Shorter, it would match by chance.
    return len(digest) >= 8 and action.digest.hex().startswith(digest)


def _why_not(broken: Broken, consent: Consent, by: Principal) -> str:
    match broken:
        case "eligible":
            return f"{by.id} is not among those who may decide ({', '.join(consent.eligible or ())})"
        case "separation":
            return f"{by.id} asked for the run, and separation of duties lets somebody else approve"
        case "unknown_requester":
            return "nobody said who asked for the run (submit it with by=...), so separation of duties cannot be kept"
        case _:
            return "the decision must say whose it is"


def _voted(state: RunState, action: Action, judgement: Judgement) -> bool:
    """Whether the same principal has approved this very call, and has to wait for others."""
    own = [vote for vote in action.consent.votes if vote.by is not None and vote.by.id == judgement.by.id]
    return judgement.decision == "approve" and bool(own) and action.digest == _digest(state, action, judgement)


def _decide(state: RunState, action: Action, judgement: Judgement) -> ApprovalDecided:
    edited = None if judgement.arguments is None else dict(judgement.arguments)
    return ApprovalDecided(
        action=action.action,
        request=action.request,
        decision=judgement.decision,
        digest=_digest(state, action, judgement),
        by=judgement.by,
        reason=judgement.reason,
        arguments=edited,
        voter=voter_digest(state.salt, judgement.by) if action.consent.asking.quorum > 1 else b"",
    )


def _digest(state: RunState, action: Action, judgement: Judgement) -> bytes:
    if judgement.arguments is None:
        return action.digest
    return call_digest(state.salt, action.tool, action.identity, judgement.arguments)


def _alike(state: RunState, action: Action, wish: Judgement) -> bool:
    """Whether a decision that stands is asked for again; who repeats it, and in which words, makes no difference."""
    return any(
        vote.decision == wish.decision
        and vote.edited == (wish.arguments is not None)
        and (wish.arguments is None or vote.digest == _digest(state, action, wish))
        for vote in action.consent.votes
    )


def resolve_action(
    state: RunState, name: str, verdict: Verdict, *, by: Principal, evidence: str | None
) -> ActionResolved | Already:
    """Settle a call in doubt.

    Raises:
        UnknownAction: No such action.
        ResolveError: It is not in doubt, was settled otherwise, or would run again in a run that is over.
    """
    if _closed_before(state, name):
        raise ResolveError(f"action {state.run}/{name} is not in doubt: it is closed; nothing was changed")
    action = find_action(state, name)
    if action.phase is not Phase.UNRESOLVED:
        if action.verdict == verdict:
            return Already()
        how = f"settled as {action.verdict}" if action.verdict else action.phase.value
        raise ResolveError(f"action {state.run}/{name} is not in doubt: it is {how}; nothing was changed")
    if verdict == "run_again" and (state.ended or state.stopping):
        raise ResolveError(f"action {state.run}/{name} cannot run again: its run is over")
    if verdict == "run_again" and action in state.settled:
        raise ResolveError(f"action {state.run}/{name} cannot run again: its run has gone on without it")
    return ActionResolved(action=name, verdict=verdict, by=by, evidence=evidence)


def cancel_run(state: RunState, *, by: Principal, reason: str | None) -> CancelRequested | Already:
    """End a run; for one that is over, or being cancelled, nothing changes."""
    if state.ended or state.cancel is not None:
        return Already()
    return CancelRequested(by=by, reason=reason)


def resume_run(state: RunState, *, by: Principal, reason: str | None) -> ResumeRequested | Already:
    """Let a run go on that is paused, or that failed over its model's replies: none came, or none that would do.

    Raises:
        TrouperError: If it is over for another reason.
    """
    if not state.ended:
        return Already() if state.control.pause is None else ResumeRequested(by=by, reason=reason)
    check_not_handed_on(state)
    if state.phase is not RunPhase.FAILED:
        raise TrouperError(f"run {state.run} is over ({state.phase.value}): it cannot be resumed")
    if state.failure == "state":
        raise TrouperError(f"run {state.run} was submitted with a state that does not fit: submit it anew")
    if state.failure == "deadline":
        raise TrouperError(f"run {state.run} is past its deadline: extend that to let it go on")
    if state.failure in LIMIT_FAILURES:
        raise TrouperError(f"run {state.run} is at its {limit_of(state)}: raise the limit to let it go on")
    return ResumeRequested(by=by, reason=reason)
