"""A line that tells of an event."""

from __future__ import annotations

from attrs import frozen

ERASED_TEXT = "[erased]"


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


RUNTIME = "runtime"
