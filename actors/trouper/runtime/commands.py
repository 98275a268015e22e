"""What people and programs ask of runs, from any process that can open the journal.

Each command folds the stream, asks the same pure rule that the driver follows, and appends on the condition that
nobody else appended meanwhile; else it looks again. None of it needs the agent's code.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from attrs import field, frozen

from trouper._clock import Clock, SystemClock
from trouper._ids import Entropy, SystemEntropy, ulid
from trouper._moments import nanoseconds
from trouper.approvals import Scope
from trouper.core.budget import Raise
from trouper.core.commands import (
    Already,
    Judgement,
    Verdict,
    cancel_run,
    decide_approval,
    expired,
    find_action,
    raise_limit,
    resolve_action,
    resume_run,
    split_action_id,
    too_late,
)
from trouper.core.control_commands import extend_deadline, pause_run
from trouper.core.conversation import Message
from trouper.core.events import Principal
from trouper.core.evolve import evolve
from trouper.core.fork import WhatIf
from trouper.core.must_be import must_be
from trouper.core.rule_events import APPROVALS
from trouper.core.rules import StandingRule, evolve_book, revoke_rule
from trouper.core.state import Action, RunState
from trouper.core.status import AWAITING, DRIFTED, IN_DOUBT, PAUSED
from trouper.errors import (
    EditError,
    JournalCorrupt,
    UnknownEvent,
    VersionConflict,
)
from trouper.runtime.descent import ChildRun, descendants
from trouper.runtime.editing import Editing, Validate, anything
from trouper.runtime.forking import begin_fork
from trouper.runtime.histories import Histories, run_state
from trouper.runtime.ledger import BELOW
from trouper.runtime.pending import PendingApproval as PendingApproval
from trouper.runtime.pending import pending_of
from trouper.runtime.remembering import remembered
from trouper.runtime.rulebook import RuleBook
from trouper.runtime.sending import Lines, send
from trouper.runtime.sessions import reopened
from trouper.runtime.steering import change_tree, steer, write_of
from trouper.runtime.submitting import begin
from trouper.runtime.tasks import Submission, Task, principal
from trouper.runtime.topping_up import released
from trouper_journal import Journal, Key, Plain, StreamHead, Write


@frozen(slots=False, repr=False, eq=False)
class Commands(Plain):
    """Commands on the runs of a journal.

    Attributes:
        journal: The journal.
        clock: Source of time; the machine's by default.
        entropy: Source of ids and randomness; the machine's by default.
        validate: Takes agent, tool and edited arguments, and raises ArgumentsError where the tool itself would refuse
            them; for processes that have the tools. Without it an edit is held against the journaled schema alone.
    """

    journal: Journal
    clock: Clock = field(factory=SystemClock)
    entropy: Entropy = field(factory=SystemEntropy)
    validate: Validate = field(default=anything, repr=False)
    histories: Histories = field(init=False, repr=False)
    rulebook: RuleBook = field(init=False, repr=False)
    _lines: Lines = field(factory=Lines, init=False, repr=False)
    _editing: Editing = field(init=False, repr=False)

    @histories.default
    def _histories(self) -> Histories:
        return Histories(self.journal)

    @rulebook.default
    def _rulebook(self) -> RuleBook:
        return RuleBook(self.journal)

    @_editing.default
    def _edits(self) -> Editing:
        return Editing(self.journal, self.validate)

    # ---- reading

    async def history(self, run: str) -> tuple[Message, ...]:
        """The whole conversation of a run: what it started from, then its own messages.

        Raises:
            UnknownRun: There is none of that id.
            UnknownEvent: It was written by a newer release.
        """
        state = await self.state(run)
        return (*await self.histories.before(state), *state.messages)

    async def state(self, run: str) -> RunState:
        """Fold a run.

        Raises:
            UnknownRun: There is none of that id.
            UnknownEvent: It was written by a newer release.
        """
        return await run_state(self.journal, run)

    def runs(self, label: str | None = None) -> AsyncIterator[StreamHead]:
        """Heads of the runs' streams, oldest run first, from the index alone."""
        return aiter(self.journal.streams(label=label, prefix="run/"))

    async def children(self, run: str) -> list[ChildRun]:
        """All runs below a run, in the order in which they began; empty where it calls no sub-agents."""
        return await descendants(self.journal, run)

    async def approvals(self, unreadable: Callable[[Exception], None] = lambda _: None) -> list[PendingApproval]:
        """All calls that wait for a person, oldest run first; runs that cannot be read here are left out.

        Args:
            unreadable: Called with why, for each of those.
        """
        found: list[PendingApproval] = []
        now = self.clock.now()
        for label in (AWAITING, IN_DOUBT, DRIFTED, PAUSED):
            async for head in self.runs(label):
                try:
                    state = await self.state(head.stream.removeprefix("run/"))
                except (UnknownEvent, JournalCorrupt) as error:
                    unreadable(error)
                    continue
                waiting = () if state.stopping or too_late(state, now) else state.awaiting
                found += [pending_of(state, action) for action in waiting if not expired(action, now)]
        return sorted(found, key=lambda pending: pending.run)

    # ---- submitting

    async def submit(self, task: Task, command_id: str | None = None) -> Submission:
        """Begin a run, or find the one that this command began before.

        Raises:
            IdempotencyConflict: The command id was used for another task.
            InvalidValue: The input cannot be journaled, or the command id is none.
            UnknownRun: The history that it shall start from does not exist.
        """
        return await begin(self, must_be(task, Task, "task"), command_id)

    async def send(
        self,
        session: str,
        task: Task,
        command_id: str | None = None,
        *,
        supersede: bool = False,
    ) -> Submission:
        """Send a message to a session, or find the turn that this command began before; see `Session.send`.

        Args:
            session: The session's id; it is opened with its first message.
            task: What is sent; its agent may be left empty where the session exists.
            command_id: Makes the call idempotent within the session.
            supersede: Deny all calls of the turn under way that wait for a person.

        Raises:
            UnknownSession: There is none of that id, and no agent is named.
            SessionError: It is with another agent.
            IdempotencyConflict: The command id was used for something else.
            InvalidValue: The input cannot be journaled, or an id is none.
        """
        async with self._lines.stand_in(session):
            return await send(self, session, must_be(task, Task, "task"), command_id, supersede=supersede)

    async def fork(
        self, run: str, what_if: WhatIf, *, by: Principal | None = None, command_id: str | None = None
    ) -> Submission:
        """Begin a new run from a place in another's history, with something changed; the other is not touched.

        Args:
            run: The run to fork.
            what_if: What shall be different.
            by: Who asks.
            command_id: Makes the call idempotent, as for a submit.

        Raises:
            UnknownRun: No such run, or no such version of it.
            ForkError: An edit names nothing there, or nothing is left to start from.
            IdempotencyConflict: The command id was used for something else.
        """
        return await begin_fork(self, run, must_be(what_if, WhatIf, "what_if"), by, command_id)

    # ---- steering

    async def steer(
        self, run: str, said_now: str | Sequence[Message], *, by: Principal, command_id: str | None = None
    ) -> RunState:
        """Send messages to a run under way: it hears them, in order, before it next asks its model.

        Args:
            run: The run's id.
            said_now: Text, or messages of a person (`Human`, `System`); ids in them are replaced.
            by: Who says it.
            command_id: Makes the call idempotent within the run: what is repeated has no second effect.

        Returns:
            The run as it stands afterwards.

        Raises:
            UnknownRun: No such run.
            SteerError: The run is over or about to be, or has too many messages unheard.
            IdempotencyConflict: The command id was used for other words.
            InvalidValue: Nothing is said, or something that cannot be journaled.
        """
        return await steer(self, run, said_now, by, command_id)

    async def pause(self, run: str, *, by: Principal, reason: str | None) -> RunState:
        """Have a run, and all runs below it, begin nothing more until it is resumed; see `pause_run`."""
        return await change_tree(self, run, lambda state: pause_run(state, by=by, reason=reason))

    async def extend(
        self, run: str, deadline: dt.datetime | int | None, *, by: Principal, reason: str | None
    ) -> RunState:
        """Let a run take longer; see `extend_deadline`."""
        moment = None if deadline is None else nanoseconds(deadline, "deadline")
        return await self._append(
            run, lambda state: extend_deadline(state, moment, by=by, reason=reason, now=self.clock.now())
        )

    # ---- deciding

    async def decide(self, action_id: str, judgement: Judgement, *, remember: Scope | None = None) -> Action:
        """Approve or deny; the action as it stands afterwards.

        Args:
            action_id: The call.
            judgement: The decision, or the vote where several must approve.
            remember: Makes a standing rule of the approval, in the same commit: it stands for this principal's
                approval of all calls in that scope. One that was approved before can be remembered by repeating it.

        Raises:
            UnknownRun, UnknownAction: No such call.
            ApprovalConflict: It was decided otherwise before.
            NotEligible: The principal may not take this decision.
            InvalidValue: A denial, or something that is no scope, was to be remembered.
            ApprovalError: It does not wait, or the edited arguments do not fit its schema.
        """
        run, name = split_action_id(action_id)
        principal(must_be(judgement, Judgement, "judgement").by)
        if judgement.digest is not None:
            must_be(judgement.digest, str, "digest")
        if judgement.arguments is not None:
            edit: object = judgement.arguments
            if not isinstance(edit, Mapping):
                found = type(edit).__name__
                raise EditError(f"action {action_id}: the edit is {found}, not a mapping of arguments by name")
            await self._editing.check(await self.state(run), name, judgement.arguments)
        now = self.clock.now()
        also = None
        if remember is not None:
            rule = ulid(now, self.entropy)
            also = remembered(self.rulebook, name, judgement, remember, rule=rule, now=now).writes
        state = await self._append(
            run, lambda state: decide_approval(state, name, judgement, now=self.clock.now()), also=also
        )
        return find_action(state, name)

    async def rules(self) -> list[StandingRule]:
        """All standing rules, oldest first, those that are over too."""
        return list((await self.rulebook.read()).rules.values())

    async def revoke_rule(self, rule: str, *, by: Principal, reason: str | None = None) -> StandingRule:
        """End a standing rule, for calls that are planned from now on; one that is over stays as it is.

        Raises:
            UnknownRule: There is none of that id.
        """
        principal(by)
        must_be(rule, str, "rule")
        while True:
            book = await self.rulebook.read()
            event = revoke_rule(book, rule, by=by, reason=reason)
            if event is None:
                return book.rules[rule]
            with suppress(VersionConflict):
                await self.journal.commit([Write(APPROVALS, [event], expected=book.version)])
                return evolve_book(book, event).rules[rule]

    async def resolve(self, action_id: str, verdict: Verdict, *, by: Principal, evidence: str | None) -> Action:
        """Settle a call in doubt; the action as it stands afterwards.

        Raises:
            UnknownRun, UnknownAction: No such call.
            ResolveError: It is not in doubt, or was settled otherwise.
        """
        run, name = split_action_id(action_id)
        principal(by)
        state = await self._append(run, lambda state: resolve_action(state, name, verdict, by=by, evidence=evidence))
        return find_action(state, name)

    async def cancel(self, run: str, *, by: Principal, reason: str | None) -> RunState:
        """Ask for a run's end; it comes when the driver has seen what is under way to a known end."""
        return await self._append(run, lambda state: cancel_run(state, by=by, reason=reason))

    async def raise_limit(self, run: str, more: Raise | int, *, by: Principal, reason: str | None) -> RunState:
        """Allow a run more; one that waits, or failed, at such a limit goes on, and what waits below it too."""
        while True:
            state = await self.state(run)
            event = raise_limit(state, more, by=by, reason=reason, now=self.clock.now())
            others = (*await self._beside(state, event), *await released(self.journal, self.state, run, event))
            try:
                await self.journal.commit([write_of(state, event), *others])
            except VersionConflict:
                continue
            return evolve(state, event)

    async def _beside(self, state: RunState, event: object) -> tuple[Write, ...]:
        """What stands in other streams in the same commit: a session's turn that goes on takes its place again."""
        goes_on = state.ended and not evolve(state, event).ended
        return tuple(await reopened(self.journal, state)) if goes_on else ()

    async def below(self, root: str) -> list[str]:
        """The ids of all runs below a run."""
        prefix = f"run/{root}{BELOW}"
        return [head.stream.removeprefix("run/") async for head in self.journal.streams(prefix=prefix)]

    async def resume(self, run: str, *, by: Principal, reason: str | None) -> RunState:
        """Let a paused or failed run go on, and all paused runs below it; see `resume_run`."""
        return await change_tree(self, run, lambda state: resume_run(state, by=by, reason=reason))

    async def _append(
        self,
        run: str,
        rule: Callable[[RunState], object],
        key: Key | None = None,
        also: Callable[[RunState], Awaitable[Sequence[Write]]] | None = None,
    ) -> RunState:
        """Append what a rule says, with what goes with it in other streams."""
        while True:
            state = await self.state(run)
            event = rule(state)
            done = isinstance(event, Already)
            after = state if done else evolve(state, event)
            writes = [] if done else [write_of(state, event), *await self._beside(state, event)]
            if also is not None:
                writes += await also(after)
            if not writes:
                return state
            try:
                await self.journal.commit(writes, require={f"run/{run}": state.version}, key=key)
            except VersionConflict:
                continue
            return after
