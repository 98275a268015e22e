"""One pass over a run's stream: what an auditor needs of it, with where each fact stands."""

from __future__ import annotations

from typing import Final

import attrs
from attrs import define, field

from trouper.audit.entries import Call as Call
from trouper.audit.entries import Cost as Cost
from trouper.audit.entries import Entry as Entry
from trouper.audit.entries import cost_of
from trouper.audit.entries import read_entry as read_entry
from trouper.audit.promises import Plan
from trouper.audit.seen import HookOp, Sent
from trouper.core import events as ev
from trouper.core.effect_of import without_effect
from trouper.core.evolve import evolve
from trouper.core.hook_ops import Drop, Insert, Replace
from trouper.core.state import RunState, known
from trouper.errors import JournalCorrupt, UnknownEvent, UnknownRun
from trouper.runtime.domains import is_withheld, why_withheld
from trouper_journal import ERASED, Erased, Journal, Value

FAILURE: Final = "failure"
"""Among what is gone of a run: why it failed."""

NAMED: Final = "state"
"""Among what is gone of a run: something of its named state."""


@define(eq=False)
class Trace:
    """A run, read to its end.

    Attributes:
        run: Its id.
        state: How it stands, or stood at the first record that cannot be folded.
        unread: What stopped the reading, in words; None where all was read.
        withheld: Why some of what was said cannot be read here; None where all of it can.
        last: Position of the last record that was read.
        last_at: When that was recorded (ns UTC).
        focus: Number of the model call that is asked about.
        about_run: What concerns the run as a whole: who asked for it, took it up, paused or raised it, how it ended.
        about_call: What concerns the model call in focus, and the calls of its reply.
        sent: The attempts at the model call in focus.
        calls: All calls by name, in short.
        costs: All that was spent.
        limits: What was refused, warned of and raised.
        summaries: The requests for a summary of the history, each with the run behind it.
        gone: Ids of its messages of which something was erased; and `FAILURE` or `NAMED`, where that was.
        ops: What hooks did to the messages that the model is shown.
        plans: Plans of the calls in focus, each with the run before it and its position.
    """

    run: str
    state: RunState
    focus: int | None = None
    unread: str | None = None
    withheld: str | None = None
    last: int = 0
    last_at: int = 0
    about_run: list[Entry] = field(factory=list)
    about_call: list[Entry] = field(factory=list)
    sent: list[Sent] = field(factory=list)
    calls: dict[str, Call] = field(factory=dict)
    costs: list[Cost] = field(factory=list)
    limits: list[Entry] = field(factory=list)
    summaries: list[tuple[Entry, RunState]] = field(factory=list)
    gone: set[str] = field(factory=set)
    ops: tuple[HookOp, ...] = ()
    plans: list[tuple[RunState, Plan, int]] = field(factory=list)
    _current: int = -1

    @property
    def focus_index(self) -> int:
        """Number of the model call in focus."""
        return max(0, self._current) if self.focus is None else self.focus

    @property
    def output(self) -> Value | Erased:
        """The run's output; None where it has none."""
        state = self.state
        structured = state.answer.verdict == "accepted"
        name = "output" if structured else state.tools.source or str(state.index - 1)
        if state.output is not None and f"{self.run}/{name}" in self.gone:
            return ERASED
        return state.answer.value if structured and state.output is not None else state.output

    def add(self, entry: Entry) -> None:
        """One record on."""
        event = entry.event
        if self.withheld is None and is_withheld(entry.record):
            self.withheld = why_withheld(entry.record)
        self._note_request(entry, event)
        self._note_about(entry, event)
        self._note_call(entry, event)
        self._note_cost(entry, event)
        self._note_gone(event)
        if isinstance(event, ev.HookApplied) and not event.overtaken and not event.failed:
            self._note_ops(entry, event)
        before, self.state = self.state, evolve(self.state, event)
        self._note_consent(entry, event, before)
        if isinstance(event, ev.SummaryRequested):
            self.summaries.append((entry, self.state))
        self.last, self.last_at = entry.record.position, entry.record.recorded_at

    # ---- the model call in focus

    def _looks_at(self, index: int) -> bool:
        """Whether a model call is asked about; where none is named, the last one is."""
        if self.focus is not None:
            return index == self.focus
        if index > self._current:
            self._current = index
            self.about_call.clear()
            self.sent.clear()
            self.plans.clear()
        return index == self._current

    def _note_request(self, entry: Entry, event: object) -> None:
        match event:
            case ev.ModelRequested() if self._looks_at(event.index):
                sent = Sent(self.state, self.ops, event.attempt, event.closing, event.model, event.digest, entry.record)
                self.sent.append(sent)
            case ev.ModelResponded(attempt=0) if self._looks_at(event.index):
                self.sent.append(Sent(self.state, self.ops, 0, self.state.closing, "", b"", None))

    def _note_ops(self, entry: Entry, event: ev.HookApplied) -> None:
        self.ops += tuple(
            HookOp(op, done.hook, entry.record.position)
            for done in known(event.done, ())
            for op in done.ops
            if isinstance(op, Drop | Insert | Replace)
        )

    def _note_about(self, entry: Entry, event: object) -> None:
        if isinstance(event, _ABOUT_RUN):
            self.about_run.append(entry)
        if isinstance(event, _LIMITS):
            self.limits.append(entry)
        index = _index_of(event)
        if index is not None and self._looks_at(index):
            self.about_call.append(entry)
            if isinstance(event, ev.ActionPlanned | ev.ActionReplanned):
                self.plans.append((self.state, event, entry.record.position))

    # ---- calls

    def _note_call(self, entry: Entry, event: object) -> None:
        if isinstance(event, ev.ActionPlanned):
            self.calls[event.action] = Call(
                event.action,
                event.tool,
                event.effect,
                entry.record.position,
                known(event.arguments, None),
                isinstance(event.arguments, Erased),
                event.gate,
                event.grounds.policy,
                event.grounds.rules,
            )
            return
        name = getattr(event, "action", None)
        call = self.calls.get(name) if isinstance(name, str) else None
        if call is not None:
            _change_call(call, event, entry.record.position)

    def _note_consent(self, entry: Entry, event: object, before: RunState) -> None:
        """Who agrees after this: as the fold counts it, because anyone can append a decision that does not count."""
        name = getattr(event, "action", None)
        call, action = (None, None) if not isinstance(name, str) else (self.calls.get(name), self.state.action(name))
        if call is None or action is None:
            return
        votes = action.consent.votes
        # The fold has nobody where a name was erased.
        nobody = ERASED if f"{self.run}/{name}" in self.gone else None
        call.approved_by = tuple(vote.by or nobody for vote in votes if vote.decision == "approve")
        if action.arguments is not None or call.arguments is not None:
            # An edit that was erased leaves none.
            call.arguments, call.erased = action.arguments, action.arguments is None
        if without_effect(before, self.state, event):
            call.void = (*call.void, entry.record.position)
        elif isinstance(event, ev.ActionResolved):
            call.verdict, call.settled_by = event.verdict, event.by
            call.outcome = "open" if event.verdict == "run_again" else "resolved"

    # ---- spending

    def _note_cost(self, entry: Entry, event: object) -> None:
        cost = cost_of(entry, event, self.state)
        if cost is not None:
            self.costs.append(cost)

    # ---- what was erased

    def _note_gone(self, event: object) -> None:
        if not _has_erased(event):
            return
        match event:
            case ev.RunSubmitted():
                self.gone.add(f"{self.run}/input")
            case ev.ModelResponded():
                self.gone.add(f"{self.run}/{event.index}")
            case ev.OutputAccepted():
                self.gone.add(f"{self.run}/output")
            case ev.BudgetWarned():
                self.gone.add(f"{self.run}/budget-{self.state.version + 1}")
            case ev.OutputRejected():
                self.gone.add(f"{self.run}/{event.index}.check")
            case ev.ContextCompacted():
                self.gone.add(f"{self.run}/summary")
            case ev.RunFailed():
                self.gone.add(FAILURE)
            case ev.StateChanged():
                self.gone.add(NAMED)
            case ev.ActionPlanned() if event.gate not in {"refused", "hook"}:
                # The model is told nothing of that.
                pass
            case _ if isinstance(name := getattr(event, "action", None), str):
                self.gone.add(f"{self.run}/{name}")


def _has_erased(event: object) -> bool:
    kind = type(event)
    return attrs.has(kind) and any(isinstance(getattr(event, each.name), Erased) for each in attrs.fields(kind))


def _change_call(call: Call, event: object, position: int) -> None:
    match event:
        case ev.ActionReplanned():
            call.gate, call.policy, call.rules = event.gate, event.grounds.policy, event.grounds.rules
        case ev.ActionStarted():
            call.attempts += 1
            call.started = call.started or position
        case ev.ActionReceipted():
            call.outcome, call.evidence, call.text = event.outcome, event.evidence, event.text
        case ev.ActionUnresolved():
            call.outcome, call.text = "in_doubt", event.text
        case ev.ChildStarted():
            call.child = event.run


_ABOUT_RUN = (
    ev.RunSubmitted,
    ev.TurnGiven,
    ev.SummaryRequested,
    ev.SummaryFailed,
    ev.ContextCompacted,
    ev.RunStarted,
    ev.DefinitionAdopted,
    ev.PauseRequested,
    ev.ResumeRequested,
    ev.CancelRequested,
    ev.DeadlinePassed,
    ev.DeadlineExtended,
    ev.BudgetRaised,
    ev.StateRefused,
    ev.RunSucceeded,
    ev.RunFailed,
    ev.RunCancelled,
)
_LIMITS = (ev.BudgetRefused, ev.BudgetWarned, ev.BudgetRaised)


def _index_of(event: object) -> int | None:
    """Number of the model call that an event is about; None where it is about none."""
    match event:
        case ev.RunSubmitted() | ev.RunStarted():
            return None
        case ev.HookApplied():
            return _leading(event.subject)
        case ev.StateChanged(source="action"):
            return _leading(event.name)
    index = getattr(event, "index", None)
    if isinstance(index, int):
        return index
    name = getattr(event, "action", None)
    return _leading(name) if isinstance(name, str) else None


def _leading(name: str) -> int | None:
    number = name.partition(".")[0]
    return int(number) if number.isdecimal() else None


async def read_trace(journal: Journal, run: str, focus: int | None = None) -> Trace:
    """Read a run.

    Args:
        journal: The journal, opened with `trouper.REGISTRY`.
        run: The run's id.
        focus: Number of the model call that is asked about; None for the last.

    Raises:
        UnknownRun: There is none of that id.
        JournalError: The journal cannot be read.
    """
    trace = Trace(run, RunState(run), focus)
    async for record in journal.read(f"run/{run}"):
        try:
            event = journal.registry.decode(record)
            trace.add(Entry(record, event))
        except (UnknownEvent, JournalCorrupt) as error:
            trace.unread = str(error)
            break
        except Exception as error:  # noqa: BLE001 -- records that somebody made up can break any assumption of the fold
            trace.unread = f"position {record.position}: {record.type} cannot be folded: {error!r}"
            break
    if trace.last == 0 and trace.unread is None:
        raise UnknownRun(f"there is no run {run} in this journal")
    return trace
