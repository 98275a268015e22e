"""What happens to sessions, and what happens to a run because it is a turn of one.

A session's stream is ``session/<id>``. Its events carry where the session stands after them.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.core.base import HistoryRef
from trouper.core.session import Standing
from trouper.core.terms import Principal
from trouper_journal import Content, Plain, event

# ---- in the session's stream


@event("session.opened", schema=1)
@frozen(slots=False, repr=False, eq=False)
class SessionOpened(Plain):
    """Somebody began a conversation with an agent."""

    standing: Standing
    by: Content[Principal | None] = None


@event("turn.queued", schema=1)
@frozen(slots=False, repr=False, eq=False)
class TurnQueued(Plain):
    """Somebody sent a message: a run was submitted, which has its turn when those before it have had theirs.

    Attributes:
        run: The run's id.
        turn: Number of the turn, from 1.
    """

    run: str
    turn: int
    standing: Standing


@event("turn.ended", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class TurnEnded(Plain):
    """A run that had the turn is over; who has it now stands in ``standing``.

    Attributes:
        how: How the run ended.
    """

    run: str
    turn: int
    how: Literal["succeeded", "failed", "cancelled"]
    standing: Standing


@event("turn.withdrawn", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class TurnWithdrawn(Plain):
    """A run was cancelled before its turn came: nothing of it is handed on."""

    run: str
    turn: int
    standing: Standing


@event("turn.reopened", schema=1)
@frozen(slots=False, repr=False, eq=False)
class TurnReopened(Plain):
    """The last turn had failed, and somebody let its run go on: it has the turn again."""

    run: str
    turn: int
    standing: Standing


@event("session.compacted", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class SessionCompacted(Plain):
    """From here on less of the conversation is handed on; details stand in the run's own ``context.compacted``.

    Attributes:
        run: The run that starts from what is left.
        count: How many messages are not handed on any more.
        summarised: Whether a summary stands in their place.
    """

    run: str
    count: int
    summarised: bool
    standing: Standing


# ---- in the run's stream


@event("run.turn_given", schema=1)
@frozen(slots=False, repr=False, eq=False)
class TurnGiven(Plain):
    """The run's turn has come.

    Attributes:
        after: The conversation so far, or None at the beginning.
    """

    after: HistoryRef | None = None


@event("approval.withdrawn", schema=1)
@frozen(slots=False, repr=False, eq=False)
class ApprovalWithdrawn(Plain):
    """Whoever talks to the agent does not want the call any more: nobody is asked about it, and it never starts.

    Attributes:
        action: ``<model index>.<call index>``.
        request: Number of the request for approval.
    """

    action: str
    request: int
    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("summary.requested", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class SummaryRequested(Plain):
    """The history was too long: a model is about to be asked for a summary of what is dropped.

    Attributes:
        attempt: Number of the attempt, from 1.
        digest: Keyed digest over the messages to be summarised.
        kept: What is handed on as it is.
        dropped: What is not; where an earlier summary falls away with it, that is summarised again, too.
        count: How many messages are not handed on, an earlier summary counted.
        model: The model's name.
    """

    attempt: int
    digest: bytes
    kept: tuple[HistoryRef, ...]
    dropped: tuple[HistoryRef, ...]
    count: int
    model: str = ""


@event("summary.failed", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class SummaryFailed(Plain):
    """An attempt brought no summary.

    Attributes:
        reason: ``error``: it is known why; else nobody will ever know its reply, and it may have been billed:
            lost with the process (``restart``), with the runtime (``shutdown``), or with the run (``cancelled``).
        retry_at: When it may be tried again (ns UTC); None for at once.
    """

    attempt: int
    reason: Literal["error", "restart", "shutdown", "cancelled"]
    retry_at: int | None = None
    message: Content[str] = ""


@event("context.compacted", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ContextCompacted(Plain):
    """Less of the conversation is handed to the run, and to those after it.

    Attributes:
        kept: What is handed on as it is.
        dropped: What is not.
        count: How many messages are not handed on, an earlier summary counted.
        attempt: Number of the attempt that brought the summary; 0 where there is none.
        input_tokens: Tokens of that attempt, if its model told.
        output_tokens: Tokens of that attempt, if its model told.
        model: The model that summarised, as the provider named it.
        cost: What the summary cost, in nano-units; None where there is no price, or not all tokens are known.
        summary: The summary; None where the rest is dropped without one.
        reason: Why there is none though one was asked for.
    """

    kept: tuple[HistoryRef, ...]
    dropped: tuple[HistoryRef, ...]
    count: int
    attempt: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    cost: int | None = None
    summary: Content[str | None] = None
    reason: Content[str | None] = None


SESSION_EVENTS: tuple[type, ...] = (
    SessionOpened,
    TurnQueued,
    TurnEnded,
    TurnWithdrawn,
    TurnReopened,
    SessionCompacted,
    TurnGiven,
    ApprovalWithdrawn,
    SummaryRequested,
    SummaryFailed,
    ContextCompacted,
)
"""All of them, for the registry."""
