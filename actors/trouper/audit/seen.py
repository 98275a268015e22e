"""A model request as it was sent, rebuilt from the fold: each message, where it came from, and what was left out.

Pure: what comes from other streams (history, definition document) is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from attrs import frozen

from trouper.audit.definitions import Document, Offered, Standing
from trouper.core.conversation import AI, Message, ToolMessage, Value
from trouper.core.digests import request_digest
from trouper.core.history import Piece
from trouper.core.hook_ops import Drop, Insert, MessageOp, Replace
from trouper.core.hooking import shown
from trouper.core.state import RunState
from trouper_journal import Plain, Record

Origin: TypeAlias = Literal[
    "instructions",
    "history",
    "summary",
    "input",
    "reply",
    "result",
    "signal",
    "check",
    "again",
    "budget",
    "hook",
    "wrap_up",
]
"""Where a message came from: standing orders, an earlier run of which something was erased, the summary of what was
dropped, what was asked for, a reply, a call's result, somebody who steered the run, what was wrong with an answer, the
word to try again after a refusal, what is running out, a hook that inserted it, the word to come to an end."""


@frozen(slots=False, repr=False, eq=False)
class HookOp(Plain):
    """What a hook did to the messages that the model is shown.

    Attributes:
        op: What it asked for.
        hook: Its name.
        position: Position of the record that says so.
    """

    op: MessageOp
    hook: str
    position: int


@frozen(slots=False, repr=False, eq=False)
class Seen(Plain):
    """A message as a model saw it.

    Attributes:
        message: The message; None where it was erased, so that not even its kind is known.
        origin: Where it came from.
        run: The run whose conversation it is part of; empty for what the definition says.
        hook: What a hook did that inserted it, or put it in another's place.
        original: What stands in the run's record in its place, where a hook replaced it.
        erased: Whether what was said in it was erased: the model saw more than this, and of the message nothing counts
            but its kind and its id.
    """

    message: Message | None
    origin: Origin
    run: str = ""
    hook: HookOp | None = None
    original: Message | None = None
    erased: bool = False


@frozen(slots=False, repr=False, eq=False)
class LeftOut(Plain):
    """A message of the conversation that hooks kept from the model.

    Attributes:
        message: The message.
        run: The run whose conversation it is part of.
        hook: What was done.
        erased: Whether what was said in it was erased.
    """

    message: Message
    run: str
    hook: HookOp | None
    erased: bool = False


@frozen(slots=False, repr=False, eq=False)
class Check(Plain):
    """Whether what is shown of a request is what was recorded of it when it was sent.

    Attributes:
        digest: Whether the digest over the rebuilt messages is the recorded one.
        recorded: The digest as recorded.
        recomputed: The digest as it is now; empty where it cannot be had.
        history: What of the history before the run is not what was pinned, in words; None where it is, or none is.
        definition: Whether the definition document is the one that the run has pinned.
        unread: Why the history before the run cannot be read here, and is not shown, in words.
    """

    digest: Literal["matches", "differs", "erased"]
    recorded: bytes
    recomputed: bytes
    history: str | None = None
    definition: Standing = "matches"
    unread: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts the record; what was erased, or cannot be read here, does not."""
        return self.digest != "differs" and self.history is None and self.definition in {"matches", "erased", "unread"}


@frozen(slots=False, repr=False, eq=False)
class Request(Plain):
    """An attempt at a model call, as it went out.

    Attributes:
        index: Number of the model call.
        attempt: Number of the attempt; 0 where a hook answered and nothing was sent.
        record: The record of ``model.requested``; None where nothing was sent.
        messages: What the model saw, in order.
        left_out: What of the conversation it did not see, because of hooks.
        tools: The tools that it was offered.
        model: Identity of the model that was asked.
        settings: The settings that say something.
        closing: Whether it was the last request of a run at a limit.
        exact: Whether the instructions are to the letter what was sent (see `Document.exact`).
        erased: Whether some of what the model saw was erased.
        check: Whether it is what was recorded; None where nothing was sent.
    """

    index: int
    attempt: int
    record: Record | None
    messages: tuple[Seen, ...]
    left_out: tuple[LeftOut, ...]
    tools: tuple[Offered, ...]
    model: Mapping[str, Value]
    settings: Mapping[str, Value]
    closing: bool
    exact: bool
    erased: bool
    check: Check | None


@frozen(slots=False, repr=False, eq=False)
class Sent(Plain):
    """What the fold knows of an attempt at the moment before its record.

    Attributes:
        state: The run, folded up to the record before.
        ops: What hooks had done to the messages by then, in order.
        attempt: Number of the attempt; 0 where a hook answered.
        closing: Whether it was the last request of a run at a limit.
        model: The further model that was chosen; empty for the agent's own.
        digest: The recorded digest; empty where nothing was sent.
        record: The record; None where nothing was sent.
    """

    state: RunState
    ops: tuple[HookOp, ...]
    attempt: int
    closing: bool
    model: str
    digest: bytes
    record: Record | None


@frozen(slots=False, repr=False, eq=False)
class Past(Plain):
    """What comes before a run's own messages, as it is in the journal now.

    Attributes:
        pieces: The history, run by run.
        lead: What stands in the place of what was dropped of it.
        difference: What of it is not what was pinned, in words.
        erased: Whether some of it was erased.
        unread: Why it cannot be read here, though nothing says that it is not what it was.
    """

    pieces: tuple[Piece, ...] = ()
    lead: Message | None = None
    difference: str | None = None
    erased: bool = False
    unread: str | None = None


def rebuild(sent: Sent, past: Past, document: Document, gone: Collection[str]) -> Request:
    """The request, message by message.

    Args:
        sent: What the fold knows of it.
        past: What comes before the run's own messages.
        document: The definition that the run had pinned then.
        gone: Ids of the run's own messages of which something was erased.
    """
    state = sent.state
    placed = list(_placed(state, past, gone))
    known = {each.message.id: each for each in placed}
    if sent.ops:
        visible = shown([each.message for each in placed], [each.op for each in sent.ops])
        middle = [_seen(message, known, sent.ops) for message in visible]
        left_out = tuple(_left_out(known, visible, sent.ops))
    else:
        middle = [Seen(each.message, origin_of(each.message), each.run, erased=each.erased) for each in placed]
        left_out = ()
    tools = document.tools(closing=sent.closing, bound=state.tools.offers(state.index))
    before = [Seen(message, "instructions") for message in document.briefing()]
    before += [Seen(None, "history", piece.ref.run, erased=True) for piece in past.pieces if piece.erased]
    behind = [Seen(document.wrap_up(state.budget.refused), "wrap_up")] if sent.closing else []
    erased = state.erased or past.erased or document.standing == "erased"
    if f"{state.run}/input" in gone:
        # How many messages that were, nobody knows.
        middle.insert(len(middle) - len(state.messages), Seen(None, "input", state.run, erased=True))
    return Request(
        index=state.index,
        attempt=sent.attempt,
        record=sent.record,
        messages=(*before, *middle, *behind),
        left_out=left_out,
        tools=tools,
        model=document.model(sent.model),
        settings=document.settings(state, tools, closing=sent.closing),
        closing=sent.closing,
        exact=document.exact,
        erased=erased,
        check=None if sent.record is None else _check(sent, past, document),
    )


def _check(sent: Sent, past: Past, document: Document) -> Check:
    state = sent.state
    if state.erased or not state.salt:
        return Check("erased", sent.digest, b"", past.difference, document.standing, past.unread)
    digest = request_digest(state.chain, state.definition, sent.closing, state.tools.offers(state.index))
    same: Literal["matches", "differs"] = "matches" if digest == sent.digest else "differs"
    return Check(same, sent.digest, digest, past.difference, document.standing, past.unread)


class _Placed(NamedTuple):
    """A message of the conversation, the run that it was said in, and whether it was erased."""

    message: Message
    run: str
    erased: bool


_Known: TypeAlias = Mapping[str, _Placed]


def _placed(state: RunState, past: Past, gone: Collection[str]) -> Iterator[_Placed]:
    """The conversation without what hooks did to it."""
    if past.lead is not None:
        yield _Placed(past.lead, state.run, past.lead.id in gone)
    for piece in past.pieces:
        # Of what was said in a run that was erased nobody knows which messages they were.
        for message in piece.messages if not piece.erased else ():
            yield _Placed(message, piece.ref.run, erased=False)
    for message in state.messages:
        yield _Placed(message, state.run, message.id in gone)


def _seen(message: Message, known: _Known, ops: Sequence[HookOp]) -> Seen:
    found = known.get(message.id)
    if found is None:
        return Seen(message, "hook", hook=_last(ops, message.id, Insert, Replace))
    original, run, erased = found
    if original is message:
        return Seen(message, origin_of(message), run, erased=erased)
    return Seen(message, origin_of(original), run, _last(ops, message.id, Replace), original, erased)


def _last(ops: Sequence[HookOp], name: str, *kinds: type) -> HookOp | None:
    for each in reversed(ops):
        op = each.op
        if isinstance(op, kinds) and isinstance(op, Insert | Replace) and op.message.id == name:
            return each
    return None


def origin_of(message: Message) -> Origin:
    """Where a message of a conversation came from, by its kind and its id."""
    if isinstance(message, AI):
        return "reply"
    if isinstance(message, ToolMessage):
        return "result"
    tail = message.id.rpartition("/")[2]
    if tail == "summary":
        return "summary"
    if tail.startswith("signal-"):
        return "signal"
    if tail.startswith("budget-"):
        return "budget"
    if tail.endswith(".check"):
        return "check"
    return "again" if tail.endswith(".again") else "input"


def _left_out(known: _Known, visible: Iterable[Message], ops: Sequence[HookOp]) -> Iterator[LeftOut]:
    shown_ids = {message.id for message in visible}
    everything = [each.message for each in known.values()]
    inserts = [each.op for each in ops if isinstance(each.op, Insert)]
    places = {message.id: place for place, message in enumerate(shown(everything, inserts))}
    for name, (message, run, erased) in known.items():
        if name not in shown_ids:
            yield LeftOut(message, run, _dropped_by(name, places, ops), erased)


def _dropped_by(name: str, places: Mapping[str, int], ops: Sequence[HookOp]) -> HookOp | None:
    for each in ops:
        op = each.op
        if isinstance(op, Drop) and (name in op.ids or places.get(op.through or "", -1) >= places.get(name, 0)):
            return each
    return None
