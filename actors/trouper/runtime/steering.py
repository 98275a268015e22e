"""What is said to runs under way: words to one run, and a pause, or its end, to a run and all runs below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from trouper.core.commands import Already
from trouper.core.control_commands import steer_run
from trouper.core.control_events import PauseRequested, RunSignalled
from trouper.core.conversation import Message
from trouper.core.events import Principal, ResumeRequested
from trouper.core.evolve import evolve
from trouper.core.family import parent_of
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import ContentWithheld, JournalCorrupt, UnknownEvent, VersionConflict
from trouper.runtime.domains import domain_of
from trouper.runtime.sessions import reopened
from trouper.runtime.tasks import check_command_id, principal, said, said_digest
from trouper_journal import Journal, Key, Write


class Reader(Protocol):
    """Where runs are read and written."""

    @property
    def journal(self) -> Journal:
        """The journal."""
        ...

    async def state(self, run: str) -> RunState:
        """Fold a run."""
        ...

    async def below(self, root: str) -> list[str]:
        """The ids of all runs below a run."""
        ...


def write_of(state: RunState, event: object) -> Write:
    """An event behind a state as it was read, for anyone to append.

    Raises:
        ContentWithheld: The run is sealed and was not opened: what is said of it would stand there in plain.
    """
    if state.erased:
        raise ContentWithheld(f"run {state.run}", "it is sealed and no key for it is at hand, or it was erased")
    return Write(
        f"run/{state.run}",
        [event],
        expected=state.version,
        label=status(evolve(state, event)).label,
        domain=domain_of(state),
    )


async def steer(
    reader: Reader, run: str, words: str | Sequence[Message], by: Principal, command_id: str | None
) -> RunState:
    """Send messages to a run under way; see `Commands.steer`."""
    principal(by)
    messages = said(words)
    state = await reader.state(run)
    key: Key | None = None
    if command_id is not None:
        check_command_id(command_id)
        key = Key(f"signal:{run}:{command_id}", said_digest(state.salt, messages))
        if await reader.journal.find(key.name) is not None:
            # The run may be over by now: what was said before is known all the same.
            await reader.journal.commit([Write(f"run/{run}", [RunSignalled(messages, by)])], key=key)
            return state
    while True:
        event = steer_run(state, messages, by=by)
        try:
            await reader.journal.commit([write_of(state, event)], key=key)
        except VersionConflict:
            state = await reader.state(run)
            continue
        return evolve(state, event)


async def change_tree(
    reader: Reader, run: str, rule: Callable[[RunState], PauseRequested | ResumeRequested | Already]
) -> RunState:
    """Pause a run and all runs below it, or let them go on, in one commit.

    The word to pause is appended below whatever else was appended there meanwhile, so that a busy tree can be paused;
    to runs that begin meanwhile it is passed on by their callers' driver. See `Commands.pause`, `Commands.resume`.
    """
    while True:
        state = await reader.state(run)
        event = rule(state)
        if isinstance(event, Already):
            return state
        goes_on = state.ended and not evolve(state, event).ended
        others = await reopened(reader.journal, state) if goes_on else ()
        below = await _living(reader, run)
        if isinstance(event, PauseRequested):
            writes = [attrs.evolve(write_of(each, _word(event, each, below)), expected=None) for each in below]
        else:
            # One that is not paused may fail meanwhile, and must not be revived by this; the others are quiet.
            below = [each for each in below if each.control.pause is not None]
            writes = [write_of(each, _word(event, each, below)) for each in below]
        own = _word(event, state, below)
        try:
            await reader.journal.commit([write_of(state, own), *others, *writes])
        except VersionConflict:
            continue
        return evolve(state, own)


async def _living(reader: Reader, run: str) -> list[RunState]:
    """The runs below that are not over; those that cannot be read here are left to their callers' driver."""
    found: list[RunState] = []
    for name in await reader.below(run):
        try:
            state = await reader.state(name)
        except (UnknownEvent, JournalCorrupt):
            continue
        if not state.ended:
            found.append(state)
    return found


def _word(
    event: PauseRequested | ResumeRequested, state: RunState, below: Sequence[RunState]
) -> PauseRequested | ResumeRequested:
    """The event for a run, which says to whom below it the same is said in this very commit."""
    children = tuple(each.run for each in below if parent_of(each.run) == state.run)
    return attrs.evolve(event, below=children)
