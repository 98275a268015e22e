"""Exporting records as JSON Lines: one record a line, in the order of positions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from trouper.audit.lines import PLAINLY, LineOptions, checked_line
from trouper.audit.subjects import Subject, all_records
from trouper_journal import Damaged, Journal


async def export_jsonl(
    journal: Journal,
    write: Callable[[str], object],
    subject: Subject | None = None,
    *,
    after: int = 0,
    options: LineOptions = PLAINLY,
    progress: Callable[[int, int], None] | None = None,
    damaged: Callable[[Damaged], None] = lambda _: None,
) -> int:
    """Write records as JSON Lines. Memory does not grow with their number. Cancelling leaves the lines written so far.

    Args:
        journal: The journal; it needs no registry of events.
        write: Called with each line, which has no end of line.
        subject: The run or session; None for the whole journal.
        after: Only records with positions above this one.
        options: How records are written.
        progress: Called now and then with the position reached and the last position.
        damaged: Called with each damaged place, where the options say to keep going.

    Returns:
        How many lines were written.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
        JournalCorrupt: A record is missing or damaged, and the options do not say to keep going; names its position.
        StorageBusy, JournalBroken: The storage cannot be read.
    """
    end = await journal.position()
    written = 0
    checked = journal.past_damage(damaged if options.keep_going else None)
    async with aclosing(all_records(checked, subject, after)) as records:
        async for record in records:
            # The number of a damaged record may be any.
            if record.position > end and not isinstance(record, Damaged):
                break
            write(checked_line(journal.id, record, options))
            written += 1
            if progress is not None and written % 256 == 0:
                progress(record.position, end)
    return written
