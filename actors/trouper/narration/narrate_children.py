"""Sentences about a run's sub-agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.events import ChildCancelRequested, ChildFinished, ChildStarted
from trouper.narration.line import RUNTIME, Line
from trouper.narration.text import clean, name_text


def _started(event: ChildStarted, _: int | None) -> Line:
    return Line(name_text(event.agent), f"{event.action} begins run {clean(event.run)}")


def _cancel_requested(event: ChildCancelRequested, _: int | None) -> Line:
    return Line(RUNTIME, f"{event.action}: the cancellation is passed on to run {clean(event.run)}", "dim")


def _finished(event: ChildFinished, _: int | None) -> Line:
    why = {"step_limit": ", at its limit of steps", "truncated": ", cut off", None: ""}.get(event.kind, "")
    style = "dim" if event.status == "succeeded" else "bad"
    return Line(RUNTIME, f"{event.action}: run {clean(event.run)} has ended: {event.status}{why}", style)


CHILD_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ChildStarted: _started,
    ChildCancelRequested: _cancel_requested,
    ChildFinished: _finished,
}
