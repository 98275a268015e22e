"""Text for terminals.

What models, tools and people wrote is shown, never obeyed: a control character in it would let a call look like
another one to the person who approves it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from trouper.core import strict_json
from trouper.core.events import Principal
from trouper.core.state import Action
from trouper.narration.plain import plain
from trouper_journal import Erased

ERASED_TEXT = "[erased]"
"""In the place of content that cannot be read."""

CUT = 160
"""Characters of a text that a line shows, unless everything was asked for."""


def clean(text: str, *, keep: str = "") -> str:
    """The text with every character that is not plainly visible written as an escape.

    That covers control characters, directional overrides, invisible joiners, odd spaces and lone surrogates.

    Args:
        text: The text.
        keep: Characters to let pass all the same, such as newlines.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )


def cut(text: str, limit: int | None = CUT) -> str:
    """The beginning of a text that is too long for a line, and how long it is."""
    if limit is None or len(text) <= limit:
        return text
    return f"{text[: limit - 1]}… ({len(text):,} characters)"


def quoted(text: str, limit: int | None = CUT) -> str:
    """A text in quotes, on one line."""
    return clean(cut(json.dumps(text, ensure_ascii=False), limit))


def result_text(text: str, limit: int | None = CUT) -> str:
    """A tool's result on one line: JSON as it is, anything else in quotes."""
    if text[:1] in {"{", "["} and strict_json.parse(text)[0]:
        return clean(cut(text, limit))
    return quoted(text, limit)


def value_text(value: object, limit: int | None = CUT) -> str:
    """A value as JSON, on one line."""
    if isinstance(value, Erased):
        return ERASED_TEXT
    return clean(cut(json.dumps(plain(value), ensure_ascii=False), limit))


def call_text(tool: str, arguments: object, limit: int | None = CUT) -> str:
    """A call as people write it: ``close_ticket(ticket="INC-001")``."""
    if not isinstance(arguments, Mapping):
        return f"{clean(tool)}({'…' if arguments is None else value_text(arguments, limit)})"
    inside = ", ".join(f"{name}={json.dumps(plain(value), ensure_ascii=False)}" for name, value in arguments.items())
    return clean(f"{tool}({cut(inside, limit)})")


def action_text(action: Action, limit: int | None = CUT) -> str:
    """The call of an action, as it would run or ran."""
    return call_text(action.tool, action.arguments, limit)


def name_text(name: str, limit: int = 32) -> str:
    """A name for a column: never empty, and never longer than a column may be."""
    return clean(name if len(name) <= limit else f"{name[: limit - 1]}…") or '""'


def who(principal: Principal | Erased | None) -> str:
    """Name of a principal; ``somebody`` where the record does not say."""
    if isinstance(principal, Erased):
        return ERASED_TEXT
    return name_text(principal.id) if principal else "somebody"


def claim(principal: Principal | Erased | None) -> str:
    """How far a name can be trusted: who said it, and what was checked."""
    if isinstance(principal, Erased):
        return f"({ERASED_TEXT})"
    return f"({principal.assurance}, {clean(principal.via)})" if principal else "(unknown)"


def count(number: int, one: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def duration(seconds: float) -> str:
    """A length of time in at most two units."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 100:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24} h"


def age(seconds: float) -> str:
    """A length of time in one unit, for a column."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size * (2 if unit == "d" else 1):
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
