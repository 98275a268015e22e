"""What to do when an actor fails: a pure policy, after the supervisors of Erlang/OTP (intensity and period)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs
from attrs.validators import ge, gt, in_

from trouper_journal import Plain

NANOSECONDS: Final = 1_000_000_000


@attrs.frozen(slots=False, repr=False, eq=False)
class Restart(Plain):
    """Make a new instance after ``delay`` seconds; the mailbox is kept."""

    delay: float


@attrs.frozen(slots=False, repr=False, eq=False)
class Stop(Plain):
    """The actor ends as failed; its supervisor goes on."""


@attrs.frozen(slots=False, repr=False, eq=False)
class Escalate(Plain):
    """The actor ends as failed, and so its supervisor fails with that cause."""


Action: TypeAlias = Restart | Stop | Escalate


@attrs.frozen(slots=False, kw_only=True, repr=False, eq=False)
class Supervision(Plain):
    """How a supervisor treats the failures of one child.

    The n-th restart within ``period`` waits ``first_delay * 2 ** (n - 1)`` seconds, at most ``max_delay``.

    Attributes:
        on_failure: ``"restart"``, ``"stop"`` or ``"escalate"``.
        max_restarts: Restarts allowed within ``period``; the failure after the last one is treated as
            ``when_exhausted`` says.
        period: Seconds that a failure counts.
        first_delay: Seconds before the first restart.
        max_delay: Longest wait before a restart, in seconds.
        when_exhausted: ``"escalate"`` or ``"stop"``.

    Raises:
        ValueError: A number out of range, or a word that is none of those.
    """

    on_failure: Literal["restart", "stop", "escalate"] = attrs.field(
        default="restart", validator=in_(("restart", "stop", "escalate"))
    )
    max_restarts: int = attrs.field(default=3, validator=ge(0))
    period: float = attrs.field(default=60.0, validator=gt(0))
    first_delay: float = attrs.field(default=0.1, validator=ge(0))
    max_delay: float = attrs.field(default=10.0, validator=ge(0))
    when_exhausted: Literal["escalate", "stop"] = attrs.field(default="escalate", validator=in_(("escalate", "stop")))


STOP: Final = Supervision(on_failure="stop")
ESCALATE: Final = Supervision(on_failure="escalate")


def recent(policy: Supervision, failures: Sequence[int], now: int) -> tuple[int, ...]:
    """The failures that still count at ``now``, oldest first.

    A failure that seems to lie in the future (the wall clock was set back) counts.

    Args:
        policy: The supervision in force.
        failures: Moments of failure, ns UTC.
        now: The present moment, ns UTC.
    """
    horizon = now - int(policy.period * NANOSECONDS)
    return tuple(moment for moment in failures if moment > horizon)


def next_action(policy: Supervision, failures: Sequence[int], now: int) -> Action:
    """Decide what follows a failure. Pure.

    Args:
        policy: The supervision in force.
        failures: Moments of the actor's failures, ns UTC, the present one included.
        now: The present moment, ns UTC.
    """
    if policy.on_failure == "stop":
        return Stop()
    if policy.on_failure == "escalate":
        return Escalate()
    count = max(1, len(recent(policy, failures, now)))
    if count > policy.max_restarts:
        return Escalate() if policy.when_exhausted == "escalate" else Stop()
    # The exponent is bounded before the power is taken, so that a long row of failures cannot overflow the float.
    return Restart(min(policy.max_delay, policy.first_delay * 2.0 ** min(count - 1, 64)))
