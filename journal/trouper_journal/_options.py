"""Settings of a journal that a caller may want to change."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from trouper_journal._printable import Plain

MAX_BUSY: Final = 1_000_000.0
"""Longest wait for a lock in seconds: SQLite counts milliseconds in 32 bits, and does not wait beyond them."""


@attrs.frozen(slots=False, kw_only=True, repr=False, eq=False)
class JournalOptions(Plain):
    """How a journal is kept. The defaults are the safe ones.

    Attributes:
        durability: ``full``: what returned is on disk, also after a power failure. ``normal``: a power failure may
            take the last commits away (never a part of one), a killed process takes nothing; commits are faster.
        busy_timeout: Seconds to wait for a lock that another process holds, before ``StorageBusy``.
        max_batch: Most events that share one transaction; a single commit may have more.
        max_waiting: Most commits that wait for the writer; further callers wait before that.
        poll_interval: Nanoseconds between two looks for commits of other processes, while somebody waits for news.
        close_timeout: Seconds that leaving the journal may take before a storage call that hangs is given up.
    """

    durability: Literal["full", "normal"] = attrs.field(
        default="full", validator=attrs.validators.in_(("full", "normal"))
    )
    busy_timeout: float = attrs.field(default=10.0, validator=[attrs.validators.ge(0), attrs.validators.le(MAX_BUSY)])
    max_batch: int = attrs.field(default=500, validator=attrs.validators.ge(1))
    max_waiting: int = attrs.field(default=1000, validator=attrs.validators.ge(1))
    poll_interval: int = attrs.field(default=10_000_000, validator=attrs.validators.ge(1))
    close_timeout: float = attrs.field(default=30.0, validator=attrs.validators.ge(0))
