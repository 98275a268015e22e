"""How an attempt at a call can end, and which exceptions of a tool's are such ends."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import trio
from attrs import field, frozen

from trouper.core.conversation import Part, Value
from trouper.errors import ToolError, TransientError
from trouper_journal import Plain

from ._redact import Redactor
from ._timer import Timer

_LONGEST = 2000

FailureKind: TypeAlias = Literal[
    "tool_error", "transient", "retryable", "exception", "timeout", "cancelled", "not_begun"
]

NOT_BEGUN: Final = "it was cancelled before it began"


@frozen(repr=False, eq=False)
class Returned(Plain):
    """The tool returned.

    Attributes:
        value: Its result as a journal value, secrets masked.
        update: What it wrote to the run's named state, as journal values, secrets masked.
        parts: Its content parts, where not all of it is text; ``value`` is then the same as a list.
        timer: What it asked for in place of a result: to be answered later; its text with secrets masked.
        artifact: What is kept beside it and not shown to the model, secrets masked.
    """

    value: Value
    update: Mapping[str, Value] = field(factory=dict)
    parts: tuple[Part, ...] = ()
    artifact: Value = None
    timer: Timer | None = None


@frozen(slots=False, repr=False, eq=False)
class Failed(Plain):
    """The tool did not return, or not in time.

    Attributes:
        kind: ``tool_error`` and ``transient``: known not applied. ``retryable``, ``exception``,
            ``timeout``, ``cancelled``: whether it took effect is unknown; the first is an error that the tool's
            `Retry` names. ``not_begun``: it was cancelled before the tool was called.
        message: What is known, secrets masked, at most 2,000 characters.
        left: The tool was left behind, still working; ``on_late`` will be told what it brings.
        retry_after: Seconds that it asked to wait before another attempt, or None.
    """

    kind: FailureKind
    message: str
    left: bool = False
    retry_after: float | None = None


ToolReturn: TypeAlias = Returned | Failed


def failure(error: BaseException, redactor: Redactor, retry_on: tuple[type[Exception], ...] = ()) -> Failed:
    """The outcome that an exception of a tool's stands for; a group counts by what is in it.

    Args:
        error: The exception.
        redactor: Masks the call's secrets.
        retry_on: Errors that are worth another attempt.
    """
    leaves = _leaves(error)
    if all(isinstance(leaf, ToolError) for leaf in leaves):
        transient = all(isinstance(leaf, TransientError) for leaf in leaves)
        message = "; ".join(_words(leaf) or type(leaf).__name__ for leaf in leaves)
        if not transient:
            return Failed("tool_error", told(message, redactor))
        asked = [leaf.retry_after for leaf in leaves if isinstance(leaf, TransientError) and _is_wait(leaf.retry_after)]
        return Failed("transient", told(message, redactor), retry_after=max(filter(None, asked), default=None))
    # What nobody declared counts more than what somebody did.
    again = bool(retry_on) and all(isinstance(leaf, (TransientError, *retry_on)) for leaf in leaves)
    return Failed("retryable" if again else "exception", told("; ".join(map(described, leaves)), redactor))


def _is_wait(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0


def told(message: str, redactor: Redactor) -> str:
    """The message, masked and bounded."""
    # Masked before it is cut: a cut could leave half of a secret, which no pattern finds.
    masked = redactor.text(message)
    return masked if len(masked) <= _LONGEST else f"{masked[: _LONGEST - 1]}…"


def _foreign_cancellations() -> tuple[type[BaseException], ...]:
    # asyncio.CancelledError is no Exception. A tool that ran asyncio has imported it; importing it here costs everyone.
    module = sys.modules.get("asyncio")
    return () if module is None else (module.CancelledError,)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def outcome_types() -> tuple[type[BaseException], ...]:
    """The exceptions that are outcomes. Any other ends more than the call: KeyboardInterrupt, SystemExit, ..."""
    return (Exception, BaseExceptionGroup, trio.Cancelled, *_foreign_cancellations())


def is_fatal(error: BaseException) -> bool:
    """Whether KeyboardInterrupt, SystemExit or the like is in a group."""
    return not all(isinstance(leaf, outcome_types()) for leaf in _leaves(error))


def our_cancellation(error: BaseException) -> BaseException | None:
    """What of an exception is the end of this task; what else came out meanwhile interests nobody any more."""
    if trio.current_effective_deadline() > -math.inf:
        return None
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[0]
    return error if isinstance(error, trio.Cancelled) else None


def described(error: BaseException) -> str:
    """An exception's kind and words."""
    if isinstance(error, trio.Cancelled):
        return "it let the Cancelled of a scope of its own escape"
    words = _words(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 -- __str__ is the user's code
        return f"(its message cannot be shown: {type(broken).__name__})"
