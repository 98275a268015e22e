"""What is recorded of archives, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.archive_events import ArchiveMade
from trouper.core.state import known
from trouper.narration.line import Line, reason_text
from trouper.narration.text import claim, clean, count, who


def _made(event: ArchiveMade, limit: int | None) -> Line:
    by = known(event.by, None)
    what = f"{count(event.records, 'record')} of {count(event.streams, 'stream')}"
    text = f"archives {what} to {clean(event.file)} (root {event.root} over {count(event.size, 'record')})"
    return Line(who(by), f"{text}{reason_text(event.reason, limit)}  {claim(by)}", "person")


ARCHIVE_SENTENCES: Mapping[type, Callable[..., Line]] = {ArchiveMade: _made}
