"""What a caller gets of a run: how it stands, or how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from trouper.core.budget import NOTHING_SPENT, Spent
from trouper.core.conversation import Message
from trouper.core.family import Child
from trouper.core.history import closed_history
from trouper.core.limits import SECOND
from trouper.core.state import Action, RunPhase, RunState, Usage
from trouper.core.status import status
from trouper.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    ModelRefused,
    OutputInvalid,
    OutputTruncated,
    RunCancelled,
    RunError,
    RunFailed,
    RunIncomplete,
    StepLimitExceeded,
)
from trouper.tools import NO_STATE
from trouper_journal import ERASED, Plain

_ERRORS: Mapping[str, type[RunError]] = {
    "deadline": DeadlineExceeded,
    "truncated": OutputTruncated,
    "output": OutputInvalid,
    "incomplete": RunIncomplete,
    "refused": ModelRefused,
}


@frozen(repr=False, eq=False)
class RunResult(Plain):
    """A run as it stands or ended.

    Attributes:
        run: The run's id.
        status: ``succeeded``, ``failed``, ``cancelled``, or what it waits for.
        output: The answer, None unless it succeeded: the text of the last reply; or, of an agent with a structured
            output, a value of its type (its JSON where the agent is not at hand, or its type is another one by now);
            `trouper_journal.ERASED` where it was erased.
        text: Text of the model's last reply, however the run stands; of a refusal without any, the refusal.
        messages: The run's own part of the conversation: no instructions, and not what it started from (`Run.history`).
        usage: Tokens spent, as far as providers told.
        steps: Super-steps taken.
        spent: What it and its sub-agents have spent: calls, tokens and cost, and how much of that is an estimate.
        finish_reason: Why the model's last reply ended.
        in_doubt: Calls of which nobody knows whether they took place.
        state: The named state, as Python values.
        children: The runs that its calls of sub-agents began, in order.
    """

    run: str
    status: str
    # Which type it is, the caller knows: it names the agent.
    output: Any
    text: str
    messages: tuple[Message, ...]
    usage: Usage
    steps: int
    finish_reason: str
    in_doubt: tuple[Action, ...]
    spent: Spent = NOTHING_SPENT
    state: Mapping[str, Any] = NO_STATE
    children: tuple[Child, ...] = ()


def result_of(state: RunState, output: object = None, named: Mapping[str, Any] = NO_STATE) -> RunResult:
    """How a run stands, with its output and its named state."""
    return RunResult(
        run=state.run,
        status=status(state).label,
        output=ERASED if state.erased and state.phase is RunPhase.SUCCEEDED else output,
        text=state.said,
        # Calls that a failed run has left open get an answer here, so that whoever goes on from it can.
        messages=closed_history(state) if state.ended else state.messages,
        usage=state.usage,
        steps=state.steps,
        finish_reason=state.finish,
        in_doubt=state.in_doubt,
        spent=state.spent,
        state=named,
        children=state.children,
    )


def outcome_of(state: RunState, output: object = None, named: Mapping[str, Any] = NO_STATE) -> RunResult:
    """The result of a run that has ended.

    Raises:
        RunError: It did not succeed; the error carries the result.
    """
    result = result_of(state, output, named)
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
    if state.failure == "state":
        return RunFailed(state.run, f"the named state that it was submitted with does not fit: {state.failure_message}")
    # The same command id means the same run: whoever mends the cause and asks again must know how to go on.
    on = {"step_limit": "raise_limit", "budget": "raise_limit", "deadline": "extend"}.get(state.failure or "", "resume")
    message = f"{state.failure_message} (it can go on: runtime.{on}, or trouper {on.replace('_', '-')})"
    if state.failure == "budget":
        return _over_budget(state, message)
    if state.failure == "step_limit":
        limit = state.limits.max_steps if state.limits is not None else 0
        return StepLimitExceeded(state.run, message, limit=limit, spent=state.steps)
    return _ERRORS.get(state.failure or "", RunFailed)(state.run, message)


def _over_budget(state: RunState, message: str) -> BudgetExceeded:
    refusal = state.budget.refused
    if refusal is None:
        return BudgetExceeded(state.run, message)
    seconds = refusal.resource == "seconds"
    return BudgetExceeded(
        state.run,
        message,
        resource=refusal.resource,
        limit=refusal.limit / SECOND if seconds else refusal.limit,
        spent=refusal.spent / SECOND if seconds else refusal.spent,
        owner=refusal.owner,
    )
