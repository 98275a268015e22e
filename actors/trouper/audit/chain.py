"""The causal chain behind an action, an answer or a spend, as values."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from trouper.audit.definitions import Document
from trouper.audit.seen import Request
from trouper.audit.summaries import SummaryWhy
from trouper.audit.trace import Call, Cost, Entry
from trouper.core import events as ev
from trouper.core.budget import Spent
from trouper.core.conversation import Message
from trouper_journal import Erased, Plain, Value

Binding: TypeAlias = Literal["matches", "differs", "erased", "none"]
"""Whether the digest that approvals bind to is that of the call as recorded; ``none``: the call had no digest."""


@frozen(slots=False, repr=False, eq=False)
class RuleWhy(Plain):
    """A standing rule that stood in for people.

    Attributes:
        rule: Its id.
        added: Who made it, of which call, and how far it reaches; None where that is not in the journal.
        revoked: Who ended it, if anybody has since.
    """

    rule: str
    added: Entry | None
    revoked: Entry | None


@frozen(slots=False, repr=False, eq=False)
class ModelWhy(Plain):
    """A model call.

    Attributes:
        index: Its number.
        requests: Every attempt, in order, each as it was sent.
        facts: What happened to it: tools chosen, hooks, failures, losses, warnings, the reply.
        reply: The reply; None where there is none yet.
        taken_over: The run whose reply this is, where a fork took it over; empty otherwise.
    """

    index: int
    requests: tuple[Request, ...]
    facts: tuple[Entry, ...]
    reply: Entry | None
    taken_over: str = ""

    @property
    def answered(self) -> Request | None:
        """The attempt that brought the reply."""
        event = None if self.reply is None else self.reply.event
        if not isinstance(event, ev.ModelResponded):
            return None
        return next((each for each in self.requests if each.attempt == event.attempt), None)


@frozen(slots=False, repr=False, eq=False)
class OriginWhy(Plain):
    """Why there is a run at all.

    Attributes:
        run: The run.
        agent: Its agent.
        label: Its status.
        submitted: What was asked, by whom, under which command.
        facts: What else concerns the run as a whole, up to what is explained.
        session: Where it is a turn of a session: who opened that, and the record that queued the turn.
        fork_of: The run that it was forked from; empty for none.
        caller: Where it is a sub-agent's run: the call that began it, and why that was made.
        document: The definition that it was pinned to when it began.
        summaries: The requests for a summary of a history that was too long.
        unread: Why the run could not be read to its end.
        withheld: Why some of what was said in it cannot be read here, where its content is sealed.
    """

    run: str
    agent: str
    label: str
    submitted: Entry | None
    facts: tuple[Entry, ...]
    session: tuple[Entry, ...]
    fork_of: str
    caller: CallWhy | None
    document: Document
    summaries: tuple[SummaryWhy, ...]
    unread: str | None
    withheld: str | None


@frozen(slots=False, repr=False, eq=False)
class CallWhy(Plain):
    """Why a call was made, or was not.

    Attributes:
        call: The call, in short.
        run: The run.
        asked: The call as the model wrote it; erased where the reply was, None where the reply has none such.
        facts: What happened to it, in order: plan, hooks, permissions, requests for approval, votes, attempts,
            interruptions, receipts, doubts and who settled them.
        rules: The standing rules that let it run.
        binding: Whether the digest that approvals bind to is that of the call.
        breach: What its plan contradicts in the definition or in the standing rules; None where nothing.
        told: What the model was told of it; None where it has not been told.
        told_erased: Whether what it was told was erased.
        model: The model call whose reply asked for it.
        origin: Why there is a run.
        child: Where it began a sub-agent's run: why that answered as it did.
    """

    call: Call
    run: str
    asked: ev.AskedCall | Erased | None
    facts: tuple[Entry, ...]
    rules: tuple[RuleWhy, ...]
    binding: Binding
    breach: str | None
    told: Message | None
    model: ModelWhy
    origin: OriginWhy
    child: AnswerWhy | None
    told_erased: bool = False

    @property
    def id(self) -> str:
        """The call's full id, which is its effect key."""
        return f"{self.run}/{self.call.action}"


@frozen(slots=False, repr=False, eq=False)
class AnswerWhy(Plain):
    """Why a run ended as it did, or stands as it stands.

    Attributes:
        run: The run.
        output: Its output; None where it has none.
        ended: The record that ended it; None while it goes on.
        source: The call whose result is the output; None where a reply is.
        model: Its last model call.
        calls: All its calls, in short, in order: what the answer rests on.
        origin: Why there is a run.
        children: For each of its calls that began a run: why that answered as it did.
    """

    run: str
    output: Value | Erased
    ended: Entry | None
    source: str | None
    model: ModelWhy
    calls: tuple[Call, ...]
    origin: OriginWhy
    children: tuple[AnswerWhy, ...]


@frozen(slots=False, repr=False, eq=False)
class SpendWhy(Plain):
    """What a run has spent, and on what.

    Attributes:
        run: The run.
        spent: All of it, with finished sub-agents.
        own: What it has spent itself.
        limits: The limits in force.
        costs: Each reply, loss and failure, with its price.
        calls: The calls that were started.
        facts: What was refused, warned of and raised, and by whom.
        origin: Why there is a run.
        children: The same for the runs that its calls began.
    """

    run: str
    spent: Spent
    own: Spent
    limits: ev.Limits | None
    costs: tuple[Cost, ...]
    calls: tuple[Call, ...]
    facts: tuple[Entry, ...]
    origin: OriginWhy
    children: tuple[SpendWhy, ...]
