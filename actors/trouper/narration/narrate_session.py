"""What happens in sessions, and to a run because it is a turn of one, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core import events as ev
from trouper.narration.line import RUNTIME, Line, because_text, deed, reason_text, said_text
from trouper.narration.text import clean, count
from trouper_journal import Erased


def _opened(event: ev.SessionOpened, _: int | None) -> Line:
    return deed(event.by, f"opens a session with {clean(event.standing.agent)}")


def _queued(event: ev.TurnQueued, _: int | None) -> Line:
    place = "is under way" if event.standing.active == event.run else "waits for its turn"
    return Line(RUNTIME, f"turn {event.turn} {place}: run {clean(event.run)}")


def _ended(event: ev.TurnEnded, _: int | None) -> Line:
    then = f"; {clean(event.standing.active)} has the turn" if event.standing.active else ""
    style = "ok" if event.how == "succeeded" else "bad"
    return Line(RUNTIME, f"turn {event.turn} {event.how}: run {clean(event.run)}{then}", style)


def _withdrawn(event: ev.TurnWithdrawn, _: int | None) -> Line:
    return Line(RUNTIME, f"turn {event.turn} is withdrawn: run {clean(event.run)} was cancelled before it", "bad")


def _reopened(event: ev.TurnReopened, _: int | None) -> Line:
    return Line(RUNTIME, f"turn {event.turn} goes on: run {clean(event.run)}")


def _session_compacted(event: ev.SessionCompacted, _: int | None) -> Line:
    instead = "a summary stands in their place" if event.summarised else "nothing stands in their place"
    text = f"from run {clean(event.run)} on {count(event.count, 'message')} are not handed on; {instead}"
    return Line(RUNTIME, text, "dim")


def _given(event: ev.TurnGiven, _: int | None) -> Line:
    after = "at the beginning of its session" if event.after is None else f"behind run {clean(event.after.run)}"
    return Line(RUNTIME, f"the run has its turn, {after}", "dim")


def _withdrawn_call(event: ev.ApprovalWithdrawn, limit: int | None) -> Line:
    return deed(event.by, f"withdraws {event.action}{reason_text(event.reason, limit)}")


def _summary_requested(event: ev.SummaryRequested, _: int | None) -> Line:
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return Line("model", f"is asked for a summary of {count(event.count, 'message')}{again}", "dim")


def _summary_failed(event: ev.SummaryFailed, limit: int | None) -> Line:
    if event.reason == "error":
        return Line("model", f"gives no summary{because_text(event.message, limit)}", "bad")
    why = {"restart": "the process died", "shutdown": "the runtime stopped", "cancelled": "the run is cancelled"}
    return Line("model", f"the summary is lost: {why[event.reason]} before it came; it may have been billed", "doubt")


def _compacted(event: ev.ContextCompacted, limit: int | None) -> Line:
    text = f"{count(event.count, 'message')} of the conversation are not handed on"
    # An attempt brought it, or there is none.
    if event.attempt if isinstance(event.summary, Erased) else event.summary is not None:
        return Line("model", f"{text}, but this summary is: {said_text(event.summary, limit)}", "model")
    told = event.reason is not None and not isinstance(event.reason, Erased)
    why = f"; there is no summary{reason_text(event.reason, limit)}" if told else ""
    return Line(RUNTIME, f"{text}{why}", "dim")


SESSION_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ev.SessionOpened: _opened,
    ev.TurnQueued: _queued,
    ev.TurnEnded: _ended,
    ev.TurnWithdrawn: _withdrawn,
    ev.TurnReopened: _reopened,
    ev.SessionCompacted: _session_compacted,
    ev.TurnGiven: _given,
    ev.ApprovalWithdrawn: _withdrawn_call,
    ev.SummaryRequested: _summary_requested,
    ev.SummaryFailed: _summary_failed,
    ev.ContextCompacted: _compacted,
}
