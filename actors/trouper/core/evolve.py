"""The fold: ``evolve(state, event) -> state``.

It accepts every event in every state, because what was recorded happened; and ``ERASED`` for every content field,
because content may be erased long after it was decided upon.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import events as ev
from trouper.core.conversation import AI, Content, Human, Message, ToolCall, ToolMessage
from trouper.core.digests import extend_chain
from trouper.core.state import (
    Action,
    Cancel,
    Decision,
    ModelCall,
    Phase,
    RunPhase,
    RunState,
    Usage,
    known,
)
from trouper_journal import Erased, Value


def evolve(state: RunState, event: object) -> RunState:
    """One event on.

    Raises:
        TypeError: If it is not an event of a run.
    """
    step = _STEPS.get(type(event))
    if step is None:
        raise TypeError(f"{type(event).__name__} is not an event of a run")
    return step(state, event)


def _next(state: RunState, **changes: object) -> RunState:
    return attrs.evolve(state, version=state.version + 1, **changes)  # type: ignore[arg-type]  # checked by attrs


def _say(state: RunState, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], bytes]:
    chain = state.chain
    for message in messages:
        chain = extend_chain(chain, state.salt, message)
    return state.messages + messages, chain


def _submitted(state: RunState, event: ev.RunSubmitted) -> RunState:
    salt = known(event.salt, b"")
    state = attrs.evolve(state, salt=salt, agent=event.agent)
    messages, chain = _say(state, known(event.input, ()))
    return _next(
        state,
        limits=event.limits,
        by=known(event.by, None),
        messages=messages,
        chain=chain,
        erased=isinstance(event.input, Erased),
    )


def _started(state: RunState, event: ev.RunStarted) -> RunState:
    return _next(
        state,
        phase=RunPhase.RUNNING,
        definition=event.definition,
        contract=event.contract,
        prose=event.prose,
        rules=event.rules,
        limits=event.limits,
    )


def _adopted(state: RunState, event: ev.DefinitionAdopted) -> RunState:
    return _next(state, definition=event.definition, contract=event.contract, prose=event.prose, drift=None)


def _requested(state: RunState, event: ev.ModelRequested) -> RunState:
    first = event.attempt == 1
    return _next(
        state,
        model=ModelCall(event.index, event.attempt, "requested", event.closing, spent=_spent(state)),
        # The last request of a run at its limit comes on top of the limit, so that "+3" later means three.
        steps=state.steps + (1 if first and not event.closing else 0),
        closing=event.closing,
    )


def _responded(state: RunState, event: ev.ModelResponded) -> RunState:
    asked = known(event.calls, ())
    names = tuple(f"{event.index}.{number}" for number in range(len(asked)))
    reply = AI(
        id=f"{state.run}/{event.index}",
        content=_content(known(event.text, None)),
        tool_calls=tuple(
            ToolCall(f"{state.run}/{name}", call.name, call.arguments, call.provider_id, call.extra or {})
            for name, call in zip(names, asked, strict=True)
        ),
        reasoning=known(event.reasoning, None),
        reasoning_field=known(event.reasoning_field, None),
        refusal=known(event.refusal, None),
        extra={} if isinstance(event.extra, Erased) else event.extra or {},
    )
    messages, chain = _say(state, (reply,))
    told = event.input_tokens is not None or event.output_tokens is not None
    usage = Usage(
        state.usage.input_tokens + (event.input_tokens or 0),
        state.usage.output_tokens + (event.output_tokens or 0),
        state.usage.unknown + (0 if told else 1),
    )
    cut = event.truncated and bool(asked)
    return _next(
        state,
        messages=messages,
        chain=chain,
        model=None,
        index=event.index + 1,
        unplanned=tuple(zip(names, asked, strict=True)),
        usage=usage,
        truncated=event.truncated,
        truncations=state.truncations + 1 if cut else 0,
        finish=event.finish,
        erased=state.erased or isinstance(event.calls, Erased),
    )


def _content(value: Value) -> Content | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(part for part in value if isinstance(part, dict))
    return str(value)


def _failed(state: RunState, event: ev.ModelFailed) -> RunState:
    closing = state.model.closing if state.model else False
    message = known(event.message, "")
    call = ModelCall(event.index, event.attempt, "failed", closing, event.retry_at, message, _spent(state))
    return _next(state, model=call)


def _lost(state: RunState, event: ev.ModelLost) -> RunState:
    closing = state.model.closing if state.model else False
    usage = attrs.evolve(state.usage, unknown=state.usage.unknown + 1)
    call = ModelCall(event.index, event.attempt, "lost", closing, spent=_spent(state))
    return _next(state, model=call, usage=usage)


def _spent(state: RunState) -> int:
    return state.model.spent if state.model else 0


def _planned(state: RunState, event: ev.ActionPlanned) -> RunState:
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
    )
    first = not state.batch
    return _next(
        state,
        batch=(*state.batch, action),
        unplanned=tuple(entry for entry in state.unplanned if entry[0] != event.action),
        steps=state.steps + (1 if first and event.gate != "limit" else 0),
    )


def _update(state: RunState, name: str, change: Callable[[Action], Action]) -> RunState:
    """Change one action wherever it stands, and close the batch when that was its last open one."""
    if name in state.settled:
        return _next(state, settled={**state.settled, name: change(state.settled[name])})
    batch = tuple(change(action) if action.action == name else action for action in state.batch)
    if state.unplanned or not batch or any(action.phase is not Phase.CLOSED for action in batch):
        return _next(state, batch=batch)
    return _close_batch(state, batch)


def _close_batch(state: RunState, batch: tuple[Action, ...]) -> RunState:
    """Every call of a reply gets its one tool message, in the order asked, whatever order they ended in."""
    ordered = sorted(batch, key=lambda action: int(action.action.partition(".")[2]))
    answers = tuple(
        ToolMessage(
            id=f"{state.run}/{action.action}",
            call_id=f"{state.run}/{action.action}",
            name=action.tool,
            content=action.text,
            status="ok" if action.ok else "error",
        )
        for action in ordered
    )
    messages, chain = _say(state, answers)
    kept = {
        action.action: attrs.evolve(action, original=None)
        for action in ordered
        if action.decision is not None or action.cause is not None or action.phase is Phase.UNRESOLVED
    }
    settled = {**state.settled, **kept} if kept else state.settled
    return _next(state, messages=messages, chain=chain, batch=(), settled=settled)


def _replanned(state: RunState, event: ev.ActionReplanned) -> RunState:
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(
            action,
            effect=event.effect,
            gate=event.gate,
            identity=event.identity,
            digest=event.digest,
            attempts=event.attempts,
            phase=Phase.PLANNED,
            decision=None,
        ),
    )


def _approval_requested(state: RunState, event: ev.ApprovalRequested) -> RunState:
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(
            action, phase=Phase.AWAITING, request=event.request, digest=event.digest, expires_at=event.expires_at
        ),
    )


def _approval_decided(state: RunState, event: ev.ApprovalDecided) -> RunState:
    edited = known(event.arguments, None)
    decision = Decision(
        request=event.request,
        decision=event.decision,
        digest=event.digest,
        by=known(event.by, None),
        reason=known(event.reason, None),
        edited=edited is not None,
    )
    phase = Phase.APPROVED if event.decision == "approve" else Phase.DENIED

    def change(action: Action) -> Action:
        if edited is None:
            return attrs.evolve(action, phase=phase, decision=decision)
        return attrs.evolve(
            action,
            phase=phase,
            decision=decision,
            digest=event.digest,
            arguments=edited,
            original=action.arguments,
        )

    return _update(state, event.action, change)


def _approval_expired(state: RunState, event: ev.ApprovalExpired) -> RunState:
    phase = Phase.LAPSED if event.reason == "time" else Phase.PLANNED
    return _update(state, event.action, lambda action: attrs.evolve(action, phase=phase, expires_at=None))


def _action_started(state: RunState, event: ev.ActionStarted) -> RunState:
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(action, phase=Phase.STARTED, attempt=event.attempt, retry_at=None, query=None),
    )


def _receipted(state: RunState, event: ev.ActionReceipted) -> RunState:
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(
            action, phase=Phase.CLOSED, ok=event.outcome == "ok", text=known(event.text, ""), retry_at=None
        ),
    )


def _interrupted(state: RunState, event: ev.ActionInterrupted) -> RunState:
    lost = event.cause in {"lost", "shutdown"}
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(
            action,
            phase=Phase.INTERRUPTED,
            cause=event.cause,
            retry_at=event.retry_at,
            losses=action.losses + (1 if lost else 0),
            text=known(event.message, ""),
        ),
    )


def _queried(state: RunState, event: ev.ActionQueried) -> RunState:
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(action, query=event.answer, text=known(event.message, "") or action.text),
    )


def _unresolved(state: RunState, event: ev.ActionUnresolved) -> RunState:
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(action, phase=Phase.UNRESOLVED, text=known(event.text, "")),
    )


def _resolved(state: RunState, event: ev.ActionResolved) -> RunState:
    again = event.verdict == "run_again" and not state.ended
    phase = Phase.REPEAT if again else Phase.RESOLVED
    return _update(
        state,
        event.action,
        lambda action: attrs.evolve(
            action,
            phase=phase,
            verdict=event.verdict,
            settled_by=known(event.by, None),
            evidence=known(event.evidence, None),
        ),
    )


def _returned_late(state: RunState, _event: ev.ActionReturnedLate) -> RunState:
    return _next(state)


def _cancel_requested(state: RunState, event: ev.CancelRequested) -> RunState:
    if state.ended or state.cancel is not None:
        return _next(state)
    return _next(state, cancel=Cancel(known(event.by, None), known(event.reason, None)))


def _raised(state: RunState, event: ev.BudgetRaised) -> RunState:
    limits = state.limits or ev.Limits()
    state = attrs.evolve(state, limits=attrs.evolve(limits, max_steps=limits.max_steps + event.steps))
    if state.phase is RunPhase.FAILED and state.failure == "step_limit":
        return _next(state, phase=RunPhase.RUNNING, failure=None, failure_message="", truncations=0)
    return _next(state)


def _resumed(state: RunState, _event: ev.ResumeRequested) -> RunState:
    if state.phase is not RunPhase.FAILED or state.failure == "step_limit":
        return _next(state)
    call = state.model
    if call is not None:
        call = attrs.evolve(call, phase="lost", retry_at=None, spent=call.attempt)
    return _next(state, phase=RunPhase.RUNNING, failure=None, failure_message="", truncations=0, model=call)


def _waiting(state: RunState, event: ev.RunWaiting) -> RunState:
    return _next(state, drift=known(event.details, ()) if event.reason == "drift" else None)


def _ended(state: RunState, phase: RunPhase, **changes: object) -> RunState:
    """Whatever is still open gets its answer, so that the history stays valid for the wire."""
    if state.batch:
        state = _close_batch(state, state.batch)
        state = attrs.evolve(state, version=state.version - 1)
    # A failed call is kept: its attempts have numbers, and a resumed run goes on behind them.
    model = state.model if phase is RunPhase.FAILED else None
    return _next(state, phase=phase, model=model, unplanned=(), **changes)


def _succeeded(state: RunState, _event: ev.RunSucceeded) -> RunState:
    return _ended(state, RunPhase.SUCCEEDED)


def _run_failed(state: RunState, event: ev.RunFailed) -> RunState:
    return _ended(state, RunPhase.FAILED, failure=event.kind, failure_message=known(event.message, ""))


def _cancelled(state: RunState, _event: ev.RunCancelled) -> RunState:
    return _ended(state, RunPhase.CANCELLED)


def start_of(run: str) -> RunState:
    """The state of a run before its first event."""
    return RunState(run)


def human(run: str, text: str) -> Human:
    """The message that a plain text input stands for."""
    return Human(id=f"{run}/input", content=text)


_STEPS: dict[type, Callable[..., RunState]] = {
    ev.RunSubmitted: _submitted,
    ev.RunStarted: _started,
    ev.DefinitionAdopted: _adopted,
    ev.ModelRequested: _requested,
    ev.ModelResponded: _responded,
    ev.ModelFailed: _failed,
    ev.ModelLost: _lost,
    ev.ActionPlanned: _planned,
    ev.ActionReplanned: _replanned,
    ev.ApprovalRequested: _approval_requested,
    ev.ApprovalDecided: _approval_decided,
    ev.ApprovalExpired: _approval_expired,
    ev.ActionStarted: _action_started,
    ev.ActionReceipted: _receipted,
    ev.ActionInterrupted: _interrupted,
    ev.ActionQueried: _queried,
    ev.ActionUnresolved: _unresolved,
    ev.ActionResolved: _resolved,
    ev.ActionReturnedLate: _returned_late,
    ev.CancelRequested: _cancel_requested,
    ev.BudgetRaised: _raised,
    ev.ResumeRequested: _resumed,
    ev.RunWaiting: _waiting,
    ev.RunSucceeded: _succeeded,
    ev.RunFailed: _run_failed,
    ev.RunCancelled: _cancelled,
}
