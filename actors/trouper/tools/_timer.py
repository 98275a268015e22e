"""A tool's word that its call goes on later: at a moment, and without anything in memory until then."""

from __future__ import annotations

import datetime as dt
import math
from typing import Final

from attrs import Attribute, field, frozen

from trouper._moments import nanoseconds
from trouper.errors import InvalidValue

from ._results import Alone

_SECOND: Final = 1_000_000_000
_LATEST: Final = 2**63 - 1


def _until(moment: dt.datetime | int | None) -> int | None:
    return None if moment is None else nanoseconds(moment, "Timer.until")


def _check_text(_: object, __: Attribute[str], text: object) -> None:
    if not isinstance(text, str):
        raise InvalidValue("Timer.text", f"{type(text).__name__} is not text")


def _check_seconds(_: object, __: Attribute[float | None], seconds: object) -> None:
    if seconds is None:
        return
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not math.isfinite(seconds) or seconds < 0:
        raise InvalidValue("Timer.seconds", f"{seconds!r} is not a number of seconds of at least 0")


@frozen(slots=False, kw_only=True)
class Timer(Alone):
    """What a tool returns to have its call answered later.

    The call then sleeps in the journal, and its run with it where nothing else is to be done: neither is in memory,
    over restarts, for any time. At its moment, by the wall clock, the model is told ``text`` and what time it is then.
    It fires once. A cancelled run, or one past its deadline, sleeps no more; a paused one is not woken before it is
    resumed.

    Attributes:
        seconds: How long from now, from the moment that the tool's return is recorded.
        until: Or until when: a datetime with its time zone, or ns UTC. One that has passed is answered at once.
        text: What the model is told then, beside the time.

    Raises:
        InvalidValue: Not exactly one of ``seconds`` and ``until`` is given, or it cannot be meant.
    """

    seconds: float | None = field(default=None, validator=_check_seconds)
    until: int | None = field(default=None, converter=_until)
    text: str = field(default="", validator=_check_text)

    def __attrs_post_init__(self) -> None:
        if (self.seconds is None) == (self.until is None):
            raise InvalidValue("Timer", "give seconds, or until; not both, nor neither")

    def moment(self, now: int) -> int:
        """When it goes off (ns UTC), if it is set now."""
        if self.until is not None:
            return self.until
        return min(now + round((self.seconds or 0) * _SECOND), _LATEST)
