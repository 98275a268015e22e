"""What is asked of an agent: the task, its input as messages, and what makes two tasks the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

import attrs
from attrs import field, frozen

from trouper._moments import nanoseconds
from trouper.core.base import Base
from trouper.core.conversation import AI, Human, Message, System, ToolCall, ToolMessage, add_messages
from trouper.core.digests import message_value
from trouper.core.events import Limits, Principal
from trouper.core.must_be import by_name, is_a, is_a_or_none
from trouper.core.state import RunState
from trouper.errors import InvalidValue
from trouper.tools import to_value
from trouper_journal import Plain, Value, check_value, content_digest

SALT = 32
"""Bytes of a run's salt."""


@frozen(repr=False, eq=False)
class Submission(Plain):
    """What came of a submit.

    Attributes:
        run: The run's id.
        repeated: Whether the command was known, and this is the run that it began then.
        superseded: The runs of which calls were denied in favour of this one.
        state: The run's state right after; only where it was submitted now.
    """

    run: str
    repeated: bool
    state: RunState | None = None
    superseded: tuple[str, ...] = ()


def _moment(moment: dt.datetime | int | None, name: str) -> int | None:
    return None if moment is None else nanoseconds(moment, name)


def _deadline(moment: dt.datetime | int | None) -> int | None:
    return _moment(moment, "deadline")


def _after_start(options: SubmitOptions, _: object, deadline: int | None) -> None:
    if deadline is not None and options.start_at is not None and deadline <= options.start_at:
        raise InvalidValue("deadline", "is not later than start_at: the run could do nothing")


def _start_at(moment: dt.datetime | int | None) -> int | None:
    return _moment(moment, "start_at")


def _grants(given: object) -> tuple[str, ...]:
    names = None if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise InvalidValue("grants", f"{given!r} is no sequence of names of permissions")
    return tuple(sorted(set(names)))


@frozen(repr=False, eq=False)
class SubmitOptions(Plain):
    """When an agent is to do what is asked, and under which conditions.

    Attributes:
        start_at: Not before this moment, a datetime with its time zone or ns UTC; None for at once. Until then the run
            is ``scheduled``, and can be cancelled as ever.
        deadline: By this moment it must have ended, a datetime with its time zone or ns UTC; None for no deadline. At
            the deadline nothing more begins, what is under way is brought to a known end, and the run fails with
            `DeadlineExceeded`; a later deadline lets it go on.
        state: What keys of the agent's named state begin with, in place of their defaults.
        grants: The permissions that the run has; tools that take others are denied to it.

    Raises:
        InvalidValue: Something that is no moment, a deadline that is not after the start, or no name of a permission.
    """

    start_at: int | None = field(default=None, converter=_start_at)
    deadline: int | None = field(default=None, converter=_deadline, validator=_after_start)
    state: Mapping[str, object] = field(factory=dict, validator=by_name)
    grants: tuple[str, ...] = field(default=(), converter=_grants, kw_only=True)


@frozen(repr=False, eq=False)
class Task(Plain):
    """What is asked of an agent.

    Attributes:
        agent: The agent's name.
        input: Text, or messages to start from.
        limits: Limits instead of the agent's own.
        by: Who asks.
        base: The history that the run shall start from, or None.
        options: When, and under which conditions.

    Raises:
        InvalidValue: A part of another type.
    """

    agent: str
    input: str | Sequence[Message]
    limits: Limits | None = field(default=None, validator=is_a_or_none(Limits))
    by: Principal | None = field(default=None, validator=is_a_or_none(Principal))
    base: Base | None = field(default=None, validator=is_a_or_none(Base))
    options: SubmitOptions = field(factory=SubmitOptions, validator=is_a(SubmitOptions))


def principal(by: Principal | str) -> Principal:
    """Who does something, where a name will do.

    Raises:
        InvalidValue: Nobody is named.
    """
    who = Principal(by) if isinstance(by, str) else by
    if not isinstance(who, Principal):
        raise InvalidValue("by", f"{type(who).__name__} is neither a name nor a Principal")
    if not who.id:
        raise InvalidValue("by", "is empty: the record must say who it was")
    return who


def messages_of(run: str, given: str | Sequence[Message]) -> tuple[Message, ...]:
    """The input as messages with ids that are unique in the journal; one with a known id replaces the other in place.

    Raises:
        InvalidValue: There is none, or one of them cannot be journaled.
    """
    if isinstance(given, str):
        return (Human(id=f"{run}/input", content=given),)
    anything: object = given
    if not isinstance(anything, Sequence):
        raise InvalidValue("input", f"{type(given).__name__} is neither a text nor a sequence of messages")
    for number, message in enumerate(given):
        check_message(message, f"input[{number}]")
    if not given:
        raise InvalidValue("input", "is empty: give a text, or at least one message")
    named = [
        message if message.id else attrs.evolve(message, id=f"{run}/input-{number}")
        for number, message in enumerate(given)
    ]
    return add_messages((), named)


def said(given: str | Sequence[Message]) -> tuple[Message, ...]:
    """What a person says to a run under way, as messages; the run gives them their ids.

    Raises:
        InvalidValue: There is none, or one that no person can say, or that cannot be journaled.
    """
    if given == "":
        raise InvalidValue("input", "is empty: nothing is said")
    messages = messages_of("said", given)
    for number, message in enumerate(messages):
        if not isinstance(message, Human | System):
            raise InvalidValue(f"input[{number}]", f"{type(message).__name__} is not for a person to say")
    return tuple(attrs.evolve(message, id="") for message in messages)


def said_digest(salt: bytes, messages: Sequence[Message]) -> bytes:
    """Digest of what a person says, under the run's salt."""
    return content_digest(salt, [message_value(message) for message in messages])


def check_message(message: object, path: str) -> None:
    """Refuse what is no message, or cannot be journaled.

    Raises:
        InvalidValue: It is none.
    """
    if not isinstance(message, System | Human | AI | ToolMessage):
        raise InvalidValue(path, f"{type(message).__name__} is not a message")
    if isinstance(message.content, tuple):
        for number, part in enumerate(message.content):
            _check_mapping(part, f"{path}.content[{number}]")
    _check_mapping(message.extra, f"{path}.extra")
    for number, call in enumerate(message.tool_calls if isinstance(message, AI) else ()):
        if not isinstance(call, ToolCall):
            raise InvalidValue(f"{path}.tool_calls[{number}]", f"{type(call).__name__} is not a ToolCall")
        _check_mapping(call.extra, f"{path}.tool_calls[{number}].extra")


def _check_mapping(value: object, path: str) -> None:
    if not isinstance(value, Mapping):
        raise InvalidValue(path, f"{type(value).__name__} is not a mapping")
    check_value(dict(value), path)


def task_digest(salt: bytes, task: Task) -> bytes:
    """Keyed digest over what is asked: two tasks with the same are one."""
    asked: list[Value] = [task.agent]
    if isinstance(task.input, str):
        asked.append(task.input)
    else:
        asked.append([[message.id, message_value(message)] for message in task.input])
    if task.limits is not None:
        asked.append(task.limits.asked())
    if task.base is not None:
        asked.append([[ref.run, ref.version, ref.whole, ref.skip, ref.take] for ref in task.base.refs])
    if task.options.state:
        asked.append({"state": state_of(task)})
    if options := _asked_options(task.options):
        asked.append(options)
    return content_digest(salt, asked)


def state_of(task: Task) -> dict[str, Value] | None:
    """The named state that a run shall begin with, as it is journaled."""
    given = to_value(task.options.state)
    return given if isinstance(given, dict) and given else None


def _asked_options(options: SubmitOptions) -> dict[str, Value]:
    """The options that say something."""
    moments = {"start_at": options.start_at, "deadline": options.deadline}
    asked: dict[str, Value] = {name: moment for name, moment in moments.items() if moment is not None}
    if options.grants:
        asked["grants"] = [*options.grants]
    return asked


def check_command_id(command_id: object) -> None:
    """Refuse what is no command id.

    Raises:
        InvalidValue: It is not a text, or empty.
    """
    if not isinstance(command_id, str) or not command_id:
        # An empty one would make one command of all that came without an id; another type has no one text.
        raise InvalidValue("command_id", f"{command_id!r} is not a text of at least one character")
