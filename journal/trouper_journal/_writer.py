"""Group commit: one task takes all that waits, writes it in one transaction, and answers each caller.

The task is shielded: a cancelled program can still write what it must while it unwinds. Callers wait in
one-shot slots; a caller that is cancelled leaves its slot, and what it offered is withdrawn unless the
task has taken it up already.

A caller that is alone hands its own batch to the storage, and the task wakes up meanwhile, to wait for the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Final

import attrs
import outcome
import trio

from trouper_journal._clock import Clock
from trouper_journal._errors import JournalBroken, JournalClosed, JournalError
from trouper_journal._news import NewsHub
from trouper_journal._options import JournalOptions
from trouper_journal._planner import Plan, Planner, Proposal, Verdict, concerned_keys, concerned_streams
from trouper_journal._printable import Printable
from trouper_journal._records import Committed, KeyEntry
from trouper_journal._statistics import WriterStatistics
from trouper_journal._store import Batch, Known, Store

_TRIES: Final = 5
"""How often a plan is made on what was read before, and the write lock taken for writing alone. Where others write
all the time, the next plan is made under the lock, so that nobody is kept waiting for ever."""


class Slot:
    """Holds a proposal and, later, what came of it; the answer may come before or after the wait."""

    __slots__ = ("_answer", "_task", "proposal", "withdrawn")

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.withdrawn = False
        self._answer: Verdict | None = None
        self._task: trio.lowlevel.Task | None = None

    @property
    def answered(self) -> bool:
        return self._answer is not None

    def answer(self, verdict: Verdict) -> None:
        if self._answer is not None:
            return
        self._answer = verdict
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Value(None))

    async def wait(self) -> Committed | KeyEntry:
        """What came of the proposal; cancelled, it is withdrawn unless it was taken up already.

        Raises:
            JournalError: It was refused, or the storage failed.
        """
        if self._answer is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        verdict = self._answer
        assert verdict is not None
        if isinstance(verdict, JournalError):
            raise verdict
        return verdict

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self.withdrawn = True
        return trio.lowlevel.Abort.SUCCEEDED


@attrs.define(slots=True, eq=False, repr=False)
class _Begun(Printable):
    """A batch that its caller has handed to the storage.

    Attributes:
        written: To be awaited by the task; tells whether its base stood.
    """

    slot: Slot
    plan: Plan
    written: Awaitable[bool]


class Writer:
    """The task and its queue.

    Args:
        store: Where to write.
        clock: Tells the time of each commit.
        options: Limits.
        news: Told of every commit.
    """

    def __init__(self, store: Store, clock: Clock, options: JournalOptions, news: NewsHub) -> None:
        self._store = store
        self._options = options
        self._news = news
        self._planner = Planner(store.journal_id, clock.now)
        self._queue: deque[Slot] = deque()
        self._work = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope(shield=True)
        self._ended = trio.Event()
        self._closing = False
        self._broken: JournalBroken | None = None
        self._begun: _Begun | None = None
        self._alone = True
        self._batches = self._commits = self._refused = self._repetitions = 0

    def statistics(self) -> WriterStatistics:
        """A snapshot of the writer's counters."""
        return WriterStatistics(
            waiting=len(self._queue),
            batches=self._batches,
            commits=self._commits,
            refused=self._refused,
            repetitions=self._repetitions,
        )

    async def submit(self, proposal: Proposal) -> Slot:
        """Put a proposal into the queue, once there is room; its slot is to be waited for.

        Raises:
            JournalClosed: The journal is being left; nothing was written.
            JournalBroken: An earlier commit's outcome is unknown; nothing was written.
        """
        while len(self._queue) >= self._options.max_waiting and not self._closing:
            await self._room.park()
        return self.submit_nowait(proposal)

    @property
    def has_room(self) -> bool:
        """Whether ``submit_nowait`` keeps within the bound of the queue."""
        return len(self._queue) < self._options.max_waiting

    def submit_nowait(self, proposal: Proposal) -> Slot:
        """Put a proposal into the queue, as ``submit``."""
        if self._closing:
            raise JournalClosed
        if self._broken is not None:
            raise _again(self._broken)
        slot = Slot(proposal)
        if self._work:
            # Where many wait for one batch, the first of them must not take off without the others.
            if not (self._alone and self._begin(slot)):
                self._queue.append(slot)
            self._work.unpark()
        else:
            self._queue.append(slot)
        return slot

    @trio.lowlevel.enable_ki_protection
    def _begin(self, slot: Slot) -> bool:
        """Hand a caller's batch to the storage, where it can be planned on what is known and the task is idle."""
        proposals = [slot.proposal]
        if self._begun is not None or self._queue or self._planner.unknown(proposals) is not None:
            return False
        plan = self._planner.plan(proposals)
        if plan.batch is None or plan.doubtful:
            return False
        try:
            written = self._store.write(plan.batch)
        except JournalError:
            # The task will meet it again, and tell.
            return False
        self._begun = _Begun(slot, plan, written)
        self._news.writing = True
        return True

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Body of the task: until ``close`` and nothing waits."""
        taken: list[Slot] = []
        try:
            with self._scope:
                while True:
                    begun, self._begun = self._begun, None
                    if begun is None and not self._queue:
                        if self._closing:
                            break
                        await self._work.park()
                        continue
                    taken = self._take() if begun is None else [begun.slot]
                    if taken:
                        self._alone = len(taken) == 1
                        await self._settle(taken, begun)
        finally:
            lost = JournalBroken("the storage did not answer in time; whether this commit was written is unknown")
            for slot in taken:
                slot.answer(_again(lost))
            self._refuse_waiting(JournalClosed())
            self._closing = True
            self._ended.set()

    async def close(self, patience: float) -> bool:
        """Take no more, write what waits, end; False where the storage hung for ``patience`` seconds."""
        self._closing = True
        self._work.unpark()
        self._room.unpark_all()
        with trio.move_on_after(patience):
            await self._ended.wait()
            return not self._scope.cancelled_caught
        self._scope.cancel()
        await self._ended.wait()
        return False

    def _take(self) -> list[Slot]:
        taken: list[Slot] = []
        events = 0
        queue = self._queue
        while queue and (not taken or events + queue[0].proposal.size <= self._options.max_batch):
            slot = queue.popleft()
            if not slot.withdrawn:
                taken.append(slot)
                events += slot.proposal.size
        self._room.unpark(count=max(0, self._options.max_waiting - len(queue)))
        return taken

    async def _settle(self, slots: Sequence[Slot], begun: _Begun | None) -> None:
        try:
            verdicts = await self._write([slot.proposal for slot in slots], begun)
        except JournalError as error:
            for slot in slots:
                slot.answer(_again(error))
            if isinstance(error, JournalBroken):
                self._broken = error
                self._refuse_waiting(error)
            return
        for slot, verdict in zip(slots, verdicts, strict=True):
            slot.answer(verdict)
            if isinstance(verdict, Committed):
                self._commits += 1
            elif isinstance(verdict, JournalError):
                self._refused += 1

    async def _write(self, proposals: Sequence[Proposal], begun: _Begun | None) -> Sequence[Verdict]:
        """Plan and write, again with fresh knowledge as long as other processes get in between."""
        planner = self._planner
        careful = False
        if begun is not None:
            if await self._watched(begun.written):
                return self._written(proposals, begun.plan)
            careful = True
            self._repetitions += 1
        for _ in range(_TRIES):
            wanted = concerned_streams(proposals) if careful else planner.unknown(proposals)
            if wanted is not None:
                known = await self._store.load(wanted, concerned_keys(proposals))
                self._news.heard(known.head.position)
                if not planner.learn(known, wanted) and not careful:
                    careful = True
                    continue
            plan = planner.plan(proposals)
            if plan.doubtful and not careful:
                careful = True
                continue
            if plan.batch is None:
                return plan.verdicts
            if await self._watched(self._store.write(plan.batch)):
                return self._written(proposals, plan)
            careful = True
            self._repetitions += 1
        return await self._write_locked(proposals)

    async def _write_locked(self, proposals: Sequence[Proposal]) -> Sequence[Verdict]:
        streams = concerned_streams(proposals)
        plans: list[Plan] = []

        def plan(known: Known) -> Batch | None:
            self._planner.learn(known, streams)
            plans.append(self._planner.plan(proposals))
            return plans[-1].batch

        await self._watched(self._store.write_locked(streams, concerned_keys(proposals), plan))
        return self._written(proposals, plans[-1])

    def _written(self, proposals: Sequence[Proposal], plan: Plan) -> Sequence[Verdict]:
        if plan.batch is None:
            self._news.heard(self._planner.position)
            return plan.verdicts
        self._batches += 1
        self._planner.apply(plan)
        streams = _unfenced(proposals, plan.verdicts) if self._news.subscribed else {}
        self._news.wrote(plan.batch.base.position, self._planner.position, streams)
        return plan.verdicts

    async def _watched(self, write: Awaitable[bool]) -> bool:
        self._news.writing = True
        try:
            return await write
        finally:
            self._news.writing = False

    def _refuse_waiting(self, error: JournalError) -> None:
        while self._queue:
            self._queue.popleft().answer(_again(error))
        self._room.unpark_all()


def _unfenced(proposals: Sequence[Proposal], verdicts: Sequence[Verdict]) -> dict[str, int]:
    """The streams that were appended to by others than the driver, with their versions now."""
    streams: dict[str, int] = {}
    for proposal, verdict in zip(proposals, verdicts, strict=True):
        if proposal.fence is None and isinstance(verdict, Committed):
            streams.update((record.stream, record.version) for record in verdict.records)
    return streams


def _again(error: JournalError) -> JournalError:
    """An error of its own for each caller, as a raised one collects the traceback of whoever raises it."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error
    return copied
