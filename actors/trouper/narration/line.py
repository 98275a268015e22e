"""One event for people, and the texts that many events have in common."""

from __future__ import annotations

from attrs import frozen

from trouper.core.conversation import Human, Message
from trouper.core.conversation import text as text_of
from trouper.narration.text import count, quoted
from trouper_journal import Erased

ERASED_TEXT = "[erased]"
RUNTIME = "runtime"


@frozen
class Line:
    """One event for people.

    Attributes:
        who: Who did it: a person, the model, a tool, or the runtime.
        text: What.
        style: ``person``, ``model``, ``ok``, ``bad``, ``doubt``, ``dim`` or nothing.
    """

    who: str
    text: str
    style: str = ""


def in_vain(line: Line) -> Line:
    """The line of a decision that did not count."""
    return Line(line.who, f"without effect: {line.text}", "bad")


def said_text(text: str | Erased | None, limit: int | None) -> str:
    """What somebody said, in quotes."""
    return ERASED_TEXT if isinstance(text, Erased) else quoted(text or "", limit)


def reason_text(text: str | Erased | None, limit: int | None) -> str:
    """Why, behind a colon; nothing where nobody said."""
    return "" if text is None else f": {said_text(text, limit)}"


def asked_text(messages: tuple[Message, ...] | Erased, limit: int | None) -> str:
    """What somebody asks for."""
    if isinstance(messages, Erased):
        return ERASED_TEXT
    if len(messages) == 1 and isinstance(messages[0], Human):
        return quoted(text_of(messages[0].content), limit)
    last = f", the last: {quoted(text_of(messages[-1].content), limit)}" if messages else ""
    return f"{count(len(messages), 'message')}{last}"
