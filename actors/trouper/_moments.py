"""Moments as people and programs write them: in, as nanoseconds since the Unix epoch; out, as ISO 8601 in UTC."""

from __future__ import annotations

import datetime as dt
from typing import Final

from trouper.errors import InvalidValue

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LATEST: Final = 2**63 - 1


def nanoseconds(moment: dt.datetime | int, name: str) -> int:
    """A moment in nanoseconds since the Unix epoch, UTC.

    Args:
        moment: A datetime that knows its time zone, or nanoseconds already.
        name: What it is called where it comes from, for the error.

    Raises:
        InvalidValue: It is neither, has no time zone, or is not between 1970 and 2262.
    """
    given: object = moment
    if isinstance(given, dt.datetime):
        if given.utcoffset() is None:
            raise InvalidValue(name, f"{given.isoformat()} has no time zone: say which, such as datetime.UTC")
        count = (given - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    elif isinstance(given, int) and not isinstance(given, bool):
        count = given
    else:
        raise InvalidValue(name, f"{type(given).__name__} is neither a datetime nor a number of nanoseconds")
    if not 0 <= count <= _LATEST:
        raise InvalidValue(name, f"{given} is not a moment between 1970 and 2262")
    return count


def iso(moment: int) -> str:
    """A moment in ISO 8601, UTC, to the second."""
    return (_EPOCH + dt.timedelta(seconds=moment // 1_000_000_000)).isoformat().replace("+00:00", "Z")
