"""What hooks leave behind in a run's state, and the conversation as they let the model see it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen

from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.digests import message_value
from trouper.core.hook_ops import Drop, Insert, MessageOp, Replace
from trouper_journal import Plain, Value, content_digest


@frozen(slots=False, repr=False, eq=False)
class CallEdit(Plain):
    """What hooks want of a call that was not looked at yet.

    Attributes:
        arguments: Other arguments than the model's, or None.
        answer: What the model is told without the call being made, or None.
        ok: Whether that is a result.
    """

    arguments: Mapping[str, Value] | None = None
    answer: str | None = None
    ok: bool = True


NO_EDIT = CallEdit()


def _no_edits() -> dict[str, CallEdit]:
    return {}


def _no_calls() -> dict[str, int]:
    return {}


@frozen(slots=False, repr=False, eq=False)
class HookState(Plain):
    """What hooks did in a run.

    Attributes:
        before: Model index and chain of messages for which the hooks before the model were called.
        after: Model index of the last reply for which the hooks behind the model were called.
        error: Model index and attempt for which the hooks about errors were called.
        model: The model that was chosen for a call: model index, name, and whether because of an error.
        tried: Models that failed at a call, with its index.
        ops: What was done to the messages that the model is shown, in order.
        calls: What hooks want of the calls of the last reply that were not looked at yet.
        passed: How many calls of each tool hooks let through.
        asked: How many models hooks asked themselves.
        unpriced: How many of those calls have no price.
        answered: How many calls of the model hooks answered in its place.
    """

    before: tuple[int, bytes] | None = None
    after: int = -1
    error: tuple[int, int] = (-1, -1)
    model: tuple[int, str, bool] | None = None
    tried: tuple[int, tuple[str, ...]] = (-1, ())
    ops: tuple[MessageOp, ...] = ()
    calls: Mapping[str, CallEdit] = field(factory=_no_edits)
    passed: Mapping[str, int] = field(factory=_no_calls)
    asked: int = 0
    unpriced: int = 0
    answered: int = 0

    def chosen(self, index: int) -> str:
        """Name of the model that was chosen for a call; empty for the agent's own."""
        return self.model[1] if self.model is not None and self.model[0] == index else ""


NO_HOOKS = HookState()


def shown(messages: Sequence[Message], ops: Iterable[MessageOp]) -> tuple[Message, ...]:
    """The conversation as the model is shown it.

    Each operation names messages by their ids, so that it does not matter what came behind them since.
    """
    order: dict[str, list[str]] = {"": [message.id for message in messages]}
    known: dict[str, Message | None] = {message.id: message for message in messages}
    for op in ops:
        if isinstance(op, Drop):
            known.update(dict.fromkeys((one for one in op.ids if one in known), None))
            if op.through in known:
                known.update(dict.fromkeys(_until(order, op.through or ""), None))
        elif isinstance(op, Insert):
            known[op.message.id] = op.message
            if op.after:
                order.setdefault(op.after, []).insert(0, op.message.id)
            else:
                order[""].insert(0, op.message.id)
        elif known.get(op.message.id) is not None:
            known[op.message.id] = op.message
    return tuple(message for one in _walk(order, "") if (message := known.get(one)) is not None)


def replaced(message: Message, ops: Iterable[MessageOp]) -> Message:
    """A message as it was last replaced by another of its id."""
    for op in ops:
        if isinstance(op, Replace) and op.message.id == message.id:
            message = op.message
    return message


def _walk(order: Mapping[str, Sequence[str]], start: str) -> Iterator[str]:
    # By a stack: what is inserted behind an inserted message may go on for ever so long.
    waiting = list(reversed(order.get(start, ())))
    while waiting:
        one = waiting.pop()
        yield one
        if one in order:
            waiting += reversed(order[one])


def _until(order: Mapping[str, Sequence[str]], last: str) -> Iterator[str]:
    for one in list(_walk(order, "")):
        yield one
        if one == last:
            return


def extended(chain: bytes, salt: bytes, ops: Sequence[MessageOp]) -> bytes:
    """The digest over messages, with what was done to them: so it says what the model was shown."""
    if not ops:
        return chain
    return hashlib.sha256(chain + content_digest(salt, [op_value(op) for op in ops])).digest()


def op_value(op: MessageOp) -> Value:
    """What was done to the messages, as a plain value."""
    if isinstance(op, Drop):
        return ["drop", list(op.ids), op.through]
    after = op.after if isinstance(op, Insert) else None
    return [op.op, after, op.message.id, message_value(op.message)]


def broken_pairs(messages: Iterable[Message]) -> set[str]:
    """Calls without exactly one answer right behind their reply, and answers to nothing, as texts.

    The calls of the last message are not asked for: their answers are still to come.
    """
    wrong: set[str] = set()
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if open_calls and open_calls[0] == message.call_id:
                open_calls.pop(0)
            else:
                wrong.add(f"{message.id} answers no call that is open")
            continue
        wrong.update(f"{call} has no answer" for call in open_calls)
        open_calls = [call.id for call in message.tool_calls] if isinstance(message, AI) else []
    return wrong


def calls_of(message: Message | None) -> tuple[str, ...]:
    """Ids of the calls in a message."""
    return tuple(call.id for call in message.tool_calls) if isinstance(message, AI) else ()
