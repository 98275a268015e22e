"""What is recorded of archives, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.archive_events import ArchiveMade
from trouper.narration.line import Line, deed, reason_text
from trouper.narration.text import clean, count


def _made(event: ArchiveMade, limit: int | None) -> Line:
    what = f"{count(event.records, 'record')} of {count(event.streams, 'stream')}"
    text = f"archives {what} to {clean(event.file)} (root {event.root} over {count(event.size, 'record')})"
    return deed(event.by, f"{text}{reason_text(event.reason, limit)}")


ARCHIVE_SENTENCES: Mapping[type, Callable[..., Line]] = {ArchiveMade: _made}
