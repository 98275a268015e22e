"""The agent actor: fold, decide, record, carry out; it leaves memory when its run has nothing to do.

One turn takes in what was delivered and what others appended, lets the rules decide until they ask for nothing more,
and commits all of that at once; only then is anything launched. If somebody appended meanwhile, nothing was written
and the turn is taken again on what stands now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from trouper.core import events as ev
from trouper.core.decide import decide
from trouper.core.decide_control import overtaken, preempted
from trouper.core.evolve import evolve
from trouper.core.state import RunState
from trouper.core.status import MARKS, next_alarm, status
from trouper.core.steps import QueryAction, StartAction, Step, due
from trouper.errors import (
    ActorError,
    ContentWithheld,
    InvalidValue,
    InvalidWrite,
    JournalCorrupt,
    JournalError,
    StorageBusy,
    UnknownEvent,
    VersionConflict,
)
from trouper.kit import Actor
from trouper.runtime.broadcast import Told
from trouper.runtime.children import word_to_parent
from trouper.runtime.desk import Desk
from trouper.runtime.domains import domain_of, is_withheld, why_withheld
from trouper.runtime.flights import Flights
from trouper.runtime.launches import Launch, Plan
from trouper.runtime.plan_approvals import merged
from trouper.runtime.planning import Planner, definition_writes
from trouper.runtime.protocol import AgentMessage, Outcome, Ring, Wake
from trouper.runtime.recording import SECOND, Recorder, unrecordable
from trouper.runtime.sessions import session_writes
from trouper.tools import defaults_of
from trouper_journal import Committed, Record, Write

_PAGE = 500
_BUSY_TRIES = 6


class AgentActor(Actor[AgentMessage]):
    """Drives one run."""

    def __init__(self, run: str, desk: Desk, known: RunState | None = None) -> None:
        self.run = run
        self._desk = desk
        self._stream = f"run/{run}"
        self._state = known or RunState(run)
        self._planner = Planner.of(desk, desk.agents.get(self._state.agent))
        self._recorder = Recorder(desk.clock.now, desk.random, lambda: desk.draining, desk.state_keys, desk.price)
        self._outcomes: deque[Outcome] = deque()
        self._flights: Flights
        self._rung = False
        self._news = known is None
        self._fresh = True
        # A stream that somebody else appended to stays due until its driver has appended again.
        self._overdue = known is not None
        self._announced = False
        self._one_by_one = False
        self._stripped = False

    async def started(self) -> None:
        """Take the first turn."""
        self._flights = Flights(self.run, self._desk, self.deliver, self.context.start_task)
        self._ring()

    async def stopped(self) -> None:
        """Let go of what points back here: a run's memory is then free at once, not when garbage is next collected."""
        del self._flights
        self._desk.ledgers.left(self.run)

    def deliver(self, outcome: Outcome) -> None:
        """Take an outcome in; never waits."""
        self._outcomes.append(outcome)
        self._ring()

    def _ring(self) -> None:
        """Have a turn taken; never raises, because it is others who deliver."""
        if self._rung:
            return
        try:
            self.context.ref.tell_nowait(Ring())
        except ActorError:
            # Full: a turn will be taken anyway. Stopped: whoever delivers holds the outcome until it is settled.
            return
        self._rung = True

    async def receive(self, message: AgentMessage) -> None:
        """Turn until there is nothing more to do at once."""
        if isinstance(message, Wake):
            self._news = True
        else:
            self._rung = False
        try:
            while self._news or self._outcomes or self._fresh:
                if not await self._turn():
                    return
        except (UnknownEvent, JournalCorrupt, InvalidValue, InvalidWrite, ContentWithheld) as error:
            self._leave_for_good(error)
            return
        except JournalError as error:
            self._desk.audience.broken(error)
            self.context.stop()
            return
        await self._rest()

    # ---- one turn

    async def _turn(self) -> bool:
        if self._news:
            self._news = False
            self._desk.audience.reading(self.run)
            if not await self._read():
                return False
        taken = list(self._outcomes)[: 1 if self._one_by_one else None]
        try:
            turn = await self._take_in(taken)
            if turn.state.turn is not None:
                turn.writes += await session_writes(self._desk.journal, self._state, turn.state)
            await self._commit(turn)
        except VersionConflict as conflict:
            self._desk.ledgers.conflicted(self.run)
            self._conflict(conflict)
            return True
        except InvalidValue as error:
            self._desk.ledgers.conflicted(self.run)
            self._set_apart(taken, error)
            return True
        self._stripped = False
        self._one_by_one = self._one_by_one and len(self._outcomes) > len(taken)
        self._desk.ledgers.committed(turn.state)
        # What was refused by a run above may have been raised there in this very moment: it is looked at once more.
        self._fresh = turn.state.budget.refused is not None and turn.refused_above
        for outcome in taken:
            self._outcomes.popleft()
            await self._flights.settle(outcome)
        self._tell(self._state.version + 1, turn.events)
        self._state = turn.state
        for launch in turn.launches:
            await self._flights.launch(launch, self._planner.agent, self._state)
        if self._flights.askings.any:
            self._flights.askings.stop_all_but(() if self._desk.draining else decide(self._state))
        self._announce(turn.named)
        return True

    def _set_apart(self, taken: list[Outcome], error: InvalidValue) -> None:
        """One outcome cannot be journaled: take them singly, and keep of that one what is known without its content."""
        if not taken or self._stripped:
            raise error
        if len(taken) == 1:
            self._stripped = True
            self._outcomes[0] = unrecordable(taken[0], error)
        self._one_by_one = True

    async def _take_in(self, taken: list[Outcome]) -> _Turn:
        """What was delivered, and all that the rules make of it."""
        turn = _Turn(self._state)
        for outcome in taken:
            turn.add(self._recorder.record(turn.state, outcome))
        if self._fresh:
            turn.add(await self._flights.orphans(turn.state))
            if turn.state.budget.refused is not None:
                turn.add(await self._planner.spending.asks_again(turn.state))
        turn.busy = self._flights.alive_after(taken)
        await self._decide(turn, taken)
        return turn

    async def _read(self) -> bool:
        """Fold what stands in the stream beyond what is known; False if there is nothing at all, or not to be read."""
        withheld: Record | None = None
        while True:
            page = await self._desk.journal.read_page(self._stream, after=self._state.version, limit=_PAGE)
            if page:
                self._fresh = True
                self._desk.audience.has_read(self.run, page[-1].version)
            for record in page:
                if record.key_id is not None and is_withheld(record):
                    withheld = record
                event = self._desk.journal.registry.decode(record)
                self._state = evolve(self._state, event)
                self._tell(record.version, (event,))
                moment = record.wake_at
                self._overdue = moment is not None and moment not in MARKS and moment <= self._desk.clock.now()
            if len(page) < _PAGE:
                break
        if self._state.version == 0:
            self._leave_for_good(JournalCorrupt(f"run {self.run} has no events"))
            return False
        if withheld is not None and not self._state.ended:
            self._leave_for_good(ContentWithheld(f"run {self.run}", why_withheld(withheld)))
            return False
        return True

    async def _decide(self, turn: _Turn, taken: list[Outcome]) -> None:
        if self._planner.agent is None:
            self._planner = Planner.of(self._desk, self._desk.agents.get(turn.state.agent))
        # A cancelled run is brought to its end also while the runtime stops: nothing begins by that.
        if self._desk.draining and turn.state.cancel is None:
            return
        if self._fresh and not turn.state.ended:
            await self._follow_definition(turn)
        done: set[Step] = set()
        while True:
            named = turn.named = decide(turn.state)
            if not named:
                return
            now = self._desk.clock.now()
            steps = [step for step in named if step not in done and _takes(step, now, turn)]
            if self._flights.askings.any:
                steps = [step for step in steps if not self._flights.askings.blocks(step, taken)]
            if self._desk.draining:
                steps = [step for step in steps if not isinstance(step, QueryAction)]
            if not steps:
                return
            if len(steps) > 1:
                steps = preempted(steps)
            before = turn.state
            for step in steps:
                done.add(step)
                turn.take(await self._planner.plan(turn.state, step))
                if len(steps) > 1 and overtaken(before, turn.state):
                    break

    async def _follow_definition(self, turn: _Turn) -> None:
        """Adopt a changed definition or wait, by policy; look anew at calls that have not started."""
        changes = self._planner.today(turn.state)
        if changes and (turn.state.stopping or not self._planner.adopts(changes)):
            if not turn.state.stopping and turn.state.drift != changes:
                turn.add((ev.RunWaiting("drift", changes),))
            return
        if changes and self._planner.agent is not None:
            agent = self._planner.agent
            now = agent.definition
            by = ev.Principal("drift", "policy", "runtime")
            digests = (now.digest, now.contract_digest, now.prose_digest)
            turn.add((ev.DefinitionAdopted(*digests, by, agent.terms, defaults_of(agent.state)),))
            turn.writes += definition_writes(self._desk, self._planner.agent)
        elif turn.state.drift is not None and not changes:
            turn.add((ev.RunWaiting(),))
        if self._planner.agent is not None and turn.state.batch:
            turn.take(await self._planner.calls.revalidate(turn.state))

    # ---- the journal

    async def _commit(self, turn: _Turn) -> None:
        idle = not turn.launches and not self._flights.any
        if not turn.events and self._overdue and idle:
            turn.add((ev.RunWaiting("drift", turn.state.drift) if turn.state.drift else ev.RunWaiting(),))
        if not turn.events:
            return
        told = status(turn.state, turn.named)
        own = Write(
            self._stream,
            turn.events,
            expected=self._state.version,
            label=told.label,
            wake_at=told.wake_at,
            domain=domain_of(turn.state),
        )
        word = None if self._state.ended else word_to_parent(turn.state, self._desk.clock.now())
        writes = [*merged(turn.writes), own] if turn.writes else [own]
        done = await self._write(writes if word is None else [*writes, word], turn.requires)
        self._overdue = False
        for write in turn.writes:
            if not self._note_recorded(write.stream) and write.stream.startswith("run/"):
                self._desk.audience.appended(write.stream.removeprefix("run/"))
        if word is not None:
            self._desk.audience.finished(self.run, word.stream.removeprefix("run/"), done.records[-1].version)

    def _note_recorded(self, stream: str) -> bool:
        digest = stream.removeprefix("definition/")
        if digest != stream:
            self._desk.recorded.add(digest)
        return digest != stream

    async def _write(self, writes: list[Write], requires: Mapping[str, int]) -> Committed:
        meta = {"epoch": self._desk.fence}
        for attempt in range(_BUSY_TRIES):
            try:
                return await self._desk.journal.commit(writes, require=requires, fence=self._desk.fence, meta=meta)
            except StorageBusy:
                if attempt == _BUSY_TRIES - 1:
                    raise
                clock = self._desk.clock
                await clock.sleep_until(clock.now() + SECOND // 10 * 2**attempt)
        raise AssertionError  # the last try returns or raises

    def _conflict(self, conflict: VersionConflict) -> None:
        # A definition that is there already need not be written; whatever else stands in the way is news.
        if not self._note_recorded(conflict.stream):
            self._news = True

    def _tell(self, version: int, events: Iterable[object]) -> None:
        """Tell whoever listens what is recorded now."""
        if self._desk.broadcast.listened(self.run):
            for number, event in enumerate(events, start=version):
                self._desk.broadcast.tell(Told(self.run, number, event))

    # ---- the end of it

    def _announce(self, named: tuple[Step, ...] | None) -> None:
        self._desk.audience.alarm(self.run, next_alarm(self._state, named))
        if self._state.ended and not self._announced:
            self._desk.audience.ended(self._state)
        # A run that ended at a limit may go on while its agent is still here.
        self._announced = self._state.ended

    async def _rest(self) -> None:
        """Leave memory if nothing is under way; nothing is awaited between looking and leaving."""
        if self._flights.any or self._outcomes or self._news or self._rung:
            return
        if self._desk.audience.left(self.run, self._state.version):
            self.context.stop()

    def _leave_for_good(self, error: Exception) -> None:
        self._desk.audience.stuck(self.run, error)
        self.context.stop()


def _takes(step: Step, now: int, turn: _Turn) -> bool:
    moment = due(step)
    if moment is not None and moment > now:
        return False
    # While a thread of an earlier attempt is alive no other attempt starts; its late outcome may spare it.
    return not (isinstance(step, StartAction | QueryAction) and step.action in turn.busy)


class _Turn:
    """What one turn comes to, before it is committed.

    Attributes:
        named: What the rules name for the state, where that is known.
        busy: Actions of which something is still alive when the outcomes taken in are settled.
    """

    __slots__ = ("busy", "events", "launches", "named", "requires", "state", "writes")

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.named: tuple[Step, ...] | None = None
        self.busy: set[str] = set()
        self.events: list[object] = []
        self.launches: list[Launch] = []
        self.writes: list[Write] = []
        self.requires: dict[str, int] = {}

    def take(self, plan: Plan) -> None:
        """Take in what a step comes to."""
        self.add(plan.events)
        self.launches += plan.launches
        self.writes += plan.writes
        if plan.requires:
            # The earliest that was seen: if it does not stand any more, what was made of it does not either.
            self.requires = {**plan.requires, **self.requires}

    @property
    def refused_above(self) -> bool:
        """Whether something was refused by the limit of a run above this one."""
        return any(isinstance(event, ev.BudgetRefused) and event.owner != self.state.run for event in self.events)

    def add(self, events: Iterable[object]) -> None:
        """Append events and fold them."""
        for event in events:
            self.state = evolve(self.state, event)
            self.events.append(event)
            self.named = None
