"""The fold of requests for approval and of the votes on them.

Anyone may append a decision, past the rules if they will: what the rules in `trouper.core.approvals` object to is
folded without effect, here as in every other process.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from trouper.core import action_events as ev
from trouper.core.approvals import Consent, Vote, objection, voter_digest
from trouper.core.digests import call_digest
from trouper.core.evolve_actions import change_action
from trouper.core.folding import changed
from trouper.core.state import Action, Decision, Phase, RunState, known
from trouper_journal import Erased


def _requested(state: RunState, event: ev.ApprovalRequested) -> RunState:
    return change_action(
        state,
        event.action,
        lambda action: changed(
            action, phase=Phase.AWAITING, request=event.request, digest=event.digest, expires_at=event.expires_at
        ),
    )


def _counts(state: RunState, action: Action, event: ev.ApprovalDecided) -> bool:
    """Whether a decision is about the call that waits, and by somebody who may take it."""
    if action.phase is not Phase.AWAITING or action.request != event.request:
        return False
    return _binds(state, action, event) and _allowed(state, action.consent, event)


def _binds(state: RunState, action: Action, event: ev.ApprovalDecided) -> bool:
    if isinstance(event.arguments, Erased) or not state.salt:
        return True
    if event.arguments is None:
        return event.digest == action.digest
    return event.digest == call_digest(state.salt, action.tool, action.identity, event.arguments)


def _allowed(state: RunState, consent: Consent, event: ev.ApprovalDecided) -> bool:
    many = consent.asking.quorum > 1
    if many and not event.voter:
        return False
    if isinstance(event.by, Erased) or not state.salt:
        # It was looked at when it could be read; facts alone are left to count votes by.
        return True
    if many and (event.by is None or event.voter != voter_digest(state.salt, event.by)):
        return False
    broken = objection(consent, state.by, event.by, event.decision)
    return broken is None or (broken == "unknown_requester" and state.erased)


def _decided(state: RunState, event: ev.ApprovalDecided) -> RunState:
    def change(action: Action) -> Action:
        if not _counts(state, action, event):
            return action
        return _with_vote(_edited(action, event), event)

    return change_action(state, event.action, change)


def _edited(action: Action, event: ev.ApprovalDecided) -> Action:
    """The call as whoever decided wants it; votes on what it was before lapse with that."""
    edited = known(event.arguments, None)
    # Arguments that are those that others have approved already change nothing.
    if event.digest == action.digest and (edited is None or action.consent.votes):
        return action
    consent = evolve(
        action.consent, votes=(), editor=known(event.by, None), planned=action.consent.planned or action.digest
    )
    # Where the arguments were erased, the digest still tells that there were others: None, and the call cannot start.
    original = action.arguments if action.original is None else action.original
    return changed(action, digest=event.digest, arguments=edited, original=original, consent=consent)


def _with_vote(action: Action, event: ev.ApprovalDecided) -> Action:
    consent = action.consent
    vote = Vote(
        voter=event.voter,
        decision=event.decision,
        digest=event.digest,
        by=known(event.by, None),
        reason=known(event.reason, None),
        edited=known(event.arguments, None) is not None,
    )
    others = tuple(cast for cast in consent.votes if cast.voter != vote.voter)
    consent = evolve(consent, votes=(*others, vote))
    action = changed(action, consent=consent)
    if vote.decision == "approve" and consent.approvals < consent.asking.quorum:
        return action
    decision = Decision(event.request, vote.decision, vote.digest, vote.by, vote.reason, vote.edited)
    return changed(action, phase=Phase.APPROVED if vote.decision == "approve" else Phase.DENIED, decision=decision)


def _expired(state: RunState, event: ev.ApprovalExpired) -> RunState:
    def change(action: Action) -> Action:
        consent = action.consent
        level, phase = consent.level, Phase.PLANNED
        if event.reason == "time":
            level, phase = (level + 1, Phase.PLANNED) if consent.escalates else (level, Phase.LAPSED)
        # What was agreed lapses with the request, an edit included: who is asked next is asked about the model's call.
        undone = changed(
            action, phase=phase, expires_at=None, consent=evolve(consent, level=level, votes=(), planned=b"")
        )
        if not consent.planned:
            return undone
        return changed(undone, digest=consent.planned, arguments=action.original, original=None)

    return change_action(state, event.action, change)


APPROVAL_STEPS: dict[type, Callable[..., RunState]] = {
    ev.ApprovalRequested: _requested,
    ev.ApprovalDecided: _decided,
    ev.ApprovalExpired: _expired,
}
