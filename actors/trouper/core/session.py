"""Sessions: conversations over many runs, one turn each, as values.

A session has a stream of its own. Each of its events carries the `Standing` after it, so that the last record tells all
that the next turn depends on, however long the session is.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.core.base import HistoryRef
from trouper.core.conversation import Message
from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class Standing(Plain):
    """Where a session stands.

    Attributes:
        agent: The agent that it is with, for good.
        turns: How many turns were asked for so far.
        active: The run whose turn it is; empty where nobody has the turn.
        last: The conversation so far: the last run that had a turn, as it ended. None where there is none.
    """

    agent: str
    turns: int = 0
    active: str = ""
    last: HistoryRef | None = None


@frozen(slots=False, repr=False, eq=False)
class SessionTurn(Plain):
    """A run's place in a session.

    Attributes:
        session: The session's id.
        number: Number of the turn, from 1, in the order of the sends.
        queued: Version of the session's event that says so.
    """

    session: str
    number: int
    queued: int


@frozen(slots=False, repr=False, eq=False)
class Compaction(Plain):
    """How the history of a turn is being, or was, cut down to a length that its model can take.

    Attributes:
        phase: A summary is ``requested``, could not be had (``failed``), or all is ``done``.
        attempt: Number of the attempt at a summary; 0 for none.
        kept: What is left of the history as it was.
        dropped: What is not handed on.
        messages: How many messages that is, an earlier summary counted.
        summary: What stands in their place, once done; None where nothing does.
        model: Name of the model that is asked for a summary.
        retry_at: When a summary may be asked for again (ns UTC); None for at once.
        reason: Why there is no summary.
    """

    phase: Literal["requested", "failed", "done"]
    attempt: int
    kept: tuple[HistoryRef, ...]
    dropped: tuple[HistoryRef, ...]
    messages: int
    summary: Message | None = None
    model: str = ""
    retry_at: int | None = None
    reason: str = ""


@frozen(slots=False, repr=False, eq=False)
class Turn(Plain):
    """What a run of a session knows of that.

    Attributes:
        place: Its place in the session.
        given: Whether its turn has come.
        compaction: How its history was cut down, if it was.
        asked: How many requests for a summary were answered, or may have been.
        unpriced: How many of those have no price.
    """

    place: SessionTurn
    given: bool = False
    compaction: Compaction | None = None
    asked: int = 0
    unpriced: int = 0
