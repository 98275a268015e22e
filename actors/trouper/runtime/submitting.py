"""Puts what is asked into the journal, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trouper._clock import Clock
from trouper._ids import Entropy, ulid
from trouper.core.events import RunSubmitted
from trouper.core.evolve import evolve
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import ContentWithheld, IdempotencyConflict, UnknownRun
from trouper.runtime.domains import is_withheld, why_withheld
from trouper.runtime.histories import Histories
from trouper.runtime.tasks import SALT, Submission, Task, check_command_id, messages_of, state_of, task_digest
from trouper_journal import Domain, Journal, Key, Write


class Office(Protocol):
    """Where it is submitted."""

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

    @property
    def histories(self) -> Histories:
        """Conversations of other runs."""
        ...


async def begin(office: Office, task: Task, command_id: str | None) -> Submission:
    """Begin a run, or find the one that this command began before; see `Commands.submit`."""
    journal = office.journal
    if task.base is not None:
        # At the door: a run with a history that does not exist could never be taken up.
        await office.histories.pieces(task.base.refs, whole=True)
        await office.histories.pin(task.base)
    run = ulid(office.clock.now(), office.entropy)
    salt = office.entropy.token(SALT)
    messages = messages_of(run, task.input)
    options = task.options
    event = RunSubmitted(
        task.agent,
        task.limits,
        messages,
        salt,
        task.by,
        task.base,
        state_of(task),
        start_at=options.start_at,
        grants=options.grants,
        deadline=options.deadline,
    )
    state = evolve(RunState(run), event)
    stream = f"run/{run}"
    write = Write(stream, [event], expected=0, label=status(state).label, domain=Domain(stream, salt))
    if command_id is None:
        await journal.commit([write])
        return Submission(run, repeated=False, state=state)
    check_command_id(command_id)
    name = f"submit:{command_id}"
    try:
        done = await journal.commit([write], key=Key(name, task_digest(salt, task)))
    except IdempotencyConflict:
        return await known(journal, name, lambda first: task_digest(first, task))
    return Submission(done.records[0].stream.removeprefix("run/"), done.repeated, None if done.repeated else state)


async def known(journal: Journal, name: str, digest: Callable[[bytes], bytes]) -> Submission:
    """The run that a command began before, if it is the same command.

    The digest is keyed with the first run's own salt: only with that can the tasks be compared.

    Raises:
        IdempotencyConflict: It was used for something else.
        ContentWithheld: What the first run was asked for cannot be read.
    """
    found = await journal.find(name)
    if found is None:
        raise UnknownRun(f"key {name} has no records")
    run = found.records[0].stream.removeprefix("run/")
    if is_withheld(found.records[0]):
        # Only with the first run's salt could it be told whether it is the same command.
        raise ContentWithheld(f"run {run}, which {name} stands for,", why_withheld(found.records[0]))
    first = journal.registry.decode(found.records[0])
    salt = first.salt if isinstance(first, RunSubmitted) and isinstance(first.salt, bytes) else b""
    done = await journal.commit([Write(f"run/{run}", [first], expected=0)], key=Key(name, digest(salt)))
    return Submission(done.records[0].stream.removeprefix("run/"), repeated=True)
