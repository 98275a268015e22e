"""A run as a story: what was said, which calls were made and by whose leave, what it spent, and every event in a line.

Pure: it is told one event after the other. Content that was erased stays ``ERASED`` here.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs
from attrs import define, field, frozen

from trouper.audit.entries import Cost, Entry, cost_of
from trouper.core import events as ev
from trouper.core.approvals import Consent
from trouper.core.conversation import Message
from trouper.core.effect_of import without_effect
from trouper.core.made_up import folded
from trouper.core.state import RunState
from trouper.narration.line import Line, in_vain
from trouper.narration.narrate import Narrator
from trouper_journal import Archived, JournalCorrupt, Plain, Record

LONGEST_LINE: Final = 1000
"""Characters of a text that a line of the timeline shows; the conversation has it whole."""


@frozen(slots=False, repr=False, eq=False)
class Told(Plain):
    """One record as a line.

    Attributes:
        position: Of the record.
        at: When it was recorded, ns UTC.
        type: Name of the event.
        line: Who did what.
        damage: What is wrong with the record; None where nothing is.
    """

    position: int
    version: int
    at: int
    type: str
    leaf: bytes
    line: Line
    damage: str | None = None


def told_of(narrator: Narrator, record: Record, event: object | None, damage: str | None) -> Told:
    """A record as a line; one that cannot be read says why."""
    line = Line("?", damage, "bad") if event is None and damage is not None else narrator.tell(record, event)
    return Told(record.position, record.version, record.recorded_at, record.type, record.leaf, line, damage)


@frozen(slots=False, repr=False, eq=False)
class Deed(Plain):
    """Something that a person did, as an event that names them.

    Attributes:
        at: When it was recorded, ns UTC.
        event: The event; it has a field ``by``.
        line: The same in a line.
    """

    at: int
    event: Named
    line: Line


@define(eq=False, repr=False)
class Call:
    """A call that a model asked for, and all that became of it.

    Attributes:
        run: The run's id.
        planned: How it was read.
        plan: How it stands now: as planned, or as replanned under a changed definition.
        course: Everything that happened to it.
        votes: The decisions that it stands on, with the times: on the call as it is, by different people.
        lapsed: Decisions that did count, and do not any more: the request lapsed, or somebody changed the call.
        counted: Whether it is known which decisions counted; not where the run cannot be folded.
        starts: How many attempts were made.
        receipt: How it ended, if it did.
        doubt: That nobody knows how it ended.
        settled: How a person settled that.
        denied: What denied it.
        child: The run that it began.
        breach: What its plan contradicts in the definition that the run has pinned; None where nothing.
    """

    run: str
    planned: ev.ActionPlanned
    plan: ev.ActionPlanned | ev.ActionReplanned
    course: list[Told] = field(factory=list)
    votes: list[tuple[int, ev.ApprovalDecided]] = field(factory=list)
    lapsed: list[tuple[int, ev.ApprovalDecided]] = field(factory=list)
    counted: bool = True
    starts: int = 0
    receipt: ev.ActionReceipted | None = None
    doubt: ev.ActionUnresolved | None = None
    settled: ev.ActionResolved | None = None
    denied: ev.ActionDenied | None = None
    child: str | None = None
    breach: str | None = None

    @property
    def id(self) -> str:
        """Its full id."""
        return f"{self.run}/{self.planned.action}"

    def settle_votes(self, standing: Consent) -> None:
        """Keep the decisions that the fold counts, the last of each person."""
        last = {vote.voter: (at, vote) for at, vote in self.votes}
        voters = {vote.voter for vote in standing.votes}
        kept = [each for each in self.votes if each[1].voter in voters and each == last[each[1].voter]]
        self.lapsed += [each for each in self.votes if each not in kept]
        self.votes = kept


@frozen(slots=False, repr=False, eq=False)
class Said(Plain):
    """Something in the conversation.

    Attributes:
        at: When, ns UTC.
        event: What was said, or what changed what the model sees.
        calls: Calls that a reply asks for.
    """

    at: int
    event: Saying
    line: Line
    calls: list[Call] = field(factory=list)


@define(eq=False, repr=False)
class RunStory:
    """One run.

    Attributes:
        run: Its id.
        state: How it stands; None where it cannot be folded.
        before: What it started from, as messages; empty where it started afresh.
        before_erased: Whether some of that was erased, and is not among them.
        difference: What that is not any more, where its digest was pinned and differs; or why it cannot be read.
        told: Every record.
        said: The conversation.
        calls: The calls by name, in the order in which models asked.
        loose: Those that stand behind no reply, as in a journal that somebody has made up.
        deeds: What people did, beside asking.
        submitted: What was asked.
        costs: What was spent, record by record.
        asked: Names of the models that were asked, by the number of the model call; empty for the agent's own.
        definitions: Digests of the definitions that it followed.
        ended_at: When it ended, ns UTC, if it did.
        archive: The file that its records were moved to, if they were.
    """

    run: str
    state: RunState | None
    before: tuple[Message, ...] = ()
    before_erased: bool = False
    difference: str | None = None
    told: list[Told] = field(factory=list)
    said: list[Said] = field(factory=list)
    calls: dict[str, Call] = field(factory=dict)
    loose: list[Call] = field(factory=list)
    deeds: list[Deed] = field(factory=list)
    submitted: ev.RunSubmitted | None = None
    costs: list[Cost] = field(factory=list)
    asked: dict[int, str] = field(factory=dict)
    definitions: list[str] = field(factory=list)
    ended_at: int | None = None
    archive: str | None = None
    _early: dict[str, list[Told]] = field(factory=dict)
    _narrator: Narrator = field(factory=lambda: Narrator(LONGEST_LINE))

    def hear(self, record: Record, event: object | None, damage: str | None) -> None:
        """One record on.

        Args:
            record: The record.
            event: Its event; None where it cannot be read.
            damage: What is wrong with it, or why it cannot be read.
        """
        told = told_of(self._narrator, record, event, damage)
        self.told.append(told)
        if isinstance(record, Archived):
            self.archive = record.file
        if event is None:
            self.state = None
            self._settle_votes(event)
            return
        before = self.state
        if before is not None:
            try:
                self.state = folded(before, record, event)
            except JournalCorrupt as error:
                self.state = None
                self.told[-1] = told = attrs.evolve(told, damage=told.damage or str(error))
        if before is not None and self.state is not None and without_effect(before, self.state, event):
            # Anyone may append a decision: it is told, and is nobody's leave.
            self.told[-1] = told = attrs.evolve(told, line=in_vain(told.line))
            self._note_in_vain(event, told)
        else:
            if (cost := cost_of(Entry(record, event), event, before or RunState(self.run))) is not None:
                self.costs.append(cost)
            self._remember(event, told)
            self._settle_votes(event)

    def _settle_votes(self, event: object) -> None:
        if self.state is None:
            for each in self.calls.values():
                each.counted = False
        name = getattr(event, "action", None)
        call = self.calls.get(name) if isinstance(name, str) else None
        action = None if call is None or self.state is None else self.state.action(call.planned.action)
        if call is not None and action is not None:
            call.settle_votes(action.consent)

    def _note_in_vain(self, event: object, told: Told) -> None:
        if isinstance(event, _NAMED):
            self.deeds.append(Deed(told.at, event, told.line))
        call = self.calls.get(str(getattr(event, "action", "")))
        if call is not None:
            call.course.append(told)

    def _remember(self, event: object, told: Told) -> None:
        if isinstance(event, ev.RunSubmitted):
            self.submitted = event
        if isinstance(event, ev.ModelRequested):
            self.asked[event.index] = event.model
        if isinstance(event, ev.RunStarted | ev.DefinitionAdopted) and event.definition not in self.definitions:
            self.definitions.append(event.definition)
        if isinstance(event, ev.RunSucceeded | ev.RunFailed | ev.RunCancelled):
            self.ended_at = told.at
        if isinstance(event, ev.HookApplied):
            self._follow_hooks(event, told)
        elif isinstance(event, _SAYINGS):
            self.said.append(Said(told.at, event, told.line))
        if isinstance(event, _NAMED):
            self.deeds.append(Deed(told.at, event, told.line))
        self._follow_call(event, told)

    def _follow_hooks(self, event: ev.HookApplied, told: Told) -> None:
        if not (event.done or event.failed or event.overtaken):
            return  # They had nothing to change; the timeline tells that they were called.
        if event.point not in {"before_tool", "after_tool"}:
            self.said.append(Said(told.at, event, told.line))
        elif event.subject in self.calls:
            self.calls[event.subject].course.append(told)
        else:
            self._early.setdefault(event.subject, []).append(told)

    def _follow_call(self, event: object, told: Told) -> None:
        if isinstance(event, ev.ActionPlanned):
            call = self.calls[event.action] = Call(self.run, event, event)
            reply = next((each for each in reversed(self.said) if isinstance(each.event, ev.ModelResponded)), None)
            (self.loose if reply is None else reply.calls).append(call)
            call.course += self._early.pop(event.action, [])
        else:
            found = self.calls.get(str(getattr(event, "action", "")))
            if found is None:
                return
            call = found
        call.course.append(told)
        match event:
            case ev.ActionReplanned():
                call.plan = event
            case ev.ApprovalDecided():
                call.votes.append((told.at, event))
            case ev.ActionStarted():
                call.starts += 1
            case ev.ActionReceipted():
                call.receipt = event
            case ev.ActionUnresolved():
                call.doubt = event
            case ev.ActionResolved():
                call.settled = event
            case ev.ActionDenied():
                call.denied = event
            case ev.ChildStarted():
                call.child = event.run


Saying: TypeAlias = (
    ev.RunSubmitted
    | ev.ModelResponded
    | ev.RunSignalled
    | ev.OutputRejected
    | ev.ContextCompacted
    | ev.HookApplied
    | ev.ModelFailed
    | ev.ModelLost
)
Named: TypeAlias = (
    ev.ApprovalDecided
    | ev.ApprovalWithdrawn
    | ev.ActionResolved
    | ev.BudgetRaised
    | ev.CancelRequested
    | ev.PauseRequested
    | ev.ResumeRequested
    | ev.DeadlineExtended
    | ev.DefinitionAdopted
    | ev.RunSignalled
)
_SAYINGS: Final = (
    ev.RunSubmitted,
    ev.ModelResponded,
    ev.RunSignalled,
    ev.OutputRejected,
    ev.ContextCompacted,
    ev.HookApplied,
    ev.ModelFailed,
    ev.ModelLost,
)
_NAMED: Final = (
    ev.ApprovalDecided,
    ev.ApprovalWithdrawn,
    ev.ActionResolved,
    ev.BudgetRaised,
    ev.CancelRequested,
    ev.PauseRequested,
    ev.ResumeRequested,
    ev.DeadlineExtended,
    ev.DefinitionAdopted,
    ev.RunSignalled,
)
