"""The rules: ``decide(state) -> steps``, what must happen now, from the state alone.

A step with ``not_before`` is due at that moment (ns UTC) and not earlier; knowing the time is the shell's part. A
request or an attempt that is under way asks for no step: its outcome will come as an event. The rules have a number;
a change that alters the steps of any recorded run raises it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from attrs import frozen

from trouper.core import wording
from trouper.core.effects import Effect
from trouper.core.state import Action, Phase, RunState

RULES = 1
"""Number of the rules below."""

# A call, or a request, that takes the process down with it must not do so for ever.
LOSSES = 10
# A model that is cut off while calling tools is asked this often in a row to be shorter.
TRUNCATIONS = 3


@frozen
class Start:
    """Pin the definition and take the run up."""


@frozen
class RequestModel:
    """Send the conversation to the model."""

    index: int
    attempt: int
    closing: bool = False
    not_before: int | None = None


@frozen
class AbandonModel:
    """The run is being cancelled: stop waiting for the reply."""

    index: int
    attempt: int


@frozen
class Plan:
    """Read a call and check it; ``refuse`` closes it unseen, with that reason."""

    action: str
    refuse: Literal["limit", "truncated", "cancelled"] | None = None


@frozen
class AskApproval:
    """Ask a person."""

    action: str
    request: int


@frozen
class Expire:
    """Let a request for approval lapse."""

    action: str
    request: int
    not_before: int


@frozen
class StartAction:
    """Make an attempt."""

    action: str
    attempt: int
    not_before: int | None = None


@frozen
class QueryAction:
    """Ask the tool's query whether an attempt took place."""

    action: str
    attempt: int


@frozen
class AbortAction:
    """The run is being cancelled: stop an attempt that is under way."""

    action: str
    attempt: int


@frozen
class Close:
    """Give a call its receipt without (another) attempt."""

    action: str
    attempt: int
    outcome: Literal["ok", "error"]
    evidence: Literal["person", "not_started", "tool_error", "query"]
    text: str


@frozen
class Doubt:
    """Record that nobody knows whether the call took place."""

    action: str
    attempt: int
    text: str


@frozen
class Succeed:
    """The last reply is the output."""


@frozen
class Fail:
    """The run cannot go on."""

    kind: Literal["model", "step_limit", "truncated"]
    message: str


@frozen
class EndCancelled:
    """End the run, as was asked."""


Step: TypeAlias = (
    Start
    | RequestModel
    | AbandonModel
    | Plan
    | AskApproval
    | Expire
    | StartAction
    | QueryAction
    | AbortAction
    | Close
    | Doubt
    | Succeed
    | Fail
    | EndCancelled
)


def decide(state: RunState) -> tuple[Step, ...]:
    """What must happen now; empty while outcomes, people or nothing at all are waited for."""
    if state.ended:
        return ()
    if state.cancel is not None:
        return tuple(_cancelling(state))
    if state.drift is not None:
        return ()
    if not state.started:
        return (Start(),)
    if state.unplanned:
        return tuple(Plan(name, _refusal(state)) for name, _ in state.unplanned)
    if state.batch:
        return tuple(step for action in state.batch for step in _action(action))
    return _conversation(state)


def _at_limit(state: RunState) -> bool:
    return state.limits is not None and state.steps >= state.limits.max_steps


def _refusal(state: RunState) -> Literal["limit", "truncated"] | None:
    if state.closing or (not state.batch and _at_limit(state)):
        return "limit"
    if state.batch and state.batch[0].gate == "limit":
        return "limit"
    return "truncated" if state.truncated else None


def _conversation(state: RunState) -> tuple[Step, ...]:
    """Between batches: ask the model, or end."""
    call = state.model
    if call is not None:
        if call.phase == "requested":
            return ()
        attempts = state.limits.model_attempts if state.limits else 1
        if call.phase == "failed" and (call.retry_at is None or call.attempt - call.spent >= attempts):
            return (Fail("model", call.message),)
        if call.phase == "lost" and call.attempt - call.spent >= attempts + LOSSES:
            return (Fail("model", wording.lost(call.attempt)),)
        return (RequestModel(call.index, call.attempt + 1, call.closing, call.retry_at),)
    if state.index > 0 and (state.closing or not _called(state)):
        return (Succeed(),)
    if state.truncations >= TRUNCATIONS:
        return (Fail("truncated", wording.cut_off(state.truncations)),)
    if _at_limit(state):
        if state.limits is not None and state.limits.on_limit == "finish":
            return (RequestModel(state.index, 1, closing=True),)
        return (Fail("step_limit", wording.step_limit(state.steps)),)
    return (RequestModel(state.index, 1),)


def _called(state: RunState) -> bool:
    """Whether the last message is a tool's: a batch has just been closed."""
    return bool(state.messages) and state.messages[-1].role == "tool"


def _action(action: Action) -> Iterator[Step]:
    name, attempt = action.action, action.attempt
    match action.phase:
        case Phase.PLANNED if action.gate in {"refused", "limit"}:
            yield Close(name, 0, "error", "not_started", action.refusal or wording.NOT_STARTED)
        case Phase.PLANNED if action.gate == "person":
            yield AskApproval(name, action.request + 1)
        case Phase.AWAITING if action.expires_at is not None:
            yield Expire(name, action.request, action.expires_at)
        case Phase.LAPSED:
            yield Close(name, 0, "error", "not_started", wording.LAPSED)
        case Phase.DENIED:
            yield Close(name, 0, "error", "person", wording.denied(action))
        case Phase.PLANNED | Phase.APPROVED | Phase.REPEAT:
            yield StartAction(name, attempt + 1)
        case Phase.INTERRUPTED:
            yield _after_interruption(action)
        case Phase.RESOLVED:
            yield _resolution(action)
        case _:
            return


def _after_interruption(action: Action) -> Step:
    """The recovery table: what may follow an attempt that has no outcome to be trusted."""
    name, attempt = action.action, action.attempt
    again = StartAction(name, attempt + 1, action.retry_at)
    lost = action.cause in {"lost", "shutdown"}
    spent = action.losses >= LOSSES if lost else attempt - action.losses >= action.attempts
    failed = Close(name, attempt, "error", "tool_error", wording.interrupted(action))
    doubt = Doubt(name, attempt, wording.doubt(action))
    if action.cause == "not_begun":
        return again
    if action.cause in {"transient", "tool_error"} and (spent or action.cause == "tool_error"):
        # What this attempt says of itself is no word on an earlier one that was cut off.
        return doubt if action.doubted else failed
    if action.cause == "transient":
        return again
    match action.effect:
        case Effect.READ_ONLY:
            return again if lost and not spent else failed
        case Effect.IDEMPOTENT_WRITE:
            return doubt if spent else again
        case Effect.QUERYABLE_WRITE if action.query is None:
            return QueryAction(name, attempt)
        case Effect.QUERYABLE_WRITE if action.query == "absent":
            return Close(name, attempt, "error", "query", wording.interrupted(action)) if spent else again
        case _:
            return doubt


def _resolution(action: Action) -> Step:
    ok = action.verdict == "applied"
    return Close(action.action, action.attempt, "ok" if ok else "error", "person", wording.resolved(action))


def _cancelling(state: RunState) -> Iterator[Step]:
    """Start nothing more, let what is under way come to a known end, close the rest, then end."""
    open_ones = False
    if state.model is not None and state.model.phase == "requested":
        open_ones = True
        yield AbandonModel(state.model.index, state.model.attempt)
    for name, _ in state.unplanned:
        open_ones = True
        yield Plan(name, "cancelled")
    for action in state.batch:
        step = _cancel_action(state, action)
        if step is not None:
            open_ones = True
            yield step
    if not open_ones:
        yield EndCancelled()


def _cancel_action(state: RunState, action: Action) -> Step | None:
    match action.phase:
        case Phase.CLOSED | Phase.UNRESOLVED:
            return None
        case Phase.STARTED:
            return AbortAction(action.action, action.attempt)
        case Phase.RESOLVED:
            return _resolution(action)
        case Phase.REPEAT:
            return Doubt(action.action, action.attempt, wording.doubt(action))
        case Phase.INTERRUPTED:
            step = _after_interruption(action)
            if not isinstance(step, StartAction):
                return step
            if action.doubted:
                return Doubt(action.action, action.attempt, wording.doubt(action))
            return Close(action.action, action.attempt, "error", "tool_error", wording.not_again(action, state))
        case _:
            return Close(action.action, 0, "error", "not_started", wording.cancelled(state))


def due(step: Step) -> int | None:
    """The moment before which a step must not be taken (ns UTC); None for at once."""
    return step.not_before if isinstance(step, RequestModel | Expire | StartAction) else None
