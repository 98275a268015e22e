"""Counters of a journal at one moment: for tests, which wait on them, and for metrics."""

from __future__ import annotations

import attrs

from trouper_journal._printable import Plain


@attrs.frozen(slots=False, repr=False, eq=False)
class WriterStatistics(Plain):
    """What group commit has done since the journal was opened here, and what waits.

    Attributes:
        waiting: Commits that wait to be taken up.
        batches: Transactions written.
        commits: Commits written.
        refused: Commits refused: conflicts and stale fences.
        repetitions: Transactions planned anew because another process had written in between.
    """

    waiting: int
    batches: int
    commits: int
    refused: int
    repetitions: int


@attrs.frozen(slots=False, repr=False, eq=False)
class JournalStatistics(Plain):
    """A journal at one moment.

    Attributes:
        writer: Group commit.
        position: The last position heard of here; 0 before anything was written or waited for.
        listeners: Tasks that wait in a tail, or for news.
    """

    writer: WriterStatistics
    position: int
    listeners: int
