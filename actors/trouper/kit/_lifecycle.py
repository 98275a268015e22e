r"""The life cycle of an actor, as data.

An actor is always in exactly one ``State``. What happens to it is an ``Incident``. ``TRANSITIONS`` holds every legal
move; ``step`` looks one up. A move that is not in the table is a bug of the kit, never of the user: ``step`` raises and
changes nothing. There is no I/O here, and nothing but the table decides.

    starting ----STARTED----> running -----FAILED----> restarting ---RESTARTED---> starting
        |  \                     |  \                      |
        |   `---FAILED---.       |   `---STOP---.          | STOP
        | STOP            v      |               v         v
        `------------> (restarting)          stopping <----'
                                                | ENDED -> stopped
                                                | GAVE_UP -> failed

From every living state GAVE_UP leads to ``failed`` (the policy said stop or escalate) and CANCELLED to ``stopped``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class State(enum.Enum):
    """Where an actor is in its life.

    Attributes:
        STARTING: Its instance is being made, or its ``started`` hook runs. Messages queue.
        RUNNING: It handles messages, or waits for one.
        RESTARTING: It failed and waits for its back-off to pass. Messages queue.
        STOPPING: Its mailbox is closed; what was accepted is handled, then its children and it stop.
        STOPPED: It ended in order, or was cancelled.
        FAILED: It failed and its supervision did not restart it.
    """

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def alive(self) -> bool:
        """Whether the actor still has a task."""
        return self is not State.STOPPED and self is not State.FAILED


class Incident(enum.Enum):
    """What can happen to an actor."""

    STARTED = "its started hook returned"
    FAILED = "it raised and will be restarted"
    RESTARTED = "its back-off passed"
    STOP = "somebody asked it to stop"
    ENDED = "it finished stopping"
    GAVE_UP = "it raised and will not be restarted"
    CANCELLED = "its task was cancelled"


class IllegalMove(Exception):
    """An incident that cannot happen in this state; the state is unchanged."""

    def __init__(self, state: State, incident: Incident) -> None:
        super().__init__(f"an actor that is {state.value} cannot take {incident.name} ({incident.value})")
        self.state = state
        self.incident = incident


TRANSITIONS: Final[Mapping[State, Mapping[Incident, State]]] = MappingProxyType(
    {
        State.STARTING: {
            Incident.STARTED: State.RUNNING,
            Incident.FAILED: State.RESTARTING,
            Incident.STOP: State.STOPPING,
            Incident.GAVE_UP: State.FAILED,
            Incident.CANCELLED: State.STOPPED,
        },
        State.RUNNING: {
            Incident.FAILED: State.RESTARTING,
            Incident.STOP: State.STOPPING,
            Incident.GAVE_UP: State.FAILED,
            Incident.CANCELLED: State.STOPPED,
        },
        State.RESTARTING: {
            Incident.RESTARTED: State.STARTING,
            Incident.STOP: State.STOPPING,
            Incident.CANCELLED: State.STOPPED,
        },
        State.STOPPING: {
            # Stop was asked for while the started hook ran, or is asked for twice: it goes on stopping.
            Incident.STARTED: State.STOPPING,
            Incident.STOP: State.STOPPING,
            Incident.ENDED: State.STOPPED,
            Incident.GAVE_UP: State.FAILED,
            Incident.CANCELLED: State.STOPPED,
        },
        State.STOPPED: {},
        State.FAILED: {},
    }
)


def step(state: State, incident: Incident) -> State:
    """The state after ``incident``.

    Raises:
        IllegalMove: The table has no such move.
    """
    try:
        return TRANSITIONS[state][incident]
    except KeyError:
        raise IllegalMove(state, incident) from None
