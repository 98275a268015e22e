"""What is said to a run under way, and when it starts, sleeps and ends: steering, pauses, timers, deadlines."""

from __future__ import annotations

from attrs import frozen

from trouper.core.conversation import Message
from trouper.core.terms import Principal
from trouper_journal import Content, Plain, event


@event("run.signalled", schema=1)
@frozen(slots=False, repr=False, eq=False)
class RunSignalled(Plain):
    """Somebody sent messages to a run under way; it hears them before it next asks its model."""

    messages: Content[tuple[Message, ...]] = ()
    by: Content[Principal | None] = None


@event("run.heard", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class RunHeard(Plain):
    """What had been sent to the run became part of its conversation, in this place.

    Attributes:
        through: Version of the last `RunSignalled` that it heard; all before it that were not heard yet come with it.
    """

    through: int


@event("run.pause_requested", schema=1)
@frozen(slots=False, repr=False, eq=False)
class PauseRequested(Plain):
    """Somebody wants the run to begin nothing more until it is resumed.

    Attributes:
        below: The runs that its calls began whose own such event stands in the same commit.
    """

    by: Content[Principal | None] = None
    reason: Content[str | None] = None
    below: tuple[str, ...] = ()


@event("deadline.passed", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class DeadlinePassed(Plain):
    """The run's deadline came before its end: what is under way is brought to a known end, then the run fails."""

    deadline: int


@event("deadline.extended", schema=1)
@frozen(slots=False, repr=False, eq=False)
class DeadlineExtended(Plain):
    """The run may take longer; one that had failed at its deadline goes on.

    Attributes:
        deadline: The new deadline (ns UTC); None for none at all.
    """

    deadline: int | None = None
    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("timer.set", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class TimerSet(Plain):
    """A tool has returned, and its call is to be answered later.

    Attributes:
        until: When (ns UTC).
        text: What the model is told then, beside the time.
    """

    action: str
    attempt: int
    until: int
    text: Content[str] = ""


@event("timer.fired", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class TimerFired(Plain):
    """A call's moment has come.

    Attributes:
        text: What the model is told.
    """

    action: str
    attempt: int
    text: Content[str] = ""


@event("child.pause_requested", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ChildPauseRequested(Plain):
    """The run's pause, or its end, was passed on; the child's own event of that stands in the same commit.

    Attributes:
        action: The call that began the child.
        run: The child's id.
        paused: Whether the child is to pause; False: it is to go on.
    """

    action: str
    run: str
    paused: bool = True
