"""The events of the golden sealed journal, and the master key of its keys."""

from __future__ import annotations

from pathlib import Path

import attrs

from trouper_journal import Content, EventRegistry, Plain, Value, event

FOLDER = Path(__file__).parent
MASTER = bytes(range(32))


@event("golden.spoken")
@attrs.frozen(slots=False, repr=False, eq=False)
class Spoken(Plain):
    words: Content[Value]


@event("golden.noted")
@attrs.frozen(slots=False, repr=False, eq=False)
class Noted(Plain):
    number: int


REGISTRY = EventRegistry([Spoken, Noted])
