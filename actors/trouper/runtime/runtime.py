"""The runtime: opens the journal, recovers, watches, routes, drains."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, final

from attrs import define

from trouper._clock import Clock, SystemClock
from trouper._ids import Entropy, ulid
from trouper.agent import Agent
from trouper.approvals import Scope
from trouper.core.budget import Raise
from trouper.core.commands import Judgement, Verdict, split_action_id
from trouper.core.conversation import Message
from trouper.core.events import REGISTRY, Limits, Principal
from trouper.core.fork import WhatIf
from trouper.core.state import Action, RunState
from trouper.core.status import status
from trouper.errors import InvalidValue, RuntimeStopped, UnknownAgent
from trouper.kit import TreeNode
from trouper.runtime.adopting import adopt_all
from trouper.runtime.billing import check_price, check_prices
from trouper.runtime.commands import Commands, PendingApproval
from trouper.runtime.desk import Desk
from trouper.runtime.opening import by_name, furnished, known_agent
from trouper.runtime.options import RuntimeOptions
from trouper.runtime.plan_output import typed_output
from trouper.runtime.run import Run
from trouper.runtime.session import Session
from trouper.runtime.sessions import stream_of
from trouper.runtime.stage import Stage
from trouper.runtime.stream import RunStream
from trouper.runtime.tasks import SubmitOptions, Task, principal
from trouper.tools import misfits, view
from trouper_journal import Journal, Value


@final
@define(eq=False)
class Runtime:
    """A durable runtime of agents over one journal; made by `Runtime.open`."""

    journal: Journal
    commands: Commands
    _desk: Desk
    _stage: Stage

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

        Raises:
            JournalInUse: Another process, or another runtime of this one, drives the journal.
            DefinitionError: Two agents of one name, or one that cannot be written down.
            JournalError: The journal cannot be opened.
        """
        options = options or RuntimeOptions()
        clock = clock or SystemClock()
        check_prices(by_name(agents), options.prices)
        async with (
            Journal.open(path, registry=REGISTRY, clock=clock, options=options.journal) as journal,
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
        if limits is not None:
            check_price(self._desk.agents[agent], limits, self._desk.prices)
        if wrong := misfits(self._desk.agents[agent].state, dict(options.state)):
            raise InvalidValue("state", wrong)
        task = Task(agent, input, limits, None if by is None else principal(by), options=options)
        done = await self.commands.submit(task, command_id)
        if not done.repeated:
            await self._stage.admit(done.run, done.state)
        return Run(self, done.run, repeated=done.repeated)

    async def fork(
        self, run: str, what_if: WhatIf, *, by: Principal | str | None = None, command_id: str | None = None
    ) -> Run:
        """Begin a new run from a place in another's history; see `Run.fork`."""
        self._check()
        if what_if.agent is not None and what_if.agent not in self._desk.agents:
            raise UnknownAgent(f"no agent called {what_if.agent!r} is registered here")
        who = None if by is None else principal(by)
        done = await self.commands.fork(run, what_if, by=who, command_id=command_id)
        if not done.repeated:
            await self._stage.admit(done.run, done.state)
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
        if wrong := misfits(self._desk.agents[task.agent].state, dict(task.options.state)):
            raise InvalidValue("state", wrong)
        done = await self.commands.send(session, task, command_id, supersede=supersede, fence=self._desk.fence)
        for superseded in done.superseded:
            await self._stage.admit(superseded)
        if done.state is not None and status(done.state).wake_at is not None:
            await self._stage.admit(done.run, done.state)
        return Run(self, done.run, repeated=done.repeated)

    async def wait_ended(self, run: str) -> RunState:
        """Wait until a run has ended; its final state. See `Run.wait`."""
        return await self._stage.wait_ended(run, self.commands)

    # ---- people

    async def approvals(self) -> list[PendingApproval]:
        """All calls that wait for a person."""
        return await self.commands.approvals()

    async def approve(
        self,
        action: str,
        *,
        by: Principal | str,
        reason: str | None = None,
        arguments: Mapping[str, Value] | None = None,
        digest: str | None = None,
        remember: Scope | None = None,
    ) -> Action:
        """Let a call run, as it is or with other arguments. Repeating a decision changes nothing.

        Where several must approve (`PendingApproval.quorum`), this is one vote of them.

        Args:
            action: The action's id, from `approvals`.
            by: Who decides.
            reason: Why.
            arguments: Run these instead of the model's; the original is kept beside them.
            digest: The digest of the call as it was shown (`PendingApproval.digest`): the decision is refused if
                another one stands there now.
            remember: Makes a standing rule of it: calls in that scope have this principal's approval from now on.

        Raises:
            UnknownRun, UnknownAction: No such call.
            ApprovalConflict: It was denied before, or approved with other arguments.
            NotEligible: The principal may not approve this call; the error names the rule.
            ApprovalError: It does not wait, or the arguments do not fit the tool's schema.
        """
        return await self._decide(action, Judgement("approve", principal(by), reason, arguments, digest), remember)

    async def deny(self, action: str, *, by: Principal | str, reason: str | None = None) -> Action:
        """Refuse a call; the model is told, with the reason. Raises as `approve` does."""
        return await self._decide(action, Judgement("deny", principal(by), reason))

    async def _decide(self, action: str, judgement: Judgement, remember: Scope | None = None) -> Action:
        self._check()
        found = await self.commands.decide(action, judgement, remember=remember)
        await self._stage.admit(split_action_id(action)[0])
        return found

    async def resolve(
        self, action: str, verdict: Verdict, *, by: Principal | str, evidence: str | None = None
    ) -> Action:
        """Settle a call in doubt: ``applied``, ``not_applied``, ``run_again`` or ``abandon``.

        Raises:
            UnknownRun, UnknownAction: No such call.
            ResolveError: It is not in doubt, or was settled otherwise.
        """
        self._check()
        found = await self.commands.resolve(action, verdict, by=principal(by), evidence=evidence)
        await self._stage.admit(split_action_id(action)[0])
        return found

    async def cancel(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Ask for a run's end. What is under way comes to a known end first; what cannot stays in doubt."""
        self._check()
        await self.commands.cancel(run, by=principal("api" if by == "" else by), reason=reason)
        await self._stage.admit(run)

    async def raise_limit(
        self, run: str, more: Raise | int, *, by: Principal | str = "", reason: str | None = None
    ) -> None:
        """Allow a run more; if it waits, or failed, at such a limit, it goes on, and what waits below it too.

        Args:
            run: The run whose limits are raised.
            more: By how much; a number alone is one of steps.
            by: Who allows it.
            reason: Why.

        Raises:
            UnknownRun: No such run.
            TrouperError: It is over for another reason, stands at another limit, or has none to raise.
        """
        self._check()
        await self.commands.raise_limit(run, more, by=principal("api" if by == "" else by), reason=reason)
        await self._stage.admit(run)

    async def resume(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Let a run go on that is paused, or that failed for another reason than its step limit.

        One that failed asks its model again. After replies that were cut off, answers that were not accepted, or
        evidence that was missing, it has as many tries again; after a refusal it is asked to think again.

        Raises:
            TrouperError: It is over for another reason, or at its step limit (use `raise_limit`).
        """
        self._check()
        await self.commands.resume(run, by=principal("api" if by == "" else by), reason=reason)
        await self._stage.admit(run)

    async def steer(
        self, run: str, input: str | Sequence[Message], *, by: Principal | str = "", command_id: str | None = None
    ) -> None:
        """Say something to a run under way. It hears it, in order, before it next asks its model; see `Run.steer`.

        Raises:
            UnknownRun: No such run.
            SteerError: It is over or about to be, or has too many messages unheard.
            IdempotencyConflict: The command id was used for other words.
            InvalidValue: Nothing is said, or something that cannot be journaled.
        """
        self._check()
        await self.commands.steer(run, input, by=principal("api" if by == "" else by), command_id=command_id)
        await self._stage.admit(run)

    async def pause(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Have a run begin nothing more until it is resumed; see `Run.pause`."""
        self._check()
        await self.commands.pause(run, by=principal("api" if by == "" else by), reason=reason)
        await self._stage.admit(run)

    async def extend(
        self, run: str, deadline: dt.datetime | int | None, *, by: Principal | str = "", reason: str | None = None
    ) -> None:
        """Let a run take longer; one that had failed at its deadline goes on.

        Args:
            run: The run's id.
            deadline: The new deadline, later than the present one; None for none at all.
            by: Who extends it.
            reason: Why.

        Raises:
            TrouperError: It is over for another reason, has no deadline, or the new one is not later.
        """
        self._check()
        await self.commands.extend(run, deadline, by=principal("api" if by == "" else by), reason=reason)
        await self._stage.admit(run)

    async def adopt(self, run: str, *, by: Principal | str) -> None:
        """Let a run that waits because its agent's definition changed go on under today's, and all runs below it.

        Raises:
            UnknownRun: No such run.
            UnknownAgent: Its agent is not registered here.
        """
        self._check()
        for each in await adopt_all(self.commands, self._desk, run, principal(by)):
            await self._stage.admit(each)

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

    def _check(self) -> None:
        if self._stage.failure is not None:
            raise self._stage.failure
        if self._desk.draining:
            raise RuntimeStopped("the runtime is stopping")
