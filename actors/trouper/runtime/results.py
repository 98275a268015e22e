"""What a caller gets of a run: how it stands, or how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from trouper.core.conversation import Message
from trouper.core.family import Child
from trouper.core.state import Action, RunPhase, RunState, Usage
from trouper.core.status import status
from trouper.errors import OutputTruncated, RunCancelled, RunError, RunFailed, StepLimitExceeded
from trouper.tools import NO_STATE


@frozen
class RunResult:
    """A run as it stands or ended.

    Attributes:
        run: The run's id.
        status: ``succeeded``, ``failed``, ``cancelled``, or what it waits for.
        output: Text of the last reply; None unless it succeeded.
        messages: The run's own part of the conversation: no instructions, and not what it started from (`Run.history`).
        usage: Tokens spent, as far as providers told.
        steps: Super-steps taken.
        finish_reason: Why the model's last reply ended.
        in_doubt: Calls of which nobody knows whether they took place.
        state: The named state, as Python values.
        children: The runs that its calls of sub-agents began, in order.
    """

    run: str
    status: str
    output: str | None
    messages: tuple[Message, ...]
    usage: Usage
    steps: int
    finish_reason: str
    in_doubt: tuple[Action, ...]
    state: Mapping[str, Any] = NO_STATE
    children: tuple[Child, ...] = ()


def result_of(state: RunState, named: Mapping[str, Any] = NO_STATE) -> RunResult:
    """How a run stands."""
    return RunResult(
        run=state.run,
        status=status(state).label,
        output=state.output,
        messages=state.messages,
        usage=state.usage,
        steps=state.steps,
        finish_reason=state.finish,
        in_doubt=state.in_doubt,
        state=named,
        children=state.children,
    )


def outcome_of(state: RunState, named: Mapping[str, Any] = NO_STATE) -> RunResult:
    """The result of a run that has ended.

    Raises:
        RunError: It did not succeed; the error carries the result.
    """
    result = result_of(state, named)
    if state.phase is RunPhase.SUCCEEDED:
        return result
    error = _error(state)
    error.result = result
    raise error


def _error(state: RunState) -> RunError:
    if state.phase is RunPhase.CANCELLED:
        by = state.cancel.by.id if state.cancel and state.cancel.by else "somebody"
        why = f": {state.cancel.reason}" if state.cancel and state.cancel.reason else ""
        return RunCancelled(state.run, f"cancelled by {by}{why}")
    kinds = {"step_limit": StepLimitExceeded, "truncated": OutputTruncated}
    if state.failure == "state":
        return RunFailed(state.run, f"the named state that it was submitted with does not fit: {state.failure_message}")
    # The same command id means the same run: whoever mends the cause and asks again must know how to go on.
    on = "raise_limit" if state.failure == "step_limit" else "resume"
    message = f"{state.failure_message} (it can go on: runtime.{on}, or trouper {on.replace('_', '-')})"
    return kinds.get(state.failure or "", RunFailed)(state.run, message)
