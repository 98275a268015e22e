"""What-if runs: a new run from a place in another's history, with something changed there.

The other run is never touched. What the new one may do outside is contained: a call that the other run made, with the
same arguments, is answered by the recorded receipt; any other write is blocked, simulated, or asks a person.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs
from attrs import Attribute, field, frozen

from trouper.core.conversation import AI, Content, Message, ToolMessage, Value
from trouper.core.must_be import by_name, is_a, is_a_or_none, whole
from trouper.errors import ForkError, InvalidValue
from trouper_journal import Plain, check_value

Writes: TypeAlias = Literal["block", "simulate", "ask"]
"""What becomes of a new write in a fork: refused, answered as if it had been done, or a person is asked."""


@frozen(slots=False, repr=False, eq=False)
class Fork(Plain):
    """Where a run was forked from.

    Attributes:
        run: The run that it is a fork of; empty in a sub-agent's run, whose parent is a fork.
        version: As that run stood at this version of its stream.
        writes: What becomes of new writes.
    """

    run: str
    version: int
    writes: Writes = "block"


@frozen(slots=False, repr=False, eq=False)
class Forked(Plain):
    """A fork, as its own run knows it.

    Attributes:
        of: Where it comes from.
        used: Calls of the other run whose receipts have answered calls here: each answers one.
        replies: How many of its replies are the other run's, whose calls it makes itself.
    """

    of: Fork
    used: tuple[str, ...] = ()
    replies: int = 0


def _content(_: object, attribute: Attribute[Content], given: object) -> None:
    if given is not None and (not isinstance(given, Sequence) or isinstance(given, bytes)):
        raise InvalidValue(attribute.name, f"{type(given).__name__} is neither text nor a sequence of parts")


def _arguments(edit: object, attribute: Attribute[Mapping[str, Value]], given: Mapping[str, Value]) -> None:
    by_name(edit, attribute, given)
    check_value(dict(given), attribute.name)


def _version(_: object, attribute: Attribute[int | None], given: object) -> None:
    if given is not None:
        whole(given, 1, attribute.name)


@frozen(slots=False, repr=False, eq=False)
class EditMessage(Plain):
    """Another content for the message with this id."""

    id: str = field(validator=is_a(str))
    content: Content = field(validator=_content)


@frozen(slots=False, repr=False, eq=False)
class EditArguments(Plain):
    """Other arguments for a call; it and the other calls of its reply are made anew.

    Attributes:
        action: The call, such as ``0.1``, or its whole id.
        arguments: The arguments.
    """

    action: str = field(validator=is_a(str))
    arguments: Mapping[str, Value] = field(validator=_arguments)


@frozen(slots=False, repr=False, eq=False)
class EditReceipt(Plain):
    """Another answer to a call.

    Attributes:
        action: The call, such as ``0.1``, or its whole id.
        content: What the model is told.
        status: Whether that is a success.
    """

    action: str = field(validator=is_a(str))
    content: Content = field(validator=_content)
    status: Literal["ok", "error"] = "ok"


Edit: TypeAlias = EditMessage | EditArguments | EditReceipt


def _edits(given: Sequence[Edit]) -> tuple[Edit, ...]:
    for edit in given:
        if not isinstance(edit, EditMessage | EditArguments | EditReceipt):
            raise ForkError(f"{edit!r} is no edit: give EditMessage, EditArguments or EditReceipt")
    return tuple(given)


def _writes(_: object, __: object, value: object) -> None:
    if value not in ("block", "simulate", "ask"):
        raise ForkError(f"writes: {value!r} is none of 'block', 'simulate' and 'ask'")


@frozen(slots=False, repr=False, eq=False)
class WhatIf(Plain):
    """What shall be different in a fork.

    Attributes:
        edits: Changes of what was said. What came after the last of them is left out, unless ``at`` says otherwise.
        at: Fork from this version of the run's stream; None for its latest, or the place that the edits name. Calls
            that were open there are made anew. A reply without calls that stands last is asked for anew.
        say: What is said next: a text, or messages.
        agent: Another agent, for another prompt, model or tools; None for the same.
        writes: What becomes of new writes.

    Raises:
        ForkError: Something that is no edit, or another word for ``writes``.
        InvalidValue: Another part that is not what it must be.
    """

    edits: tuple[Edit, ...] = field(default=(), converter=_edits)
    at: int | None = field(default=None, validator=_version)
    say: str | Sequence[Message] = ()
    agent: str | None = field(default=None, validator=is_a_or_none(str))
    writes: Writes = field(default="block", validator=_writes)


@frozen(slots=False, repr=False, eq=False)
class Cut(Plain):
    """A history with the edits made.

    Attributes:
        kept: How many messages from the first are as they were.
        rest: What comes after those.
        again: Whether the last of the rest is a reply whose calls are to be made.
    """

    kept: int
    rest: tuple[Message, ...]
    again: bool


def cut_history(run: str, history: Sequence[Message], what_if: WhatIf, *, open_from: int | None) -> Cut:
    """Make the edits, and end the history where the fork begins.

    Args:
        run: The run that is forked.
        history: Its whole conversation at that version, closed.
        what_if: What shall be different.
        open_from: Place of the reply whose calls were open at that version, if any.

    Raises:
        ForkError: An edit names nothing in that history, or something that the fork leaves out.
    """
    messages = list(history)
    places: list[tuple[int, int]] = []
    end = len(messages)
    for edit in what_if.edits:
        at, last = _apply(run, messages, edit)
        places.append((at, last))
        if isinstance(edit, EditArguments):
            end = min(end, last)
    if what_if.at is None and places:
        end = min(end, max(last for _, last in places))
    if open_from is not None and not what_if.say and end > open_from + 1:
        end = open_from + 1
    if not what_if.say:
        while end and isinstance(reply := messages[end - 1], AI) and not reply.tool_calls:
            end -= 1
    for at, _ in places:
        if at >= end:
            raise ForkError(
                f"run {run}: {messages[at].id} is edited, but the fork ends before it; a reply that stands last is "
                "asked for anew unless something is said to it"
            )
    final = messages[end - 1] if end else None
    again = isinstance(final, AI) and bool(final.tool_calls)
    kept = min([end - 1 if again else end, *(at for at, _ in places)])
    while kept < end and isinstance(messages[kept], ToolMessage):
        # Calls and their answers stay together.
        kept -= 1
    return Cut(kept, tuple(messages[kept:end]), again)


def _apply(run: str, messages: list[Message], edit: Edit) -> tuple[int, int]:
    """Make one edit; where it was, and where a history ends that ends with it."""
    match edit:
        case EditMessage(id, content):
            at = next((place for place, message in enumerate(messages) if message.id == id), None)
            if at is None:
                raise ForkError(f"run {run}: no message {id} is in its history there")
            messages[at] = attrs.evolve(messages[at], content=content)
            return at, max(at + 1, _behind_answers(messages, at))
        case EditReceipt(action, content, status):
            call = _whole(run, action)
            for at, message in enumerate(messages):
                if isinstance(message, ToolMessage) and message.call_id == call:
                    messages[at] = attrs.evolve(message, content=content, status=status)
                    return at, _behind_answers(messages, at)
        case EditArguments(action, arguments):
            call = _whole(run, action)
            for at, message in enumerate(messages):
                if isinstance(message, AI) and any(asked.id == call for asked in message.tool_calls):
                    text = json.dumps(dict(arguments), ensure_ascii=False)
                    messages[at] = attrs.evolve(
                        message,
                        tool_calls=tuple(
                            attrs.evolve(asked, arguments=text) if asked.id == call else asked
                            for asked in message.tool_calls
                        ),
                    )
                    return at, at + 1
    raise ForkError(f"run {run}: no call {edit.action} is in its history there")


def _whole(run: str, action: str) -> str:
    return action if "/" in action else f"{run}/{action}"


def _behind_answers(messages: Sequence[Message], at: int) -> int:
    while at < len(messages) and isinstance(messages[at], ToolMessage):
        at += 1
    return at


def calls_again(run: str, reply: AI) -> AI:
    """A reply whose calls a fork makes itself: they get ids of its own, and with them effect keys of its own."""
    return attrs.evolve(
        reply,
        id=f"{run}/0",
        tool_calls=tuple(attrs.evolve(call, id=f"{run}/0.{number}") for number, call in enumerate(reply.tool_calls)),
    )
