"""What is found out about calls and tools outside of the rules, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core import events as ev
from trouper.narration.line import RUNTIME, Line, because_text, reason_text
from trouper.narration.text import clean
from trouper_journal import Erased

_POLICIES = {
    "permissions": "the tool's permissions",
    "runtime": "the runtime's authorize callback",
    "tool": "the tool's authorize callback",
}


def beside(event: ev.ActionReceipted) -> str:
    """What a result comes to beside what the model is told of it."""
    cut = f", {event.cut:,} characters of it not shown to the model" if event.cut else ""
    kept = event.artifact is not None and not isinstance(event.artifact, Erased)
    return cut + (", and keeps an artifact" if kept else "")


def _authorized(event: ev.ActionAuthorized, _: int | None) -> Line:
    return Line(RUNTIME, f"was let run {clean(event.action)} by the authorize callback", "dim")


def _denied(event: ev.ActionDenied, limit: int | None) -> Line:
    lacks = f", for want of {clean(', '.join(event.missing))}" if event.missing else ""
    said = f"is denied {clean(event.action)} by {_POLICIES[event.policy]}{lacks}"
    return Line(RUNTIME, f"{said}{reason_text(event.reason, limit)}", "bad")


def _bound(event: ev.ToolsBound, limit: int | None) -> Line:
    if event.failed:
        why = because_text(event.error, limit)
        return Line(RUNTIME, f"could not choose the tools of request {event.index + 1}{why}", "bad")
    return Line(RUNTIME, f"offers the tools {clean(', '.join(event.tools)) or 'none'}", "dim")


TOOL_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ev.ActionAuthorized: _authorized,
    ev.ActionDenied: _denied,
    ev.ToolsBound: _bound,
}
