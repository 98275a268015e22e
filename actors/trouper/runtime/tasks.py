"""What is asked of an agent: the task, its input as messages, and what makes two tasks the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from attrs import field, frozen

from trouper.core.base import Base
from trouper.core.conversation import AI, Human, Message, System, ToolCall, ToolMessage, add_messages
from trouper.core.digests import message_value
from trouper.core.events import Limits, Principal
from trouper.core.state import RunState
from trouper.errors import InvalidValue
from trouper.tools import to_value
from trouper_journal import Value, check_value, content_digest


@frozen
class Submission:
    """What came of a submit.

    Attributes:
        run: The run's id.
        repeated: Whether the command was known, and this is the run that it began then.
        state: The run's state right after; only where it was submitted now.
    """

    run: str
    repeated: bool
    state: RunState | None = None


@frozen
class Task:
    """What is asked of an agent.

    Attributes:
        agent: The agent's name.
        input: Text, or messages to start from.
        limits: Limits instead of the agent's own.
        by: Who asks.
        base: The history that the run shall start from, or None.
        state: What keys of the agent's named state begin with.
    """

    agent: str
    input: str | Sequence[Message]
    limits: Limits | None = None
    by: Principal | None = None
    base: Base | None = None
    state: Mapping[str, object] = field(factory=dict)


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
        _check_message(message, f"input[{number}]")
    if not given:
        raise InvalidValue("input", "is empty: give a text, or at least one message")
    named = [
        message if message.id else attrs.evolve(message, id=f"{run}/input-{number}")
        for number, message in enumerate(given)
    ]
    return add_messages((), named)


def _check_message(message: object, path: str) -> None:
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
        asked.append([task.limits.max_steps, task.limits.on_limit, task.limits.model_attempts])
    if task.base is not None:
        asked.append([[ref.run, ref.version, ref.whole, ref.skip, ref.take] for ref in task.base.refs])
    if task.state:
        asked.append({"state": state_of(task)})
    return content_digest(salt, asked)


def state_of(task: Task) -> dict[str, Value] | None:
    """The named state that a run shall begin with, as it is journaled."""
    given = to_value(task.state)
    return given if isinstance(given, dict) and given else None
