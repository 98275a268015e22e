"""What the scenes of the golden run journals are played with."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from trouper import Limits, Message, Run, RunError, Runtime, SubmitOptions
from trouper.core.status import AT_ONCE, MARKS, status
from trouper.runtime.commands import PendingApproval
from trouper.testing import ManualClock


@define(eq=False)
class Player:
    """Submits runs, a minute apart, and waits for what becomes of them."""

    runtime: Runtime
    clock: ManualClock

    async def submit(
        self,
        agent: str,
        asked: str | Sequence[Message],
        limits: Limits | None = None,
        *,
        options: SubmitOptions | None = None,
    ) -> Run:
        """Submit a run; its input is its command id."""
        self.clock.advance(60)
        command = asked if isinstance(asked, str) else None
        return await self.runtime.submit(agent, asked, command_id=command, limits=limits, by="maria", options=options)

    async def played(
        self,
        agent: str,
        asked: str | Sequence[Message],
        limits: Limits | None = None,
        *,
        options: SubmitOptions | None = None,
    ) -> Run:
        """Submit a run, and see it to its end."""
        run = await self.submit(agent, asked, limits, options=options)
        await self.ended(run)
        return run

    async def until(self, run: Run, label: str) -> None:
        """Wait until a run has a label and has come to rest, with all seen by its driver that others appended."""
        async with self.runtime.journal.news() as news:
            while not await self._rests(run, label):
                await news.wait()

    async def _rests(self, run: Run, label: str) -> bool:
        told = status(state := await run.state())
        head = await self.runtime.journal.head(f"run/{run.id}")
        seen = head is not None and (head.wake_at is None or head.wake_at in MARKS or head.wake_at > self.clock.now())
        return told.label == label and (state.ended or (told.wake_at != AT_ONCE and seen))

    async def asked(self, run: Run) -> Sequence[PendingApproval]:
        """The calls of a run that wait for somebody."""
        await self.until(run, "awaiting_approval")
        return [each for each in await self.runtime.approvals() if each.run == run.id]

    async def ended(self, run: Run) -> None:
        """Wait until a run has ended, however it does."""
        try:
            await run.wait()
        except RunError:
            return
