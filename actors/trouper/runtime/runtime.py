"""The runtime: opens the journal, recovers, watches, routes, drains."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, final

from attrs import define

from trouper._clock import Clock, SystemClock
from trouper._ids import Entropy, ulid
from trouper.agent import Agent
from trouper.core.conversation import Message
from trouper.core.events import REGISTRY, Limits, Principal
from trouper.core.fork import WhatIf
from trouper.core.must_be import must_be
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import InvalidValue, JournalRolledBack, UnknownAgent
from trouper.kit import TreeNode
from trouper.runtime.billing import check_price, check_prices
from trouper.runtime.opening import by_name, furnished, known_agent
from trouper.runtime.options import RuntimeOptions
from trouper.runtime.people import Controls
from trouper.runtime.plan_output import typed_output
from trouper.runtime.run import Run
from trouper.runtime.session import Session
from trouper.runtime.sessions import stream_of
from trouper.runtime.stream import RunStream
from trouper.runtime.tasks import SubmitOptions, Task, principal
from trouper.tools import misfits, view
from trouper_journal import Journal

if TYPE_CHECKING:
    from trouper_journal.sealing import KeyStore


@final
@define(eq=False)
class Runtime(Controls):
    """A durable runtime of agents over one journal; made by `Runtime.open`."""

    @staticmethod
    @asynccontextmanager
    async def open(
        path: str | os.PathLike[str] | None,
        agents: Sequence[Agent],
        *,
        secrets: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        options: RuntimeOptions | None = None,
        keys: KeyStore | None = None,
    ) -> AsyncIterator[Runtime]:
        """Open a runtime for the length of an ``async with`` block; every unfinished run goes on at once.

        When the block is left, also when it raises or is cancelled, nothing new begins, what is under way has
        ``options.drain`` seconds to end, and its outcomes are recorded; runs that have not ended go on at the next
        start.

        Args:
            path: The journal's file; None for one in memory.
            agents: The agents that may be asked.
            secrets: Secrets by name, for tools that declare them.
            clock: Source of time.
            entropy: Source of ids and randomness.
            options: How it works.
            keys: Keeps the keys that content is sealed with, such as a `FileKeyStore`; what runs and
                sessions hold can then be erased. None: content is stored in plain.

        Raises:
            JournalInUse: Another process, or another runtime of this one, drives the journal.
            DefinitionError: Two agents of one name, or one that cannot be written down.
            JournalError: The journal cannot be opened.
        """
        options = options or RuntimeOptions()
        clock = clock or SystemClock()
        check_prices(by_name(agents), options.prices)
        async with (
            Journal.open(path, registry=REGISTRY, clock=clock, options=options.journal, keys=keys) as journal,
            Runtime.over(journal, agents, secrets=secrets, clock=clock, entropy=entropy, options=options) as runtime,
        ):
            yield runtime

    @staticmethod
    @asynccontextmanager
    async def over(
        journal: Journal,
        agents: Sequence[Agent],
        *,
        secrets: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        options: RuntimeOptions | None = None,
    ) -> AsyncIterator[Runtime]:
        """Open a runtime over a journal that is open already, such as one over a storage engine of your own.

        Args:
            journal: The journal, opened with `trouper.REGISTRY`; it stays open when the block is left.
            agents: As for `open`.
            secrets: As for `open`.
            clock: As for `open`.
            entropy: As for `open`.
            options: As for `open`, but for ``options.journal``, which has no say here.

        Raises:
            JournalInUse: Another process, or another runtime of this one, drives the journal.
            DefinitionError: As for `open`.
            JournalError: The journal cannot be written.
        """
        async with furnished(journal, agents, secrets=secrets, clock=clock, entropy=entropy, options=options) as (
            commands,
            desk,
            stage,
        ):
            yield Runtime(journal, commands, desk, stage)

    # ---- asking

    async def submit(
        self,
        agent: str,
        input: str | Sequence[Message],
        *,
        command_id: str | None = None,
        limits: Limits | None = None,
        by: Principal | str | None = None,
        options: SubmitOptions | None = None,
    ) -> Run:
        """Ask an agent to do something. When this returns, the run is in the journal and will be driven to its end.

        Args:
            agent: The agent's name.
            input: Text, or messages to start from.
            command_id: Makes the call idempotent, for ever and across processes: the same id with the same content is
                the same run.
            limits: Limits instead of the agent's own.
            by: Who asks.
            options: When, and under which conditions.

        Raises:
            UnknownAgent: No agent of that name was given to this runtime.
            IdempotencyConflict: The command id was used for something else.
            InvalidValue: The input cannot be journaled, or the state does not fit its keys.
            RuntimeStopped: The runtime is stopping.
            JournalError: The journal could not be written.
        """
        self._check()
        known_agent(self._desk.agents, agent)
        options = SubmitOptions() if options is None else options
        task = Task(agent, input, limits, None if by is None else principal(by), options=options)
        self._check_task(task)
        done = await self.commands.submit(task, command_id)
        if not done.repeated:
            self._stage.admit(done.run, done.state)
        return Run(self, done.run, repeated=done.repeated)

    async def fork(
        self, run: str, what_if: WhatIf, *, by: Principal | str | None = None, command_id: str | None = None
    ) -> Run:
        """Begin a new run from a place in another's history; see `Run.fork`."""
        self._check()
        must_be(what_if, WhatIf, "what_if")
        if what_if.agent is not None and what_if.agent not in self._desk.agents:
            raise UnknownAgent(f"no agent called {what_if.agent!r} is registered here")
        who = None if by is None else principal(by)
        done = await self.commands.fork(run, what_if, by=who, command_id=command_id)
        if not done.repeated:
            self._stage.admit(done.run, done.state)
        return Run(self, done.run, repeated=done.repeated)

    def run(self, run: str) -> Run:
        """The handle of a run that is in the journal already."""
        return Run(self, run)

    def named(self, state: RunState) -> Mapping[str, Any]:
        """A run's named state as Python values; plain ones where its agent is not registered here."""
        return view(self._desk.state_keys(state.agent), state.named)

    def output_of(self, state: RunState) -> object:
        """A run's output as its agent's type has it; see `RunResult`."""
        return typed_output(self._desk.agents.get(state.agent), state)

    def session(self, agent: str, id: str | None = None) -> Session:
        """The handle of a conversation with an agent; it is opened by the first `Session.send`.

        Args:
            agent: The agent's name; a session stays with its agent.
            id: The session's id, such as a customer's number; None for a new one.

        Raises:
            UnknownAgent: No agent of that name was given to this runtime.
            InvalidValue: The id is none.
        """
        known_agent(self._desk.agents, agent)
        name = ulid(self._desk.clock.now(), self.commands.entropy) if id is None else id
        stream_of(name)
        return Session(self, agent, name)

    async def send(self, session: str, task: Task, command_id: str | None, *, supersede: bool) -> Run:
        """Put a turn of a session in line. See `Session.send`."""
        self._check()
        self._check_task(task)
        done = await self.commands.send(session, task, command_id, supersede=supersede)
        for superseded in done.superseded:
            self._stage.admit(superseded)
        if done.state is not None and status(done.state).wake_at is not None:
            self._stage.admit(done.run, done.state)
        return Run(self, done.run, repeated=done.repeated)

    def _check_task(self, task: Task) -> None:
        """What the agent's own definition says of a task."""
        agent = self._desk.agents[task.agent]
        if task.limits is not None:
            check_price(agent, task.limits, self._desk.prices)
        if wrong := misfits(agent.state, dict(task.options.state)):
            raise InvalidValue("state", wrong)

    async def wait_ended(self, run: str) -> RunState:
        """Wait until a run has ended; its final state. See `Run.wait`."""
        return await self._stage.wait_ended(run, self.commands)

    # ---- looking

    def stream(
        self,
        run: str,
        *,
        after: int = 0,
        below: bool = False,
        room: int = 1000,
        lag: Literal["skip", "disconnect"] = "skip",
    ) -> RunStream:
        """A run as it happens; see `Run.stream`."""
        return RunStream(self.journal, self._desk.broadcast, run, after=after, below=below, room=room, lag=lag)

    def tree(self) -> TreeNode:
        """The living actors, with states and mailbox depths."""
        return self._stage.tree()

    @property
    def active(self) -> int:
        """How many runs are in memory."""
        return self._stage.active

    @property
    def parked(self) -> JournalRolledBack | None:
        """Why no run is driven: the journal was put back to an older copy that nobody has accepted yet; None else."""
        return self._desk.parked
