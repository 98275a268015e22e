"""How a run is indexed: its label, and when its driver must look at it next."""

from __future__ import annotations

from attrs import frozen

from trouper.core.decide import decide, due
from trouper.core.state import RunPhase, RunState

RUNNING = "running"
AWAITING = "awaiting_approval"
IN_DOUBT = "in_doubt"
DRIFTED = "drifted"
RETRYING = "retrying"
ENDED_IN_DOUBT = "-in-doubt"


@frozen
class Status:
    """Label and alarm of a run's stream.

    Attributes:
        label: ``running`` for a run that has something to do at once or under way; what it waits for otherwise;
            how it ended. A run that ended with calls in doubt says so behind that: ``cancelled-in-doubt``.
        wake_at: When it has something to do next (ns UTC), or None.
    """

    label: str
    wake_at: int | None = None


def status(state: RunState) -> Status:
    """Status of a run, from its state alone."""
    if state.ended:
        return Status(state.phase.value + (ENDED_IN_DOUBT if state.in_doubt else ""))
    if state.phase is RunPhase.SUBMITTED and state.drift is None:
        return Status(RUNNING)
    moments = [due(step) for step in decide(state)]
    if None in moments or under_way(state):
        return Status(RUNNING)
    return Status(_waits_for(state), min((moment for moment in moments if moment is not None), default=None))


def under_way(state: RunState) -> bool:
    """Whether a request or an attempt is out."""
    if state.model is not None and state.model.phase == "requested":
        return True
    return any(action.phase.value == "started" for action in state.batch)


def _waits_for(state: RunState) -> str:
    if state.drift is not None:
        return DRIFTED
    if state.in_doubt:
        return IN_DOUBT
    if state.awaiting:
        return AWAITING
    return RETRYING
