"""Tools with which a model waits: the run sleeps in the journal meanwhile, for days if need be."""

from __future__ import annotations

import datetime as dt
from typing import Final

from trouper.errors import InvalidValue, ToolError
from trouper.tools import Timer, tool

LONGEST: Final = 366 * 86_400
"""How many seconds a model can wait at most with one call: a year."""


@tool(effect="read_only")
async def wait(seconds: float) -> Timer:
    """Wait, and then go on. Use it when nothing can be done before some time has passed.

    Args:
        seconds: How long to wait, in seconds.
    """
    if not 0 <= seconds <= LONGEST:
        raise ToolError(f"wait between 0 and {LONGEST} seconds, not {seconds}")
    return Timer(seconds=seconds)


@tool(effect="read_only")
async def wait_until(time: str) -> Timer:
    """Wait until a moment, and then go on; a moment that has passed is answered at once.

    Args:
        time: The moment in ISO 8601 with its time zone, such as 2026-03-01T08:30:00Z or 2026-03-01T08:30:00+01:00.
    """
    try:
        return Timer(until=dt.datetime.fromisoformat(time))
    except (ValueError, InvalidValue):
        raise ToolError(f"{time!r} is not a moment in ISO 8601 with its time zone") from None
