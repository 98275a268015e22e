"""How a run is indexed: its label, and when its driver must look at it next."""

from __future__ import annotations

from attrs import frozen

from trouper.core.decide import decide
from trouper.core.decide_budget import stalled
from trouper.core.decide_children import waits_for_child
from trouper.core.decide_session import abandon_summary
from trouper.core.state import Phase, RunState
from trouper.core.steps import Step, due
from trouper_journal import Plain

RUNNING = "running"
AWAITING = "awaiting_approval"
IN_DOUBT = "in_doubt"
DRIFTED = "drifted"
RETRYING = "retrying"
OVER_BUDGET = "over_budget"
PAUSED = "paused"
SCHEDULED = "scheduled"
SLEEPING = "sleeping"
WAITING_FOR_CHILD = "waiting_for_child"
QUEUED = "queued"
ENDED_IN_DOUBT = "-in-doubt"

AT_ONCE = 0
"""The alarm of a run that is under way: due whenever nobody has it in memory, so that a restart finds it."""


AT_START = 1
"""The alarm of a run whose agent's definition changed: looked at again whenever a runtime starts, not before."""

MARKS = frozenset({AT_ONCE, AT_START})
"""Alarms that name no moment."""


@frozen(repr=False, eq=False)
class Status(Plain):
    """Label and alarm of a run's stream.

    Attributes:
        label: What people must do about it first, if anything: ``drifted``, ``paused``, ``in_doubt``,
            ``awaiting_approval``, ``over_budget``; else ``running``, ``retrying``, ``scheduled``, ``sleeping``,
            ``waiting_for_child``, or ``queued`` behind other turns of its session; or how it ended. A run that ended
            with calls in doubt says so behind that: ``cancelled-in-doubt``.
        wake_at: When it has something to do next (ns UTC), `AT_ONCE` while it is under way, `AT_START` where it waits
            for another definition, or None.
    """

    label: str
    wake_at: int | None = None


def status(state: RunState, steps: tuple[Step, ...] | None = None) -> Status:
    """Status of a run, from its state alone.

    Args:
        state: The run.
        steps: What `decide` says of it, where that is known.
    """
    if state.ended:
        return Status(state.phase.value + (ENDED_IN_DOUBT if state.in_doubt else ""))
    if state.drift is not None and not state.stopping:
        return Status(DRIFTED, AT_ONCE if under_way(state) else AT_START)
    if under_way(state):
        return Status(_label(state, RUNNING), AT_ONCE)
    if state.turn is not None and not state.turn.given and not state.stopping and state.control.pause is None:
        return Status(QUEUED, state.control.deadline)
    moments = [due(step) for step in (decide(state) if steps is None else steps)]
    if None in moments:
        return Status(_label(state, RUNNING), AT_ONCE)
    alarm = min([moment for moment in moments if moment is not None], default=None)
    waits = RETRYING if state.started or state.control.start_at is None else SCHEDULED
    if stalled(state):
        waits = OVER_BUDGET
    # That its time may be up some day is nothing that a run waits for.
    if alarm in {None, state.control.deadline, state.budget.deadline} and any(map(waits_for_child, state.batch)):
        waits = WAITING_FOR_CHILD
    if any(action.phase is Phase.SLEEPING for action in state.batch):
        waits = SLEEPING
    return Status(_label(state, waits), alarm)


def next_alarm(state: RunState, steps: tuple[Step, ...] | None = None) -> int | None:
    """The earliest moment at which a step becomes due that is not due at once (ns UTC), or None.

    Args:
        state: The run.
        steps: What `decide` says of it, where that is known.
    """
    moments = [due(step) for step in (decide(state) if steps is None else steps)]
    return min([moment for moment in moments if moment is not None], default=None)


def under_way(state: RunState) -> bool:
    """Whether a request or an attempt is out; a sub-agent is not: it goes on in a stream of its own."""
    if state.model is not None and state.model.phase == "requested":
        return True
    if abandon_summary(state.turn) is not None:
        return True
    return any(action.phase is Phase.STARTED and action.child is None for action in state.batch)


def _label(state: RunState, otherwise: str) -> str:
    if state.stopping:
        return RUNNING
    if state.control.pause is not None:
        return PAUSED
    if state.in_doubt:
        return IN_DOUBT
    return AWAITING if state.awaiting else otherwise
