"""Moments for people: in the zone of whoever reads, or in UTC, and always saying in which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

SECOND: Final = 1_000_000_000

_LOCAL: ContextVar[bool] = ContextVar("local", default=False)


@contextmanager
def local_times() -> Iterator[None]:
    """Tell moments in this machine's zone while the block is open, as an interactive program does; else in UTC."""
    token = _LOCAL.set(True)
    try:
        yield
    finally:
        _LOCAL.reset(token)


def when(nanoseconds: int, *, digits: int = 6) -> str:
    """A moment in ISO 8601, with its zone: ``Z``, or the distance from UTC.

    Args:
        nanoseconds: Since 1970 in UTC.
        digits: Of the fraction of a second: 6, 3 or 0.
    """
    try:
        found = _there(nanoseconds)
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds // SECOND:,} s after 1970"  # beyond all calendars, as somebody may have made up
    zone = f"{found:%z}"
    ending = "Z" if zone == "+0000" else f"{zone[:3]}:{zone[3:5]}"
    return f"{found:%Y-%m-%dT%H:%M:%S}{_fraction(nanoseconds, digits)}{ending}"


def _there(nanoseconds: int) -> datetime:
    found = datetime.fromtimestamp(nanoseconds // SECOND, UTC)
    return found.astimezone() if _LOCAL.get() else found


def _fraction(nanoseconds: int, digits: int) -> str:
    return "" if not digits else f".{nanoseconds % SECOND // 10 ** (9 - digits):0{digits}}"
