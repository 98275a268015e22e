"""The fold of what happens to a run because it is a turn of a session."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import session_events as ev
from trouper.core import wording
from trouper.core.base import Base
from trouper.core.conversation import Human, Message
from trouper.core.evolve_actions import change_action
from trouper.core.folding import advanced, changed
from trouper.core.session import Compaction, Turn
from trouper.core.state import Action, Decision, Phase, RunState, Usage, known
from trouper_journal import Erased


def _given(state: RunState, event: ev.TurnGiven) -> RunState:
    if state.turn is None or state.turn.given:
        return advanced(state)
    base = None if event.after is None else Base((event.after,))
    return advanced(state, turn=attrs.evolve(state.turn, given=True), base=base)


def _withdrawn(state: RunState, event: ev.ApprovalWithdrawn) -> RunState:
    by, reason = known(event.by, None), known(event.reason, None)

    def change(action: Action) -> Action:
        if action.phase is not Phase.AWAITING or action.request != event.request:
            return action
        decision = Decision(event.request, "deny", action.digest, by, reason, edited=False)
        return changed(action, phase=Phase.DENIED, decision=decision)

    return change_action(state, event.action, change)


def _with(state: RunState, compaction: Compaction, *, asked: int = 0, unpriced: int = 0) -> Turn | None:
    turn = state.turn
    if turn is None:
        return None
    return attrs.evolve(turn, compaction=compaction, asked=turn.asked + asked, unpriced=turn.unpriced + unpriced)


def _summary_requested(state: RunState, event: ev.SummaryRequested) -> RunState:
    compaction = Compaction("requested", event.attempt, event.kept, event.dropped, event.count, model=event.model)
    return advanced(state, turn=_with(state, compaction))


def _summary_failed(state: RunState, event: ev.SummaryFailed) -> RunState:
    compaction = state.turn.compaction if state.turn is not None else None
    if compaction is None:
        return advanced(state)
    reason = wording.no_summary(event.reason, known(event.message, ""))
    failed = attrs.evolve(compaction, phase="failed", retry_at=event.retry_at, reason=reason)
    # What a lost request took is unknown, not zero.
    lost = 0 if event.reason == "error" else 1
    usage = attrs.evolve(state.usage, unknown=state.usage.unknown + lost)
    return advanced(state, turn=_with(state, failed, asked=lost, unpriced=lost), usage=usage)


def _compacted(state: RunState, event: ev.ContextCompacted) -> RunState:
    # Where it was erased, the attempt that brought it still tells that there was one.
    text = known(event.summary, "" if event.attempt else None)
    summary = None if text is None else Human(f"{state.run}/summary", wording.summary(text))
    done = Compaction("done", event.attempt, event.kept, event.dropped, event.count, summary)
    usage, budget = state.usage, state.budget
    asked = 1 if event.attempt > 0 else 0
    if asked:
        told = event.input_tokens is not None or event.output_tokens is not None
        usage = Usage(
            usage.input_tokens + (event.input_tokens or 0),
            usage.output_tokens + (event.output_tokens or 0),
            usage.unknown + (0 if told else 1),
        )
        if event.cost:
            budget = attrs.evolve(budget, cost=budget.cost + event.cost)
    base = Base(event.kept) if event.kept or summary is not None else None
    turn = _with(state, done, asked=asked, unpriced=asked if event.cost is None else 0)
    erased = state.erased or isinstance(event.summary, Erased)
    return advanced(state, turn=turn, base=base, usage=usage, budget=budget, erased=erased)


def lead_of(state: RunState) -> Message | None:
    """What stands in the place of the history that was dropped, if anything does."""
    compaction = state.turn.compaction if state.turn is not None else None
    return compaction.summary if compaction is not None else None


SESSION_STEPS: dict[type, Callable[..., RunState]] = {
    ev.TurnGiven: _given,
    ev.ApprovalWithdrawn: _withdrawn,
    ev.SummaryRequested: _summary_requested,
    ev.SummaryFailed: _summary_failed,
    ev.ContextCompacted: _compacted,
}
