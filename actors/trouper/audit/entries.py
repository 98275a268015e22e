"""Records with their events, and what they come to for a call and for what was spent, in short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import define, frozen

from trouper.core import events as ev
from trouper.core.effects import Effect
from trouper.core.state import RunState
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper_journal import Erased, Journal, Plain, Record, Value

Outcome: TypeAlias = Literal["open", "ok", "error", "in_doubt", "resolved"]
"""How a call stands: not over, done as asked, not done, nobody knows, or settled by a person."""


@frozen(slots=False, repr=False, eq=False)
class Entry(Plain):
    """A record with its event.

    Attributes:
        record: The record.
        event: The event; None where this release does not know it.
    """

    record: Record
    event: object | None


@frozen(slots=False, repr=False, eq=False)
class Cost(Plain):
    """Something that was spent, or that may have been.

    Attributes:
        what: A ``reply``; a request that was ``lost`` and may have been billed, or ``failed``; models that a ``hook``
            asked; a ``summary`` of the history.
        entry: The record that says so.
        index: Number of the model call; None for what belongs to none.
        model: The model, where it is known.
        input_tokens: Tokens of the request; None where nobody told.
        output_tokens: Tokens of the reply; None where nobody told.
        cached_tokens: Those of the request that the provider had cached.
        assumed_tokens: What is reckoned with where nobody told.
        price: Id of the price entry.
        cost: In nano-units; None where there is no price, or too little is known.
    """

    what: Literal["reply", "lost", "failed", "hook", "summary"]
    entry: Entry
    index: int | None = None
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    assumed_tokens: int = 0
    price: str | None = None
    cost: int | None = None


@define(eq=False)
class Call:
    """A call of a run, in short.

    Attributes:
        action: ``<model index>.<call index>``.
        tool: The tool's name.
        effect: Its effect class; None while the call was not looked at.
        position: Position of its plan; while there is none, of the reply that asks for it.
        arguments: The arguments that would run, or ran; None where they could not be read.
        erased: Whether they were erased.
        gate: What stood before it.
        policy: The policy that said so.
        rules: The standing rules that stood in for people.
        approved_by: Who has approved it as it stands; votes that did not count are not among them.
        void: Positions of the decisions that did not count: past a rule, too late, or on another call than this.
        attempts: How many attempts were started.
        outcome: How it stands.
        evidence: What its outcome rests on.
        text: What the model was told.
        child: The run that it began; empty for none.
        started: Position of its first start; 0 for none.
        settled_by: Who settled a doubt.
        verdict: What a doubt was settled with.
    """

    action: str
    tool: str
    effect: Effect | None
    position: int
    arguments: Mapping[str, Value] | None = None
    erased: bool = False
    gate: str = "free"
    policy: str = ""
    rules: tuple[str, ...] = ()
    approved_by: tuple[ev.Principal | Erased | None, ...] = ()
    void: tuple[int, ...] = ()
    attempts: int = 0
    outcome: Outcome = "open"
    evidence: str = ""
    text: str | Erased = ""
    child: str = ""
    started: int = 0
    settled_by: ev.Principal | Erased | None = None
    verdict: str | None = None

    @property
    def index(self) -> int:
        """Number of the model call whose reply asked for it."""
        return int(self.action.partition(".")[0])


def cost_of(entry: Entry, event: object, before: RunState) -> Cost | None:
    """What a record says was spent, or may have been; None where it is about nothing of that.

    Args:
        entry: The record.
        event: Its event.
        before: The run as it stood before.
    """
    match event:
        case ev.ModelResponded() if event.attempt > 0:
            told = (event.input_tokens, event.output_tokens, event.cached_tokens or 0, event.assumed_tokens)
            return Cost("reply", entry, event.index, event.model or "", *told, event.price, event.cost)
        case ev.ModelLost():
            held = before.budget.reserve
            tokens, sum_held = (0, None) if held is None else (held.tokens, held.cost)
            return Cost("lost", entry, event.index, assumed_tokens=tokens, cost=sum_held)
        case ev.ModelFailed():
            return Cost("failed", entry, event.index, cost=0)
        case ev.HookApplied() if event.model_calls:
            tokens_of = (event.input_tokens, event.output_tokens)
            return Cost("hook", entry, None, "", *tokens_of, cost=None if event.unpriced else event.cost)
        case ev.ContextCompacted() if event.attempt > 0:
            tokens_told = (event.input_tokens, event.output_tokens)
            return Cost("summary", entry, None, event.model or "", *tokens_told, cost=event.cost)
        case ev.SummaryFailed() if event.reason != "error":
            return Cost("lost", entry)
    return None


def read_entry(journal: Journal, record: Record) -> Entry:
    """A record with its event, where this release knows it."""
    try:
        return Entry(record, journal.registry.decode(record))
    except (UnknownEvent, JournalCorrupt):
        return Entry(record, None)
