"""Sentences about requests to models and their replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trouper.core import events as ev
from trouper.narration.line import ERASED_TEXT, Line, because_text, said_text
from trouper.narration.text import clean, cut, value_text
from trouper.narration.when import when
from trouper_journal import Erased

_LOST = {
    "restart": "the process died",
    "shutdown": "the runtime stopped",
    "cancelled": "the run is cancelled",
    "deadline": "the run's deadline passed",
}


def _requested(event: ev.ModelRequested, _: int | None) -> Line:
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    closing = ", for the last time: no more tools" if event.closing else ""
    return Line("model", f"is asked (request {event.index}{again}{closing})", "dim")


def _responded(event: ev.ModelResponded, limit: int | None) -> Line:
    notes = [*_tokens(event), *(["cut off by its length limit"] if event.truncated else [])]
    told = f"  ({', '.join(notes)})" if notes else ""
    answer = ", ".join(_parts(event, limit)) or "answers nothing"
    return Line("model", f"{answer}{told}", "bad" if event.truncated else "model")


def _parts(event: ev.ModelResponded, limit: int | None) -> Iterator[str]:
    """What a reply consists of; where it was erased, nobody knows which of these it had."""
    if isinstance(event.text, Erased) or isinstance(event.calls, Erased) or isinstance(event.refusal, Erased):
        yield ERASED_TEXT
        return
    if event.text is not None:
        text = event.text
        yield f"says {said_text(text, limit) if isinstance(text, str) else value_text(text, limit)}"
    if event.calls:
        yield f"wants {', '.join(clean(f'{call.name}({cut(call.arguments, limit)})') for call in event.calls)}"
    if event.refusal is not None:
        yield f"refuses, saying {said_text(event.refusal, limit)}"


def _tokens(event: ev.ModelResponded) -> list[str]:
    told = [("in", event.input_tokens), ("out", event.output_tokens)]
    known_ones = [f"{number:,} {direction}" for direction, number in told if number is not None]
    return [f"tokens: {', '.join(known_ones)}"] if known_ones else []


def _failed(event: ev.ModelFailed, limit: int | None) -> Line:
    status = f" (HTTP {event.status})" if event.status else ""
    again = f"; tried again not before {when(event.retry_at)}" if event.retry_at else ""
    return Line("model", f"gives no answer{status}{because_text(event.message, limit)}{again}", "bad")


def _lost(event: ev.ModelLost, _: int | None) -> Line:
    cause = _LOST.get(event.reason, event.reason)
    text = f"request {event.index} is lost: {cause} before an answer came; it may have been billed"
    return Line("model", text, "doubt")


MODEL_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ev.ModelRequested: _requested,
    ev.ModelResponded: _responded,
    ev.ModelFailed: _failed,
    ev.ModelLost: _lost,
}
