"""What people do to the runs of a runtime: decide, settle, steer, stop, and let go on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from attrs import define

from trouper.approvals import Scope
from trouper.core.budget import Raise
from trouper.core.commands import Judgement, Verdict, split_action_id
from trouper.core.conversation import Message
from trouper.core.events import Principal
from trouper.core.state import Action
from trouper.errors import RuntimeStopped
from trouper.runtime.adopting import adopt_all
from trouper.runtime.commands import Commands, PendingApproval
from trouper.runtime.desk import Desk
from trouper.runtime.stage import Stage
from trouper.runtime.tasks import principal
from trouper_journal import Journal, Printable, Value


@define(eq=False, repr=False)
class Controls(Printable):
    """The part of a runtime that people have to do with; each command has the run look at once at what it was told."""

    journal: Journal
    commands: Commands
    _desk: Desk
    _stage: Stage

    # ---- deciding

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
        self._stage.admit(split_action_id(action)[0])
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
        self._stage.admit(split_action_id(action)[0])
        return found

    # ---- steering

    async def cancel(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Ask for a run's end. What is under way comes to a known end first; what cannot stays in doubt."""
        self._check()
        await self.commands.cancel(run, by=principal("api" if by == "" else by), reason=reason)
        self._stage.admit(run)

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
        self._stage.admit(run)

    async def resume(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Let a run go on that is paused, or that failed for another reason than its step limit.

        One that failed asks its model again. After replies that were cut off, answers that were not accepted, or
        evidence that was missing, it has as many tries again; after a refusal it is asked to think again.

        Raises:
            TrouperError: It is over for another reason, or at its step limit (use `raise_limit`).
        """
        self._check()
        await self.commands.resume(run, by=principal("api" if by == "" else by), reason=reason)
        self._stage.admit(run)

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
        self._stage.admit(run)

    async def pause(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Have a run begin nothing more until it is resumed; see `Run.pause`."""
        self._check()
        await self.commands.pause(run, by=principal("api" if by == "" else by), reason=reason)
        self._stage.admit(run)

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
        self._stage.admit(run)

    async def adopt(self, run: str, *, by: Principal | str) -> None:
        """Let a run that waits because its agent's definition changed go on under today's, and all runs below it.

        Raises:
            UnknownRun: No such run.
            UnknownAgent: Its agent is not registered here.
        """
        self._check()
        for each in await adopt_all(self.commands, self._desk, run, principal(by)):
            self._stage.admit(each)

    def _check(self) -> None:
        if self._stage.failure is not None:
            raise self._stage.failure
        if self._desk.draining:
            raise RuntimeStopped("the runtime is stopping")
