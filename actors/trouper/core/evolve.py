"""The fold: ``evolve(state, event) -> state``.

It accepts every event in every state, because what was recorded happened; and ``ERASED`` for every content field,
because content may be erased long after it was decided upon.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import events as ev
from trouper.core.conversation import AI, Content, ToolCall
from trouper.core.evolve_actions import ACTION_STEPS, close_batch, without_reviews
from trouper.core.evolve_approvals import APPROVAL_STEPS
from trouper.core.evolve_budget import BUDGET_STEPS, begun, given_back, reserved, settled
from trouper.core.evolve_children import CHILD_STEPS
from trouper.core.evolve_control import CONTROL_STEPS, asked, revived, unpaused
from trouper.core.evolve_fork import begun_as
from trouper.core.evolve_hooks import HOOK_STEPS
from trouper.core.evolve_named import STATE_STEPS, with_defaults
from trouper.core.evolve_output import OUTPUT_STEPS, after_reply, after_resume
from trouper.core.evolve_session import SESSION_STEPS
from trouper.core.evolve_tools import TOOL_STEPS
from trouper.core.family import ALONE, Family
from trouper.core.folding import advanced, changed, say
from trouper.core.session import Turn
from trouper.core.state import (
    Cancel,
    ModelCall,
    RunPhase,
    RunState,
    Usage,
    known,
)
from trouper.core.tool_course import tools_after_reply, tools_after_resume
from trouper.core.tooling import NO_TOOLING, Tooling
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


def _submitted(state: RunState, event: ev.RunSubmitted) -> RunState:
    if state.version > 0:
        return advanced(state)
    salt = known(event.salt, b"")
    state = changed(state, salt=salt, agent=event.agent)
    messages, chain = say(state, known(event.input, ()))
    if event.fork is not None:
        state = begun_as(changed(state, messages=messages), event.fork)
    return advanced(
        state,
        limits=event.limits,
        by=known(event.by, None),
        base=event.base,
        turn=None if event.turn is None else Turn(event.turn),
        messages=messages,
        chain=chain,
        erased=isinstance(event.input, Erased),
        named=known(event.state, None) or {},
        control=asked(event.start_at, event.deadline),
        family=ALONE if event.parent is None else Family(event.parent, event.path),
        tools=Tooling(event.grants) if event.grants else NO_TOOLING,
    )


def _started(state: RunState, event: ev.RunStarted) -> RunState:
    if event.base is not None:
        _, chain = say(changed(state, messages=(), chain=event.base.chain), state.messages)
        state = changed(state, base=event.base, chain=chain)
    limits, budget = begun(state, event)
    return advanced(
        state,
        phase=RunPhase.RUNNING,
        definition=event.definition,
        contract=event.contract,
        prose=event.prose,
        rules=event.rules,
        terms=event.terms,
        named=with_defaults(state.named, event.defaults),
        limits=limits,
        budget=budget,
    )


def _adopted(state: RunState, event: ev.DefinitionAdopted) -> RunState:
    return advanced(
        without_reviews(changed(state, terms=event.terms)),
        definition=event.definition,
        contract=event.contract,
        prose=event.prose,
        drift=None,
        named=with_defaults(state.named, event.defaults),
    )


def _requested(state: RunState, event: ev.ModelRequested) -> RunState:
    first = event.attempt == 1
    return advanced(
        state,
        model=ModelCall(event.index, event.attempt, "requested", event.closing, spent=_spent(state), model=event.model),
        # The last request of a run at its limit comes on top of the limit, so that "+3" later means three.
        steps=state.steps + (1 if first and not event.closing else 0),
        closing=event.closing,
        budget=reserved(state.budget, event),
    )


def _responded(state: RunState, event: ev.ModelResponded) -> RunState:
    asked = [(f"{event.index}.{number}", call) for number, call in enumerate(known(event.calls, ()))]
    reply = AI(
        id=f"{state.run}/{event.index}",
        content=_content(known(event.text, None)),
        tool_calls=[
            ToolCall(f"{state.run}/{name}", call.name, call.arguments, call.provider_id, call.extra or {})
            for name, call in asked
        ],
        reasoning=known(event.reasoning, None),
        reasoning_field=known(event.reasoning_field, None),
        refusal=known(event.refusal, None),
        extra={} if isinstance(event.extra, Erased) else event.extra or {},
    )
    messages, chain = say(state, (reply,))
    told = event.input_tokens is not None or event.output_tokens is not None
    usage = Usage(
        state.usage.input_tokens + (event.input_tokens or 0),
        state.usage.output_tokens + (event.output_tokens or 0),
        state.usage.unknown + (0 if told else 1),
    )
    cut = event.truncated and bool(asked)
    return advanced(
        state,
        messages=messages,
        chain=chain,
        model=None,
        index=event.index + 1,
        unplanned=tuple(asked),
        usage=usage,
        budget=settled(state.budget, event),
        truncated=event.truncated,
        truncations=state.truncations + 1 if cut else 0,
        finish=event.finish,
        tools=tools_after_reply(state.tools, [call.name for _, call in asked]),
        answer=after_reply(state.answer, event.finish, refusal=known(event.refusal, None) is not None),
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
    model = state.model.model if state.model else ""
    call = ModelCall(
        event.index, event.attempt, "failed", closing, event.retry_at, message, _spent(state), model, event.status
    )
    return advanced(state, model=call, budget=given_back(state.budget))


def _lost(state: RunState, event: ev.ModelLost) -> RunState:
    closing = state.model.closing if state.model else False
    usage = attrs.evolve(state.usage, unknown=state.usage.unknown + 1)
    call = ModelCall(event.index, event.attempt, "lost", closing, spent=_spent(state))
    return advanced(state, model=call, usage=usage, budget=state.budget.held())


def _spent(state: RunState) -> int:
    return state.model.spent if state.model else 0


def _cancel_requested(state: RunState, event: ev.CancelRequested) -> RunState:
    if state.ended or state.cancel is not None:
        return advanced(state)
    return advanced(state, cancel=Cancel(known(event.by, None), known(event.reason, None)))


def _resumed(state: RunState, event: ev.ResumeRequested) -> RunState:
    if state.handed_on:
        return advanced(state)
    if state.phase is not RunPhase.FAILED or state.failure in {"step_limit", "budget", "state", "deadline"}:
        return advanced(unpaused(state, event.below))
    state = changed(after_resume(state), tools=tools_after_resume(state.tools))
    return advanced(revived(state))


def _waiting(state: RunState, event: ev.RunWaiting) -> RunState:
    return advanced(state, drift=known(event.details, ()) if event.reason == "drift" else None)


def _ended(state: RunState, phase: RunPhase, **changes: object) -> RunState:
    """Whatever is still open gets its answer, so that the history stays valid for the wire."""
    if state.batch:
        state = close_batch(state, state.batch)
        state = changed(state, version=state.version - 1)
    # A failed call is kept: its attempts have numbers, and a resumed run goes on behind them.
    model = state.model if phase is RunPhase.FAILED else None
    return advanced(state, phase=phase, model=model, unplanned=(), **changes)


def _succeeded(state: RunState, event: ev.RunSucceeded) -> RunState:
    if event.source is None:
        return _ended(state, RunPhase.SUCCEEDED)
    return _ended(state, RunPhase.SUCCEEDED, tools=attrs.evolve(state.tools, source=event.source))


def _run_failed(state: RunState, event: ev.RunFailed) -> RunState:
    why: dict[str, object] = {"failure": event.kind, "failure_message": known(event.message, "")}
    if event.kind == "hook":
        # Calls that were not made stay open: resumed, the run goes on with them, and asks its hooks again.
        return advanced(state, phase=RunPhase.FAILED, **why)
    return _ended(state, RunPhase.FAILED, **why)


def _cancelled(state: RunState, _event: ev.RunCancelled) -> RunState:
    return _ended(state, RunPhase.CANCELLED)


_STEPS: dict[type, Callable[..., RunState]] = {
    **ACTION_STEPS,
    **SESSION_STEPS,
    **HOOK_STEPS,
    **APPROVAL_STEPS,
    **STATE_STEPS,
    **TOOL_STEPS,
    **CONTROL_STEPS,
    **CHILD_STEPS,
    **OUTPUT_STEPS,
    **BUDGET_STEPS,
    ev.RunSubmitted: _submitted,
    ev.RunStarted: _started,
    ev.DefinitionAdopted: _adopted,
    ev.ModelRequested: _requested,
    ev.ModelResponded: _responded,
    ev.ModelFailed: _failed,
    ev.ModelLost: _lost,
    ev.CancelRequested: _cancel_requested,
    ev.ResumeRequested: _resumed,
    ev.RunWaiting: _waiting,
    ev.RunSucceeded: _succeeded,
    ev.RunFailed: _run_failed,
    ev.RunCancelled: _cancelled,
}
