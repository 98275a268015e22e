"""Sessions as they stand in the journal, and what a run writes there: its end gives the turn to the next one.

All of it looks at the end of the session's stream, never at the whole: the cost of a turn does not grow with their
number.
"""

from __future__ import annotations

from typing import Literal

import attrs
from attrs import frozen

from trouper.core import events as ev
from trouper.core.base import HistoryRef
from trouper.core.conversation import Message
from trouper.core.evolve import evolve
from trouper.core.history import segment_of
from trouper.core.state import RunPhase, RunState
from trouper.core.status import status
from trouper.errors import InvalidValue, JournalCorrupt, SessionError, UnknownSession
from trouper.runtime.histories import Histories, run_state
from trouper_journal import Journal, Plain, Write

_PAGE = 50
_LONGEST_ID = 200


@frozen(slots=False, repr=False, eq=False)
class TurnView(Plain):
    """A turn of a session.

    Attributes:
        run: The run's id.
        number: Number of the turn, from 1.
        status: ``queued``, ``active``, ``succeeded``, ``failed``, ``cancelled``, or ``withdrawn``: cancelled before
            its turn came, so that nothing of it is handed on.
        version: The version of the run's stream that is handed on; 0 while there is none.
    """

    run: str
    number: int
    status: Literal["queued", "active", "succeeded", "failed", "cancelled", "withdrawn"]
    version: int = 0


@frozen(slots=False, repr=False, eq=False)
class SessionView(Plain):
    """A session as it stands.

    Attributes:
        id: The session's id.
        agent: The agent that it is with.
        turns: Its turns, in order.
    """

    id: str
    agent: str
    turns: tuple[TurnView, ...]

    @property
    def active(self) -> TurnView | None:
        """The turn that is under way, if one is."""
        return next((turn for turn in self.turns if turn.status == "active"), None)

    @property
    def queued(self) -> tuple[TurnView, ...]:
        """The turns that wait, in order."""
        return tuple(turn for turn in self.turns if turn.status == "queued")


def stream_of(session: str) -> str:
    """The stream of a session.

    Raises:
        InvalidValue: It is no session's id.
    """
    if not isinstance(session, str) or not 0 < len(session) <= _LONGEST_ID or not session.isprintable():
        raise InvalidValue("session", f"{session!r} is not a text of 1 to {_LONGEST_ID} printable characters")
    return f"session/{session}"


async def standing_of(journal: Journal, session: str) -> tuple[int, ev.Standing] | None:
    """Version and standing of a session, from its last event alone; None where there is no such session."""
    stream = stream_of(session)
    head = await journal.head(stream)
    if head is None:
        return None
    (record,) = await journal.read_page(stream, after=head.version - 1, limit=1)
    standing = getattr(journal.registry.decode(record), "standing", None)
    if not isinstance(standing, ev.Standing):
        raise JournalCorrupt(f"session {session}: event {head.version} does not say where the session stands")
    return head.version, standing


async def read(journal: Journal, session: str) -> SessionView:
    """A session, folded from its beginning.

    Raises:
        UnknownSession: There is none of that id.
        UnknownEvent: It was written by a newer release.
    """
    agent, turns, active = "", dict[str, TurnView](), ""
    async for record in journal.read(stream_of(session)):
        event = journal.registry.decode(record)
        match event:
            case ev.SessionOpened():
                agent = event.standing.agent
            case ev.TurnQueued(run, number):
                turns[run] = TurnView(run, number, "queued")
            case ev.TurnWithdrawn(run):
                turns[run] = attrs.evolve(turns[run], status="withdrawn")
            case ev.TurnEnded(run, _, how, standing):
                last = standing.last
                version = last.version if last is not None and last.run == run else 0
                turns[run] = attrs.evolve(turns[run], status=how, version=version)
        active = getattr(event, "standing", ev.Standing(agent)).active
    if not agent:
        raise UnknownSession(f"there is no session {session} in this journal")
    if active:
        turns[active] = attrs.evolve(turns[active], status="active")
    return SessionView(session, agent, tuple(turns.values()))


async def said(histories: Histories, view: SessionView) -> tuple[Message, ...]:
    """All that was said in the turns that are over, in order, whether it is handed on still or not."""
    messages: list[Message] = []
    for turn in view.turns:
        if turn.version > 0 and turn.status != "active":
            messages += (await histories.segment(turn.run, turn.version)).messages
    return tuple(messages)


# ---- what a run writes into its session's stream


async def session_writes(journal: Journal, before: RunState, after: RunState) -> tuple[Write, ...]:
    """What a run's commit must say in its session's stream, and in that of the run that has the turn next."""
    turn = after.turn
    if turn is None:
        return ()
    ends = after.ended and not before.ended
    compaction = turn.compaction if turn.compaction is not None and turn.compaction.phase == "done" else None
    if compaction is not None and before.turn is not None and before.turn.compaction == compaction:
        compaction = None
    if not ends and compaction is None:
        return ()
    found = await standing_of(journal, turn.place.session)
    if found is None:
        raise JournalCorrupt(f"run {after.run} is a turn of session {turn.place.session}, which does not exist")
    version, standing = found
    events: list[object] = []
    writes: list[Write] = []
    if compaction is not None:
        summarised = compaction.summary is not None
        events.append(ev.SessionCompacted(after.run, compaction.messages, summarised, standing))
    if ends and not turn.given:
        events.append(ev.TurnWithdrawn(after.run, turn.place.number, standing))
    elif ends:
        standing, given = await _passed_on(journal, after, version, standing)
        events.append(ev.TurnEnded(after.run, turn.place.number, _how(after), standing))
        writes += given
    return (Write(stream_of(turn.place.session), events, expected=version), *writes)


async def _passed_on(
    journal: Journal, state: RunState, version: int, standing: ev.Standing
) -> tuple[ev.Standing, list[Write]]:
    """Where the session stands behind a run's end, and the turn for the next run in line."""
    # A run that was cancelled before it was taken up has pinned no history: nothing of it is handed on.
    # One that a hook failed may have open calls, whose answers are part of what is handed on.
    last = HistoryRef(state.run, state.version, digest=segment_of(state).chain) if state.started else standing.last
    assert state.turn is not None
    waiting = await _next_in_line(journal, state.turn.place, version)
    if waiting is None:
        return attrs.evolve(standing, active="", last=last), []
    event = ev.TurnGiven(last)
    told = status(evolve(waiting, event))
    write = Write(f"run/{waiting.run}", [event], expected=waiting.version, label=told.label, wake_at=told.wake_at)
    return attrs.evolve(standing, active=waiting.run, last=last), [write]


async def _next_in_line(journal: Journal, place: ev.SessionTurn, version: int) -> RunState | None:
    """The first run behind this one that was not withdrawn; None where nobody waits."""
    after = place.queued
    while after < version:
        page = await journal.read_page(stream_of(place.session), after=after, limit=min(_PAGE, version - after))
        for record in page:
            event = journal.registry.decode(record)
            if not isinstance(event, ev.TurnQueued) or event.turn <= place.number:
                continue
            state = await run_state(journal, event.run)
            if not state.ended:
                return state
        after += len(page)
        if not page:
            break
    return None


def _how(state: RunState) -> Literal["succeeded", "failed", "cancelled"]:
    if state.phase is RunPhase.SUCCEEDED:
        return "succeeded"
    return "failed" if state.phase is RunPhase.FAILED else "cancelled"


async def reopened(journal: Journal, state: RunState) -> tuple[Write, ...]:
    """What must be said in the session's stream so that a run can go on that had failed.

    Raises:
        SessionError: The session has gone on without it, or it never had the turn.
    """
    if state.turn is None:
        return ()
    place = state.turn.place
    if not state.turn.given:
        raise SessionError(place.session, f"the turn had not come for run {state.run} when it ended: send it again")
    found = await standing_of(journal, place.session)
    if found is None:
        raise JournalCorrupt(f"run {state.run} is a turn of session {place.session}, which does not exist")
    version, standing = found
    if standing.active or standing.turns != place.number:
        raise SessionError(place.session, f"it has gone on since run {state.run} failed: send a new message instead")
    event = ev.TurnReopened(state.run, place.number, attrs.evolve(standing, active=state.run))
    return (Write(stream_of(place.session), [event], expected=version),)
