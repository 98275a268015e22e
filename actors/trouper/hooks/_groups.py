"""Conversations in pieces that may be left out and leave the rest valid: a reply stays with its calls' answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from trouper.core.conversation import Human, Message, System, ToolMessage

Group: TypeAlias = tuple[Message, ...]


def groups(messages: Sequence[Message]) -> list[Group]:
    """The messages in order: each alone, but a reply with the answers to its calls."""
    found: list[list[Message]] = []
    for message in messages:
        if isinstance(message, ToolMessage) and found:
            found[-1].append(message)
        else:
            found.append([message])
    return [tuple(group) for group in found]


def droppable(messages: Sequence[Message]) -> list[Group]:
    """What may be left out, oldest first.

    Never what was ordered (system messages), what was asked last (the last human message), nor the last reply with its
    answers: without them a model would not know what it is about.
    """
    asked = (message for message in reversed(messages) if isinstance(message, Human) and not _sums_up(message))
    last = next(asked, None)
    everything = groups(messages)
    return [
        group
        for group in everything[:-1]
        if not isinstance(group[0], System) and all(each is not last for each in group)
    ]


def _sums_up(message: Message) -> bool:
    """Whether it is a summary of messages before it, which nobody asked."""
    return "/summary" in message.id
