"""What people ask of a run beside its task, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core import events as ev
from trouper.narration.line import RUNTIME, Line, asked_text, because_text, deed, reason_text
from trouper.narration.text import clean
from trouper.narration.when import when


def _signalled(event: ev.RunSignalled, limit: int | None) -> Line:
    return deed(event.by, f"says {asked_text(event.messages, limit)}")


def _heard(event: ev.RunHeard, _: int | None) -> Line:
    return Line(RUNTIME, f"what was said up to event {event.through} is part of the conversation", "dim")


def _pause_requested(event: ev.PauseRequested, limit: int | None) -> Line:
    return deed(event.by, f"pauses the run{reason_text(event.reason, limit)}")


def _deadline_passed(event: ev.DeadlinePassed, _: int | None) -> Line:
    return Line(RUNTIME, f"the deadline has passed ({when(event.deadline)}): the run is brought to its end", "bad")


def _deadline_extended(event: ev.DeadlineExtended, limit: int | None) -> Line:
    until = "without a deadline" if event.deadline is None else f"until {when(event.deadline)}"
    return deed(event.by, f"lets the run take its time {until}{reason_text(event.reason, limit)}")


def _timer_set(event: ev.TimerSet, limit: int | None) -> Line:
    return Line(RUNTIME, f"{event.action} sleeps until {when(event.until)}{reason_text(event.text, limit)}", "dim")


def _timer_fired(event: ev.TimerFired, limit: int | None) -> Line:
    return Line(RUNTIME, f"{event.action} wakes{because_text(event.text, limit)}")


def _child_pause_requested(event: ev.ChildPauseRequested, _: int | None) -> Line:
    what = "the pause is passed on" if event.paused else "the end of the pause is passed on"
    return Line(RUNTIME, f"{event.action}: {what} to run {clean(event.run)}", "dim")


CONTROL_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ev.RunSignalled: _signalled,
    ev.RunHeard: _heard,
    ev.PauseRequested: _pause_requested,
    ev.ChildPauseRequested: _child_pause_requested,
    ev.TimerSet: _timer_set,
    ev.TimerFired: _timer_fired,
    ev.DeadlinePassed: _deadline_passed,
    ev.DeadlineExtended: _deadline_extended,
}
