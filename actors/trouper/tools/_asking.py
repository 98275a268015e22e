"""Asking a callback of the host's: whatever it does comes back as an answer, or as a word on why there is none."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from attrs import frozen

from trouper._clock import Clock
from trouper_journal import Plain

from ._outcomes import described, is_fatal, our_cancellation, outcome_types

LIMIT: Final = 30.0
"""Seconds that a callback may take: one that hangs must not keep its run for ever."""

_S = TypeVar("_S")
_A = TypeVar("_A")


@frozen(slots=False, repr=False, eq=False)
class Unanswered(Plain):
    """A callback brought no answer.

    Attributes:
        reason: What it did in place of answering, without the words of its errors.
        detail: The same with them.
    """

    reason: str
    detail: str


async def ask(
    callback: Callable[[_S], object], subject: _S, *, read: Callable[[object], _A], clock: Clock
) -> _A | Unanswered:
    """Ask a plain or async callback.

    Args:
        callback: The callback.
        subject: What it is asked about.
        read: Makes something of its answer; looking at the answer may run code of the user's too.
        clock: Source of time.

    Raises:
        trio.Cancelled: Cancelled meanwhile.
    """
    try:
        with clock.timeout(LIMIT) as limit:
            answer: object = callback(subject)
            told = read(await _awaited(answer) if inspect.isawaitable(answer) else answer)
    except Exception as error:  # noqa: BLE001 -- the callback is the user's code
        return Unanswered(f"raised {type(error).__name__}", f"raised {described(error)}"[:2000])
    except outcome_types() as error:
        if is_fatal(error):
            raise
        if (ours := our_cancellation(error)) is not None:
            raise ours from None
        escaped = f"let {type(error).__name__} escape, of a cancellation of its own"
        return Unanswered(escaped, escaped)
    if limit.cancelled_caught:
        late = f"did not answer within {LIMIT:g} seconds"
        return Unanswered(late, late)
    return told


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer
