"""Replay: fold a recorded run again and check that the rules would take the recorded steps.

Before each recorded intent of the driver, `decide` must name that intent. Outcomes (replies, receipts, decisions)
come from outside and are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import field, frozen

from trouper.core import events as ev
from trouper.core import steps
from trouper.core.decide import RULES, decide
from trouper.core.evolve import evolve
from trouper.core.state import RunState
from trouper.core.steps import Step
from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class Difference(Plain):
    """The first recorded intent that the rules would not have taken.

    Attributes:
        version: Version of the recorded event in its stream.
        recorded: The recorded event's class name.
        expected: What the rules name instead.
        event: The recorded event.
        steps: What the rules name instead, as values.
        state: The run before the event.
    """

    version: int
    recorded: str
    expected: tuple[str, ...]
    event: object = field(default=None, repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)
    state: RunState | None = field(default=None, repr=False)


def check(run: str, events: Iterable[object]) -> tuple[RunState, Difference | None]:
    """Fold a run's events and compare its intents with the rules.

    Args:
        run: The run's id.
        events: Its events, in order.

    Returns:
        The final state, and the first difference or None.
    """
    state = RunState(run)
    found: Difference | None = None
    for event in events:
        if found is None:
            found = difference(state, event)
        state = evolve(state, event)
    return state, found


def not_compared(state: RunState) -> str | None:
    """Why nothing that is recorded from here on can be compared with the rules; None where it can."""
    # Erased content cannot be decided upon again: what was read from it is gone.
    if state.erased:
        return "erased"
    return None if state.rules in {0, RULES} else f"rules {state.rules}"


def difference(state: RunState, event: object) -> Difference | None:
    """What the rules name in place of an event that is recorded next; None where they name it, or were not asked.

    Args:
        state: The run before the event.
        event: What is recorded next.
    """
    match = _INTENTS.get(type(event))
    if match is None or _is_outcome(event) or state.erased or state.rules not in {0, RULES}:
        return None
    named = decide(state)
    if any(match(step, event) for step in named):
        return None
    return Difference(state.version + 1, type(event).__name__, tuple(map(repr, named)), event, named, state)


def _is_outcome(event: object) -> bool:
    """Whether an event of a kind that is else an intent tells only what had been spent."""
    return isinstance(event, ev.HookApplied) and event.overtaken


def _requested(step: Step, event: ev.ModelRequested) -> bool:
    return isinstance(step, steps.RequestModel) and (step.index, step.attempt, step.closing) == (
        event.index,
        event.attempt,
        event.closing,
    )


def _planned(step: Step, event: ev.ActionPlanned) -> bool:
    return isinstance(step, steps.Plan) and step.action == event.action


def _asked(step: Step, event: ev.ApprovalRequested) -> bool:
    asked = (event.action, event.request, event.quorum, event.separation)
    return isinstance(step, steps.AskApproval) and asked == (step.action, step.request, step.quorum, step.separation)


def _started(step: Step, event: ev.ActionStarted) -> bool:
    return isinstance(step, steps.StartAction) and (step.action, step.attempt) == (event.action, event.attempt)


def _child_started(step: Step, event: ev.ChildStarted) -> bool:
    return isinstance(step, steps.StartAction) and step.action == event.action


def _child_cancelled(step: Step, event: ev.ChildCancelRequested) -> bool:
    return isinstance(step, steps.CancelChild) and (step.action, step.run) == (event.action, event.run)


def _doubted(step: Step, event: ev.ActionUnresolved) -> bool:
    # Another attempt was due, but the call does not fit its tool any more: what the last one did stays unknown.
    return isinstance(step, steps.Doubt | steps.StartAction) and step.action == event.action


def _denied(step: Step, event: ev.ActionDenied) -> bool:
    if event.policy == "permissions":
        return isinstance(step, steps.Deny) and (step.action, step.missing) == (event.action, event.missing)
    return isinstance(step, steps.Authorize) and step.action == event.action


def _heard(step: Step, event: ev.RunHeard) -> bool:
    return isinstance(step, steps.Hear) and step.through == event.through


def _child_paused(step: Step, event: ev.ChildPauseRequested) -> bool:
    return step == steps.PauseChild(event.action, event.run, event.paused)


def _fired(step: Step, event: ev.TimerFired) -> bool:
    return isinstance(step, steps.FireTimer) and (step.action, step.attempt) == (event.action, event.attempt)


def _passed(step: Step, event: ev.DeadlinePassed) -> bool:
    return isinstance(step, steps.PassDeadline) and step.not_before == event.deadline


def _hooked(step: Step, event: ev.HookApplied) -> bool:
    return isinstance(step, steps.RunHook) and (step.point, step.subject) == (event.point, event.subject)


def _failed(step: Step, event: ev.RunFailed) -> bool:
    return isinstance(step, steps.Fail) and step.kind == event.kind


def _accepted(step: Step, event: ev.OutputAccepted) -> bool:
    return isinstance(step, steps.CheckOutput) and step.index == event.index


def _rejected(step: Step, event: ev.OutputRejected) -> bool:
    wanted = steps.Reject if event.kind == "incomplete" else steps.CheckOutput
    return isinstance(step, wanted) and step.index == event.index


def _summary(step: Step, event: ev.SummaryRequested) -> bool:
    # Whether a history is too long is found out when its run is to start.
    if event.attempt == 1:
        return isinstance(step, steps.Start)
    return isinstance(step, steps.Summarise) and step.attempt == event.attempt


def _spends(step: Step, event: ev.BudgetRefused) -> bool:
    if isinstance(step, steps.Refuse):
        return (step.resource, step.action) == (event.resource, event.action)
    # What a request may come to, and what others in the tree have spent, is learnt when it is about to be made.
    if isinstance(step, steps.StartAction):
        return step.action == event.action
    return isinstance(step, steps.RequestModel) and event.action is None


def _warns(step: Step, event: ev.BudgetWarned) -> bool:
    if event.owner:
        # What others in the tree have spent is learnt when a request is about to be made.
        return isinstance(step, steps.RequestModel)
    return isinstance(step, steps.Warn) and step.resource == event.resource


_INTENTS: dict[type, Callable[..., bool]] = {
    ev.SummaryRequested: _summary,
    ev.RunStarted: lambda step, _: isinstance(step, steps.Start),
    ev.RunHeard: _heard,
    ev.DeadlinePassed: _passed,
    ev.TimerFired: _fired,
    ev.ChildPauseRequested: _child_paused,
    ev.ModelRequested: _requested,
    ev.ActionPlanned: _planned,
    ev.ApprovalRequested: _asked,
    ev.ActionDenied: _denied,
    ev.ActionAuthorized: lambda step, event: isinstance(step, steps.Authorize) and step.action == event.action,
    ev.ActionStarted: _started,
    ev.ChildStarted: _child_started,
    ev.ChildCancelRequested: _child_cancelled,
    ev.ActionUnresolved: _doubted,
    ev.OutputAccepted: _accepted,
    ev.OutputRejected: _rejected,
    ev.HookApplied: _hooked,
    ev.RunSucceeded: lambda step, event: isinstance(step, steps.Succeed) and step.source == event.source,
    ev.ToolsBound: lambda step, event: isinstance(step, steps.BindTools) and step.index == event.index,
    ev.BudgetRefused: _spends,
    ev.BudgetWarned: _warns,
    ev.RunFailed: _failed,
    ev.RunCancelled: lambda step, _: isinstance(step, steps.EndCancelled),
}
