"""What is recorded of old copies that were put in the journal's place, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.restore_events import JournalRestored, RestoreCarriedOut
from trouper.narration.line import RUNTIME, Line, because_text, deed
from trouper.narration.text import clean, count


def _restored(event: JournalRestored, limit: int | None) -> Line:
    what = f"it had {count(event.lost, 'record')} (root {clean(event.lost_root)}), and has {event.found:,}"
    text = f"accepts that the journal was put back to an older copy: {what}"
    return deed(event.by, f"{text}{because_text(event.reason, limit)}")


def _carried_out(event: RestoreCarriedOut, limit: int | None) -> Line:  # noqa: ARG001 -- as all sentences are called
    what = f"{count(event.actions, 'write')} of {count(event.runs, 'run')}"
    return Line(RUNTIME, f"the older copy is accepted: {what} under way in it may have ended since, and are unknown")


RESTORE_SENTENCES: Mapping[type, Callable[..., Line]] = {JournalRestored: _restored, RestoreCarriedOut: _carried_out}
