"""How a tool's attempts follow each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from attrs import Attribute, field, frozen

from trouper.errors import DefinitionError
from trouper_journal import Plain

_LONGEST: Final = 86_400.0


def _count(_: object, __: Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DefinitionError(f"retry, attempts: {value!r} is not a whole number of at least 1")


def _number(least: float, most: float) -> Callable[[object, Attribute[float], float], None]:
    def check(_: object, attribute: Attribute[float], value: object) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise DefinitionError(f"retry, {attribute.name}: {value!r} is not a number from {least:g} to {most:g}")

    return check


def _kinds(value: object) -> tuple[type[Exception], ...]:
    given = (value,) if isinstance(value, type) or not isinstance(value, Iterable) else tuple(value)
    for kind in given:
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise DefinitionError(f"retry, on: {kind!r} is not a class of exceptions")
    return given


@frozen(slots=False, repr=False, eq=False)
class Retry(Plain):
    """How often a call is tried, how long is waited between attempts, and after which errors.

    The waits are journaled as moments, so that a restart keeps to them. A `TransientError` is always worth another
    attempt, in every effect class: it says that nothing was done. After an error of ``on`` nobody knows whether the
    call took effect, so that the effect class has its say: a ``read_only`` and an ``idempotent_write`` are tried
    again, a ``queryable_write`` asks its query first, and an ``unqueryable_write`` may not have any.

    Attributes:
        attempts: How often a call may be tried in all.
        initial: Seconds before the second attempt; each wait is shortened at random by up to half.
        factor: By how much each wait is longer than the one before it.
        max: Seconds that no wait exceeds.
        on: Errors of the tool's that are worth another attempt, beside `TransientError`.

    Raises:
        DefinitionError: A value that cannot be meant.
    """

    attempts: int = field(default=3, validator=_count)
    initial: float = field(default=0.5, validator=_number(0, _LONGEST))
    factor: float = field(default=2.0, validator=_number(1, 1000))
    max: float = field(default=60.0, validator=_number(0, _LONGEST))
    on: tuple[type[Exception], ...] = field(default=(), converter=_kinds, kw_only=True)

    def wait(self, attempt: int, jitter: float) -> float:
        """Seconds between an attempt and the next.

        Args:
            attempt: Number of the attempt that failed, from 1.
            jitter: A random number in [0, 1).
        """
        steps = min(attempt - 1, 64)
        longest = min(self.initial * math.pow(self.factor, steps), self.max)
        return longest * (0.5 + jitter / 2)
