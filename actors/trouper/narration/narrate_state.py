"""Sentences about a run's named state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.events import StateChanged, StateOp, StateRefused
from trouper.narration.line import ERASED_TEXT, RUNTIME, Line, because_text
from trouper.narration.text import clean, value_text
from trouper_journal import Erased

_SOURCES = {"action": "call", "hook": "hook", "child": "sub-agent"}


def _changed(event: StateChanged, limit: int | None) -> Line:
    what = ERASED_TEXT if isinstance(event.ops, Erased) else ", ".join(_op(op, limit) for op in event.ops)
    return Line(RUNTIME, f"state: {what} (by {_SOURCES[event.source]} {clean(event.name)})")


def _op(op: StateOp, limit: int | None) -> str:
    sign = {"set": "=", "append": "+=", "merge": "|="}[op.op]
    return f"{clean(op.key)} {sign} {value_text(op.value, limit)}"


def _refused(event: StateRefused, limit: int | None) -> Line:
    return Line(RUNTIME, f"the state that was submitted does not fit{because_text(event.message, limit)}", "bad")


STATE_SENTENCES: Mapping[type, Callable[..., Line]] = {StateChanged: _changed, StateRefused: _refused}
