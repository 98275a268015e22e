"""The fold of what happens to a reply's calls."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import action_events as ev
from trouper.core import wording
from trouper.core.approvals import NO_CONSENT, NO_GROUNDS, Consent
from trouper.core.conversation import ToolMessage
from trouper.core.effects import Effect
from trouper.core.evolve_budget import called
from trouper.core.evolve_fork import note_recorded
from trouper.core.evolve_output import after_receipt
from trouper.core.folding import advanced, changed, content_parts, say
from trouper.core.state import Action, Phase, RunState, known
from trouper.core.tool_course import tools_after_batch
from trouper_journal import Erased


def consent_of(event: ev.ActionPlanned | ev.ActionReplanned) -> Consent:
    """What a call needs, as it was planned."""
    if event.grounds == NO_GROUNDS and event.reason is None:
        return NO_CONSENT
    return Consent(event.grounds, known(event.reason, None), None if isinstance(event.people, Erased) else event.people)


def _planned(state: RunState, event: ev.ActionPlanned) -> RunState:
    state = note_recorded(state, event)
    action = Action(
        action=event.action,
        tool=event.tool,
        effect=event.effect,
        gate=event.gate,
        identity=event.identity,
        digest=event.digest,
        attempts=event.attempts,
        arguments=known(event.arguments, None),
        refusal=known(event.refusal, None),
        permissions=event.permissions,
        authorize=event.authorize,
        asked=known(event.asked, None),
        answer=event.answer,
        direct=event.direct,
        consent=consent_of(event),
    )
    hooks = state.hooks
    if event.action in hooks.calls:
        calls = {name: edit for name, edit in hooks.calls.items() if name != event.action}
        hooks = attrs.evolve(hooks, calls=calls)
    # Calls that are closed unseen, at the limit or on a cancel, are no step; nor is handing in the final output.
    looked_at = event.gate != "limit" and not state.terms.hands_in(event.tool) and not state.stopping
    first = looked_at and all(state.terms.hands_in(each.tool) for each in state.batch)
    return advanced(
        state,
        batch=(*state.batch, action),
        unplanned=tuple([entry for entry in state.unplanned if entry[0] != event.action]),
        steps=state.steps + first,
        hooks=hooks,
    )


def change_action(state: RunState, name: str, change: Callable[[Action], Action]) -> RunState:
    """Change one action wherever it stands, and close the batch when that was its last open one."""
    for place, action in enumerate(state.batch):
        if action.action == name:
            batch = (*state.batch[:place], change(action), *state.batch[place + 1 :])
            return close_batch(state, batch) if _all_over(state, batch) else advanced(state, batch=batch)
    settled = tuple(change(action) if action.action == name else action for action in state.settled)
    return advanced(state, settled=settled)


def _all_over(state: RunState, batch: tuple[Action, ...]) -> bool:
    """Whether every call of a reply is closed, and seen by the hooks that see it before the model does."""
    if state.unplanned or not batch:
        return False
    hooked = "after_tool" in state.terms.hooks and not state.stopping
    # Asked at every change of a call: a loop, because a generator would cost more than all the rest.
    for action in batch:  # noqa: SIM110
        if action.phase is not Phase.CLOSED or (hooked and action.unreviewed):
            return False
    return True


def after_review(state: RunState, name: str, answer: tuple[str, bool] | None) -> RunState:
    """Hooks have seen a call's result, and maybe put another in its place."""
    said: dict[str, object] = {} if answer is None else {"text": answer[0], "ok": answer[1], "parts": None}
    return change_action(state, name, lambda action: changed(action, reviewed=True, **said))


def without_reviews(state: RunState) -> RunState:
    """After a change of definition: nobody may be left to wait for."""
    if not _all_over(state, state.batch):
        return state
    state = close_batch(state, state.batch)
    return changed(state, version=state.version - 1)


def close_batch(state: RunState, batch: tuple[Action, ...]) -> RunState:
    """Every call of a reply gets its one tool message, in the order asked, whatever order they ended in."""
    ordered = sorted(batch, key=lambda action: int(action.action.partition(".")[2]))
    answers = [
        ToolMessage(
            id=f"{state.run}/{action.action}",
            call_id=f"{state.run}/{action.action}",
            name=action.tool,
            content=action.parts or action.text or ("" if action.phase is Phase.CLOSED else wording.left_open(action)),
            status="ok" if action.ok else "error",
        )
        for action in ordered
    ]
    messages, chain = say(state, tuple(answers))
    kept = [
        action
        for action in ordered
        if action.decision or action.cause or action.child or action.denial or action.phase is Phase.UNRESOLVED
    ]
    tools = tools_after_batch(state.tools, ordered)
    return advanced(state, messages=messages, chain=chain, batch=(), settled=(*state.settled, *kept), tools=tools)


def _replanned(state: RunState, event: ev.ActionReplanned) -> RunState:
    return change_action(
        state,
        event.action,
        lambda action: changed(
            action,
            effect=event.effect,
            gate=event.gate,
            identity=event.identity,
            digest=event.digest,
            attempts=event.attempts,
            permissions=event.permissions,
            authorize=event.authorize,
            direct=event.direct,
            refusal=known(event.refusal, None),
            phase=Phase.PLANNED,
            decision=None,
            consent=consent_of(event),
            # An edit was part of a decision that lapses with the tool it was taken on.
            arguments=action.arguments if action.original is None else action.original,
            original=None,
        ),
    )


def _action_started(state: RunState, event: ev.ActionStarted) -> RunState:
    action = state.action(event.action)
    if action is not None:
        state = changed(state, budget=called(state.budget, action))
    return change_action(
        state,
        event.action,
        lambda action: changed(action, phase=Phase.STARTED, attempt=event.attempt, retry_at=None, query=None),
    )


def _receipted(state: RunState, event: ev.ActionReceipted) -> RunState:
    # What a hook says in place of a tool is no evidence that the tool did anything.
    if event.outcome == "ok" and event.evidence != "hook":
        state = after_receipt(state, event.action)
    return change_action(
        state,
        event.action,
        lambda action: changed(
            action,
            phase=Phase.CLOSED,
            ok=event.outcome == "ok",
            text=known(event.text, ""),
            parts=content_parts(known(event.parts, None)),
            retry_at=None,
        ),
    )


def _interrupted(state: RunState, event: ev.ActionInterrupted) -> RunState:
    free = event.cause in {"lost", "shutdown", "not_begun"}
    cut_off = event.cause not in {"transient", "not_begun", "tool_error"}
    return change_action(
        state,
        event.action,
        lambda action: changed(
            action,
            phase=Phase.INTERRUPTED,
            cause=event.cause,
            query=None,
            retry_at=event.retry_at,
            losses=action.losses + (1 if free else 0),
            doubted=action.doubted or (cut_off and action.effect is not Effect.READ_ONLY),
            text=known(event.message, ""),
        ),
    )


def _queried(state: RunState, event: ev.ActionQueried) -> RunState:
    return change_action(
        state,
        event.action,
        lambda action: changed(
            action,
            query=event.answer,
            doubted=action.doubted and event.answer != "absent",
            text=known(event.message, "") or action.text,
        ),
    )


def _unresolved(state: RunState, event: ev.ActionUnresolved) -> RunState:
    return change_action(
        state,
        event.action,
        lambda action: changed(action, phase=Phase.UNRESOLVED, text=known(event.text, "")),
    )


def _resolved(state: RunState, event: ev.ActionResolved) -> RunState:
    # A call whose batch is closed has been answered: it cannot run again, whoever says so.
    again = event.verdict == "run_again" and any(action.action == event.action for action in state.batch)
    phase = Phase.REPEAT if again else Phase.RESOLVED

    def change(action: Action) -> Action:
        if action.phase is not Phase.UNRESOLVED:
            return action
        return changed(
            action,
            phase=phase,
            doubted=False,
            verdict=event.verdict,
            settled_by=known(event.by, None),
            evidence=known(event.evidence, None),
        )

    return change_action(state, event.action, change)


def _returned_late(state: RunState, _event: ev.ActionReturnedLate) -> RunState:
    return advanced(state)


ACTION_STEPS: dict[type, Callable[..., RunState]] = {
    ev.ActionPlanned: _planned,
    ev.ActionReplanned: _replanned,
    ev.ActionStarted: _action_started,
    ev.ActionReceipted: _receipted,
    ev.ActionInterrupted: _interrupted,
    ev.ActionQueried: _queried,
    ev.ActionUnresolved: _unresolved,
    ev.ActionResolved: _resolved,
    ev.ActionReturnedLate: _returned_late,
}
