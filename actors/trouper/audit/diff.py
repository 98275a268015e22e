"""Two runs side by side: what they have in common, where they first differ, and what differs from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

import attrs
from attrs import define, field, frozen

from trouper.audit.aligning import Row, aligned, common_prefix
from trouper.audit.definitions import Document, read_document
from trouper.audit.seen import HookOp, Past
from trouper.audit.trace import FAILURE, NAMED, Call, Entry, Trace, read_trace
from trouper.audit.why import past_of
from trouper.core import events as ev
from trouper.core.budget import Spent
from trouper.core.conversation import AI, Message, ToolMessage, Value
from trouper.core.definition import differences
from trouper.core.hooking import op_value
from trouper.core.status import status
from trouper.errors import ForkError
from trouper.runtime.histories import Histories
from trouper_journal import ERASED, Erased, Journal, Plain, Printable, canonical
from trouper_journal.archive import refuse_archived


@frozen(slots=False, repr=False, eq=False)
class Said(Plain):
    """A message in a run's conversation, as the record has it.

    Attributes:
        message: The message.
        run: The run that it was said in.
        erased: Whether some of it was erased.
    """

    message: Message
    run: str
    erased: bool = False


@frozen(slots=False, repr=False, eq=False)
class Side(Plain):
    """One of the two runs.

    Attributes:
        run: Its id.
        agent: Its agent.
        label: Its status.
        submitted: Who asked for it.
        began: When it was asked for (ns UTC).
        last: When something was last recorded of it (ns UTC).
        document: The definition that it is pinned to now.
        messages: How many messages its conversation has, the history before it counted; those that were erased are
            not among them where nobody knows how many they were.
        output: Its output; None where it has none.
        spent: What it and its finished sub-agents have spent.
        erased: Whether some of its conversation was erased, so that not all could be compared.
        unread: Why it could not be read to its end.
    """

    run: str
    agent: str
    label: str
    submitted: Entry | None
    began: int
    last: int
    document: Document
    messages: int
    output: Value | Erased
    spent: Spent
    erased: bool
    unread: str | None


@frozen(slots=False, repr=False, eq=False)
class Pair(Plain):
    """A fact that is another one on each side."""

    name: str
    left: Value
    right: Value


@frozen(slots=False, repr=False, eq=False)
class Comparison(Plain):
    """Two runs side by side.

    Attributes:
        left: The one.
        right: The other.
        fork: The run that the other was forked from, and how far that was, where it is the one's fork.
        start: What they started with that differs: agent, limits, grants, state.
        definition: What differs between their definitions, one line for each place.
        common: How many messages they have in common, from the first.
        messages: The messages behind those.
        calls: The calls that those messages ask for.
        hooks: What hooks did to the messages, where that differs.
        end: What they came to that differs: status, failure, output, named state.
        spend: What they spent that differs, finished sub-agents included.
    """

    left: Side
    right: Side
    fork: ev.Fork | None
    start: tuple[Pair, ...]
    definition: tuple[str, ...]
    common: int
    messages: tuple[Row[Said], ...]
    calls: tuple[Row[Call], ...]
    hooks: tuple[Row[HookOp], ...]
    end: tuple[Pair, ...]
    spend: tuple[Pair, ...]

    @property
    def first(self) -> Row[Said] | None:
        """The first message that differs."""
        return next((row for row in self.messages if row.kind != "same"), None)

    @property
    def same(self) -> bool:
        """Whether both could be read to their ends, and nothing differs."""
        if self.left.unread is not None or self.right.unread is not None:
            return False
        kinds = {row.kind for row in self.messages} | {row.kind for row in self.calls}
        kinds |= {row.kind for row in self.hooks}
        return not (self.start or self.definition or self.end or self.spend) and kinds <= {"same"}


@define(eq=False, repr=False)
class _Read(Printable):
    """A run, read."""

    trace: Trace
    past: Past
    document: Document
    said: list[Said] = field(factory=list)

    def side(self) -> Side:
        state, trace = self.trace.state, self.trace
        submitted = next((each for each in trace.about_run if isinstance(each.event, ev.RunSubmitted)), None)
        return Side(
            run=trace.run,
            agent=state.agent,
            label=status(state).label,
            submitted=submitted,
            began=0 if submitted is None else submitted.record.recorded_at,
            last=trace.last_at,
            document=self.document,
            messages=len(self.said),
            output=trace.output,
            spent=state.spent,
            erased=state.erased or self.past.erased or bool(trace.gone),
            unread=trace.unread or self.past.unread,
        )

    def asked(self, common: int) -> list[Call]:
        """The calls of replies that are not among the first messages."""
        known = {said.message.id for said in self.said[:common]}
        return [call for call in self.trace.calls.values() if f"{self.trace.run}/{call.index}" not in known]


async def compare(journal: Journal, left: str, right: str | None = None) -> Comparison:
    """Put two runs side by side.

    Args:
        journal: The journal, opened with `trouper.REGISTRY`.
        left: A run. Alone, it must be a fork, and is put beside the run that it was forked from.
        right: Another.

    Raises:
        UnknownRun: There is none of that id.
        ForkError: One run alone, that is no fork.
        RecordArchived: One of them is in an archive that is not at hand.
        JournalError: The journal cannot be read.
    """
    histories = Histories(journal)
    if right is None:
        fork = await _read(journal, histories, left)
        forked = fork.trace.state.forked
        if forked is None or not forked.of.run:
            raise ForkError(f"run {left} is no fork: name the run to compare it with")
        return _compared(await _read(journal, histories, forked.of.run), fork)
    return _compared(await _read(journal, histories, left), await _read(journal, histories, right))


async def _read(journal: Journal, histories: Histories, run: str) -> _Read:
    await refuse_archived(journal, f"run/{run}")
    trace = await read_trace(journal, run)
    past = await past_of(histories, trace.state)
    read = _Read(trace, past, await read_document(journal, trace.state.definition))
    if past.lead is not None:
        read.said.append(Said(past.lead, run, past.lead.id in trace.gone))
    read.said += [
        Said(message, piece.ref.run) for piece in past.pieces if not piece.erased for message in piece.messages
    ]
    read.said += [Said(message, run, message.id in trace.gone) for message in trace.state.messages]
    return read


def _compared(left: _Read, right: _Read) -> Comparison:
    ours, theirs = left.trace.state, right.trace.state
    # Whether what was erased was the same cannot be known: then only what the facts say is held against each other.
    facts_only = ours.erased or theirs.erased
    said_key = partial(_message_key, facts_only=facts_only)
    call_key, call_whole = partial(_call_key, facts_only=facts_only), partial(_call_whole, facts_only=facts_only)
    common = common_prefix([said_key(said) for said in left.said], [said_key(said) for said in right.said])
    forked = theirs.forked
    return Comparison(
        left=left.side(),
        right=right.side(),
        fork=forked.of if forked is not None and forked.of.run == ours.run else None,
        start=tuple(_pairs(_start(left.trace), _start(right.trace))),
        definition=tuple(differences(_document(left), _document(right))),
        common=common,
        messages=aligned(left.said[common:], right.said[common:], said_key),
        calls=aligned(left.asked(common), right.asked(common), call_key, call_whole),
        hooks=() if facts_only else _hooks(left.trace.ops, right.trace.ops),
        end=tuple(_pairs(_end(left.trace), _end(right.trace))),
        spend=tuple(_pairs(*_spend(ours.spent, theirs.spent))),
    )


def _hooks(left: Sequence[HookOp], right: Sequence[HookOp]) -> tuple[Row[HookOp], ...]:
    return aligned(left, right, lambda each: canonical([each.hook, op_value(each.op)]))


# ---- what is compared

_Facts: TypeAlias = dict[str, Value | Erased]


def _message_key(said: Said, *, facts_only: bool) -> bytes:
    """What was said, without ids: they are never the same in two runs."""
    message = said.message
    if said.erased or facts_only:
        return canonical(["erased", message.role])
    content: Value = message.content if isinstance(message.content, str | None) else [dict(p) for p in message.content]
    body: list[Value] = [message.role, content, dict(message.extra)]
    if isinstance(message, AI):
        body += [[[call.name, call.arguments] for call in message.tool_calls], message.reasoning, message.refusal]
    elif isinstance(message, ToolMessage):
        body += [message.name, message.status]
    return canonical(body)


def _call_key(call: Call, *, facts_only: bool) -> bytes:
    return canonical([call.tool, "erased" if call.erased or facts_only else call.arguments])


def _call_whole(call: Call, *, facts_only: bool) -> bytes:
    facts: list[Value] = [call.gate, call.policy, call.outcome, call.evidence, call.verdict, call.attempts]
    if not facts_only:
        facts.append("erased" if isinstance(call.text, Erased) else call.text)
        facts += sorted(_id_of(by) for by in call.approved_by)
    return canonical([*facts, len(call.approved_by)])


def _id_of(by: ev.Principal | Erased | None) -> str:
    return "" if by is None or isinstance(by, Erased) else by.id


def _document(read: _Read) -> Value:
    definition = read.document.definition
    return {} if definition is None else definition.document


def _start(trace: Trace) -> _Facts:
    state = trace.state
    limits = None if state.limits is None else state.limits.to_value()
    return {
        "agent": state.agent,
        "definition": state.definition,
        "limits": limits,
        "grants": list(state.tools.grants),
    }


def _end(trace: Trace) -> _Facts:
    state = trace.state
    return {
        "status": status(state).label,
        "failure": state.failure,
        "message": ERASED if FAILURE in trace.gone else state.failure_message or None,
        "output": trace.output,
        "steps": state.steps,
        "state": ERASED if NAMED in trace.gone else dict(state.named),
    }


def _spend(*sides: Spent) -> list[_Facts]:
    tools = sorted({tool for spent in sides for tool in spent.by_tool})
    return [
        {name: value for name, value in attrs.asdict(spent).items() if name != "by_tool"}
        | {f"calls of {tool}": spent.by_tool.get(tool, 0) for tool in tools}
        for spent in sides
    ]


def _pairs(left: _Facts, right: _Facts) -> Iterator[Pair]:
    for name in dict.fromkeys((*left, *right)):
        ours, theirs = left.get(name), right.get(name)
        if isinstance(ours, Erased) or isinstance(theirs, Erased):
            continue
        if ours != theirs or type(ours) is not type(theirs):
            yield Pair(name, ours, theirs)
