"""Sending a message to a session: a run is submitted and put in line, in one commit, from any process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import attrs
import trio
from attrs import define, field

from trouper._clock import Clock
from trouper._ids import Entropy, ulid
from trouper.core import events as ev
from trouper.core.conversation import Message
from trouper.core.evolve import evolve
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import ContentWithheld, IdempotencyConflict, SessionError, UnknownSession, VersionConflict
from trouper.runtime.descent import descendants
from trouper.runtime.domains import domain_of, is_withheld, why_withheld
from trouper.runtime.sessions import standing_of, stream_of
from trouper.runtime.submitting import known
from trouper.runtime.tasks import SALT, Submission, Task, check_command_id, messages_of, state_of, task_digest
from trouper_journal import Journal, Key, Printable, Write

SUPERSEDED = "superseded by a new message"
"""Why a call was denied that waited for a person when a message came that supersedes it."""


class Sender(Protocol):
    """What sending needs."""

    @property
    def journal(self) -> Journal:
        """The journal."""
        ...

    @property
    def clock(self) -> Clock:
        """Source of time."""
        ...

    @property
    def entropy(self) -> Entropy:
        """Source of ids and randomness."""
        ...

    async def state(self, run: str) -> RunState:
        """Fold a run."""
        ...


@define(eq=False, repr=False)
class Lines(Printable):
    """Lets the tasks of one process send to a session one after another.

    Other processes may send as well: what decides is the journal. Tasks that would only get into each other's way, and
    each time begin anew, wait for each other instead.
    """

    _locks: dict[str, trio.Lock] = field(factory=dict, init=False)

    @asynccontextmanager
    async def stand_in(self, session: str) -> AsyncIterator[None]:
        """Wait until nobody else of this process sends to the session, and keep others waiting for the block."""
        lock = self._locks.setdefault(stream_of(session), trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._locks.get(stream_of(session)) is lock:
                del self._locks[stream_of(session)]


async def send(
    commands: Sender,
    session: str,
    task: Task,
    command_id: str | None,
    *,
    supersede: bool = False,
) -> Submission:
    """Put a turn in line; see `Commands.send`."""
    journal = commands.journal
    stream = stream_of(session)
    run = ulid(commands.clock.now(), commands.entropy)
    salt = commands.entropy.token(SALT)
    messages = messages_of(run, task.input)
    key = None if command_id is None else Key(_key_name(session, command_id), _digest(salt, task, supersede))
    while True:
        found = await standing_of(journal, session)
        version, standing, opened = _opened(session, task, found)
        if before := standing.active or (standing.last.run if standing.last is not None else ""):
            await _refuse_withheld(journal, session, before)
        superseded = await _superseding(commands, standing, task) if supersede else ()
        place = ev.SessionTurn(session, standing.turns + 1, version + len(opened) + 1)
        submitted = _submitted(attrs.evolve(task, agent=standing.agent), messages, salt, place)
        events: list[object] = [submitted, *([] if standing.active else [ev.TurnGiven(standing.last)])]
        state = _folded(run, events)
        told = status(state)
        after = attrs.evolve(standing, turns=place.number, active=standing.active or run)
        writes = [
            Write(
                f"run/{run}",
                events,
                expected=0,
                label=told.label,
                wake_at=told.wake_at,
                domain=domain_of(state),
            ),
            Write(stream, [*opened, ev.TurnQueued(run, place.number, after)], version, domain=domain_of(state)),
            *superseded,
        ]
        try:
            done = await journal.commit(writes, key=key)
        except VersionConflict:
            continue
        except IdempotencyConflict:
            if key is None:
                raise
            return await known(journal, key.name, lambda first: _digest(first, task, supersede))
        if done.repeated:
            return Submission(done.records[0].stream.removeprefix("run/"), repeated=True)
        return Submission(run, repeated=False, state=state, superseded=tuple(map(_run_of, superseded)))


async def _refuse_withheld(journal: Journal, session: str, run: str) -> None:
    """Refuse to go on with a conversation that nobody here can read."""
    for record in await journal.read_page(f"run/{run}", limit=1):
        if is_withheld(record):
            raise ContentWithheld(f"session {session}", why_withheld(record))


def _submitted(task: Task, messages: tuple[Message, ...], salt: bytes, place: ev.SessionTurn) -> ev.RunSubmitted:
    return ev.RunSubmitted(
        task.agent,
        task.limits,
        messages,
        salt,
        task.by,
        state=state_of(task),
        start_at=task.options.start_at,
        turn=place,
        grants=task.options.grants,
        deadline=task.options.deadline,
    )


def _key_name(session: str, command_id: object) -> str:
    check_command_id(command_id)
    # The length keeps apart what a colon in an id could mix up.
    return f"send:{len(session)}:{session}:{command_id}"


def _run_of(write: Write) -> str:
    return write.stream.removeprefix("run/")


def _digest(salt: bytes, task: Task, supersede: bool) -> bytes:
    digest = task_digest(salt, task)
    return digest + b"\x01" if supersede else digest


def _folded(run: str, events: Sequence[object]) -> RunState:
    state = RunState(run)
    for event in events:
        state = evolve(state, event)
    return state


def _opened(
    session: str, task: Task, found: tuple[int, ev.Standing] | None
) -> tuple[int, ev.Standing, tuple[object, ...]]:
    """Version and standing of the session, with the event that opens it where it is new."""
    if found is None:
        if not task.agent:
            raise UnknownSession(f"there is no session {session} in this journal; name the agent to open it")
        standing = ev.Standing(task.agent)
        return 0, standing, (ev.SessionOpened(standing, task.by),)
    version, standing = found
    if task.agent not in ("", standing.agent):
        raise SessionError(session, f"it is with agent {standing.agent}, not with {task.agent}")
    return version, standing, ()


async def _superseding(commands: Sender, standing: ev.Standing, task: Task) -> tuple[Write, ...]:
    """What ends the waiting for a person, in the active run and in those below it."""
    if not standing.active:
        return ()
    below = await descendants(commands.journal, standing.active)
    runs = [standing.active, *(child.run for child in below if not child.ended)]
    by = task.by or ev.Principal("api")
    return tuple([write for run in runs if (write := _withdrawn(await commands.state(run), by)) is not None])


def _withdrawn(state: RunState, by: ev.Principal) -> Write | None:
    """That nobody need decide any more on what waits in a run; it takes no approver's leave to want less."""
    if state.ended or state.stopping or not state.awaiting:
        return None
    events = [ev.ApprovalWithdrawn(action.action, action.request, by, SUPERSEDED) for action in state.awaiting]
    after = state
    for event in events:
        after = evolve(after, event)
    told = status(after)
    return Write(
        f"run/{state.run}",
        events,
        expected=state.version,
        label=told.label,
        wake_at=told.wake_at,
        domain=domain_of(state),
    )
