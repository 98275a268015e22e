"""What people ask of a run beside its task, as the run's state holds it: messages, a pause, a start, a deadline."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from trouper.core.conversation import Message
from trouper.core.terms import Principal
from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class Signal(Plain):
    """Messages that somebody sent to a run under way, until it hears them.

    Attributes:
        version: Version of the event that brought them.
        messages: With ids of their own.
        by: Who sent them.
    """

    version: int
    messages: tuple[Message, ...]
    by: Principal | None


@frozen(slots=False, repr=False, eq=False)
class Pause(Plain):
    """Who wanted the run to begin nothing more for now, and why."""

    by: Principal | None
    reason: str | None


@frozen(slots=False, repr=False, eq=False)
class Control(Plain):
    """What was asked of a run beside its task.

    Attributes:
        inbox: What was sent to it and is not part of its conversation yet, in order.
        pause: Who paused it; None while it may go on.
        start_at: Before this moment it does not start (ns UTC); None for at once.
        deadline: At this moment it ends, unless it has ended before (ns UTC); None for never.
        overdue: The deadline has passed: the run is being brought to its end.
    """

    inbox: tuple[Signal, ...] = ()
    pause: Pause | None = None
    start_at: int | None = None
    deadline: int | None = None
    overdue: bool = False


NO_CONTROL: Final = Control()
"""Of a run of which nobody asked any of it."""


@frozen(slots=False, repr=False, eq=False)
class Sleep(Plain):
    """A call that waits for a moment.

    Attributes:
        until: The moment (ns UTC).
        text: What the model is to be told then, beside the time.
        told: What the model is told, once the moment has come; None before.
    """

    until: int
    text: str = ""
    told: str | None = None
