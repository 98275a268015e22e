"""The handle of a run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, final

from trouper.core.budget import Raise
from trouper.core.conversation import Message
from trouper.core.events import Principal
from trouper.core.fork import WhatIf
from trouper.core.must_be import must_be
from trouper.core.state import RunState
from trouper.runtime.artifacts import Artifact, artifacts_of
from trouper.runtime.commands import Commands
from trouper.runtime.descent import ChildRun
from trouper.runtime.results import RunResult, outcome_of, result_of
from trouper.runtime.stream import RunStream
from trouper_journal import Journal, Record


class Host(Protocol):
    """What a handle needs of its runtime."""

    @property
    def journal(self) -> Journal:
        """The journal."""
        ...

    @property
    def commands(self) -> Commands:
        """Commands on the journal's runs."""
        ...

    def named(self, state: RunState) -> Mapping[str, Any]:
        """A run's named state as Python values."""
        ...

    async def wait_ended(self, run: str) -> RunState:
        """Wait until a run has ended; its final state."""
        ...

    async def fork(
        self, run: str, what_if: WhatIf, *, by: Principal | str | None = None, command_id: str | None = None
    ) -> Run:
        """Begin a new run from a place in another's history."""
        ...

    def stream(self, run: str, *, after: int, below: bool, room: int, lag: Literal["skip", "disconnect"]) -> RunStream:
        """A run as it happens."""
        ...

    def output_of(self, state: RunState) -> object:
        """A run's output, as its agent's type has it."""
        ...

    async def cancel(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Ask for a run's end."""
        ...

    async def raise_limit(
        self, run: str, more: Raise | int, *, by: Principal | str = "", reason: str | None = None
    ) -> None:
        """Raise a run's limits."""
        ...

    async def steer(
        self,
        run: str,
        input: str | Sequence[Message],
        *,
        by: Principal | str = "",
        command_id: str | None = None,
    ) -> None:
        """Say something to a run under way."""
        ...

    async def pause(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Have a run begin nothing more."""
        ...

    async def extend(
        self, run: str, deadline: dt.datetime | int | None, *, by: Principal | str = "", reason: str | None = None
    ) -> None:
        """Let a run take longer."""
        ...

    async def resume(self, run: str, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Let a run go on."""
        ...


@final
class Run:
    """A run, by its id. It holds nothing that the journal does not hold: keep it, drop it, get another.

    Attributes:
        id: The run's id.
        repeated: Whether the submit that gave this handle repeated an earlier one.
    """

    __slots__ = ("_runtime", "id", "repeated")

    def __init__(self, runtime: Host, run: str, *, repeated: bool = False) -> None:
        self._runtime = runtime
        self.id = must_be(run, str, "run")
        self.repeated = repeated

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    async def wait(self) -> RunResult:
        """Wait until the run has ended.

        A run that waits for a person keeps this waiting too. Being cancelled here ends the waiting, not the run.

        Returns:
            The result of a run that succeeded.

        Raises:
            RunFailed, BudgetExceeded, StepLimitExceeded, DeadlineExceeded, OutputTruncated, OutputInvalid,
                RunIncomplete, ModelRefused, RunCancelled: It ended otherwise; ``result`` has what it came to.
            UnknownRun: There is no such run.
            UnknownEvent, JournalCorrupt: This process cannot read its stream; it is left as it is.
            RuntimeStopped: The runtime stopped first; the run goes on when it is opened again.
        """
        state = await self._runtime.wait_ended(self.id)
        return outcome_of(state, self._runtime.output_of(state), self._runtime.named(state))

    async def result(self) -> RunResult:
        """How the run stands now, without waiting."""
        state = await self.state()
        return result_of(state, self._runtime.output_of(state), self._runtime.named(state))

    async def history(self) -> tuple[Message, ...]:
        """The whole conversation: what the run started from (see `RunResult.messages` for its own), then its own."""
        return await self._runtime.commands.history(self.id)

    async def state(self) -> RunState:
        """The run's state, folded from the journal."""
        return await self._runtime.commands.state(self.id)

    async def children(self) -> list[ChildRun]:
        """All runs below this one, at any depth, in the order in which they began."""
        return await self._runtime.commands.children(self.id)

    async def events(self, *, after: int = 0) -> list[tuple[Record, object]]:
        """The run's records with their events, in order.

        Args:
            after: Only those with versions above this.
        """
        journal = self._runtime.journal
        return [
            (record, journal.registry.decode(record)) async for record in journal.read(f"run/{self.id}", after=after)
        ]

    async def artifacts(self) -> list[Artifact]:
        """What the run's tools kept beside their results, in the order in which they were called."""
        return artifacts_of(self.id, [event for _, event in await self.events()])

    async def fork(self, what_if: WhatIf, *, by: Principal | str | None = None, command_id: str | None = None) -> Run:
        """Begin a new run from a place in this one's history, with something changed there; this one is not touched.

        What the new run may do outside is contained. A call that this run made with the same arguments is answered by
        its recorded receipt, each receipt once; a read without a record is made; any other call is blocked, simulated,
        or waits for a person's approval, as ``what_if.writes`` says. Sub-agents that it calls are contained likewise.

        Args:
            what_if: What shall be different.
            by: Who asks.
            command_id: Makes the call idempotent, as for `Runtime.submit`.

        Raises:
            UnknownRun: This run is not in the journal, or has no such version.
            UnknownAgent: No agent of that name is registered here.
            ForkError: An edit names nothing there, or nothing is left to start from.
            IdempotencyConflict: The command id was used for something else.
        """
        return await self._runtime.fork(self.id, what_if, by=by, command_id=command_id)

    def stream(
        self, *, after: int = 0, below: bool = False, room: int = 1000, lag: Literal["skip", "disconnect"] = "skip"
    ) -> RunStream:
        """The run as it happens, for ``async with`` and then ``async for``: what is recorded, and live pieces between.

        Everything recorded comes once and in order (`Recorded`, with the messages that it added), whatever was missed
        live; the run's end comes last (`Ended`). Pieces of replies and tools' progress come only while they happen, and
        carry the attempt that they are of; where an attempt came to nothing, `Superseded` says so. Any number may
        listen; none holds the run up, and leaving early does it no harm.

        Models are asked to stream only while somebody listens.

        Args:
            after: Leave out what was recorded up to this version of the run's stream.
            below: Bring the events of the runs below it too, each in its own order.
            room: How many items may wait for this listener.
            lag: Where more come than it takes: ``skip`` pieces (`Skipped` says how many; nothing recorded is lost), or
                ``disconnect`` it with `StreamOverrun`.
        """
        return self._runtime.stream(self.id, after=after, below=below, room=room, lag=lag)

    async def cancel(self, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Ask for the run's end; `wait` tells when it has come."""
        await self._runtime.cancel(self.id, by=by, reason=reason)

    async def steer(
        self, input: str | Sequence[Message], *, by: Principal | str = "", command_id: str | None = None
    ) -> None:
        """Say something to the run while it is under way.

        It enters the conversation at the next place where that is valid for the wire: after the calls of a reply have
        all been answered, and before the next request, a repeated one included. A run whose last reply would end it
        hears it first and goes on. When this returns, what was said is in the journal; it is heard exactly once, in
        order, also after a restart. An approval that is open stays open: free text approves nothing.

        Args:
            input: Text, or messages of a person (`Human`, `System`); ids in them are replaced.
            by: Who says it.
            command_id: Makes the call idempotent within the run: what is repeated has no second effect.

        Raises:
            SteerError: The run is over or about to be, or has too many messages unheard.
            IdempotencyConflict: The command id was used for other words.
            InvalidValue: Nothing is said, or something that cannot be journaled.
        """
        await self._runtime.steer(self.id, input, by=by, command_id=command_id)

    async def pause(self, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Have the run, and all runs below it, begin nothing more until `resume`: no request, no attempt at a call.

        What is under way ends and is recorded; approvals can be decided and expire; the run leaves memory, and stays
        paused over restarts. The runs of its sub-agents are paused, and go on, with it. A run that is over, or being
        cancelled, is left as it is.
        """
        await self._runtime.pause(self.id, by=by, reason=reason)

    async def resume(self, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Let the run go on that is paused, or failed for want of a reply; see `Runtime.resume`."""
        await self._runtime.resume(self.id, by=by, reason=reason)

    async def extend(
        self, deadline: dt.datetime | int | None, *, by: Principal | str = "", reason: str | None = None
    ) -> None:
        """Let the run take longer; one that had failed at its deadline goes on. See `Runtime.extend`."""
        await self._runtime.extend(self.id, deadline, by=by, reason=reason)

    async def raise_limit(self, more: Raise | int, *, by: Principal | str = "", reason: str | None = None) -> None:
        """Allow more; if the run waits, or failed, at such a limit, it goes on, and what waits below it too.

        Args:
            more: By how much; a number alone is one of steps.
            by: Who allows it.
            reason: Why.

        Raises:
            TrouperError: The run is over for another reason, stands at another limit, or has none to raise.
        """
        await self._runtime.raise_limit(self.id, more, by=by, reason=reason)
