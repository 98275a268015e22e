"""One event for people, and the texts that many events have in common.

What is told of a content field stands here, and nowhere else. Where it cannot be read, nothing is told of it as a fact:
a text that was there for certain is ``[erased]``, one that may have been there is ``[erased, if there was one]``, and a
sentence that would say that there was none, or what followed from it, is not said.
"""

from __future__ import annotations

from attrs import frozen

from trouper.core.conversation import Human, Message
from trouper.core.conversation import text as text_of
from trouper.core.terms import Principal
from trouper.narration.text import ERASED_TEXT as ERASED_TEXT
from trouper.narration.text import claim, count, quoted, who
from trouper_journal import Erased

PERHAPS_TEXT = "[erased, if there was one]"
"""In the place of content that cannot be read, where not even the facts say whether there was any."""

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


def deed(by: Principal | Erased | None, text: str) -> Line:
    """What somebody did, with how far the name can be trusted."""
    return Line(who(by), f"{text}  {claim(by)}", "person")


def said_text(text: str | Erased | None, limit: int | None) -> str:
    """What somebody said for certain, in quotes."""
    return ERASED_TEXT if isinstance(text, Erased) else quoted(text or "", limit)


def because_text(text: str | Erased, limit: int | None) -> str:
    """Why, behind a colon, where it was said for certain."""
    return f": {said_text(text, limit)}"


def reason_text(text: str | Erased | None, limit: int | None) -> str:
    """Why, behind a colon; nothing where nobody said."""
    if isinstance(text, Erased):
        return f": {PERHAPS_TEXT}"
    return f": {quoted(text, limit)}" if text else ""


def asked_text(messages: tuple[Message, ...] | Erased, limit: int | None) -> str:
    """What somebody asks for."""
    if isinstance(messages, Erased):
        return ERASED_TEXT
    if len(messages) == 1 and isinstance(messages[0], Human):
        return quoted(text_of(messages[0].content), limit)
    last = f", the last: {quoted(text_of(messages[-1].content), limit)}" if messages else ""
    return f"{count(len(messages), 'message')}{last}"
