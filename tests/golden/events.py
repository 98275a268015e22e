"""The events of the golden journals, as the release that wrote them knew them; they only change by new schemas."""

from __future__ import annotations

from typing import ClassVar

import attrs

from trouper_journal import Content, EventRegistry, Value, event


@attrs.frozen
class Note:
    kind: ClassVar[str] = "note"
    text: str


@attrs.frozen
class Link:
    kind: ClassVar[str] = "link"
    url: str
    title: str | None = None


@event("golden.opened")
@attrs.frozen
class Opened:
    subject: str
    text: Content[str]
    parts: Content[tuple[Note | Link, ...]] = ()
    extra: Content[Value] = None
    priority: int = 3


@event("golden.counted", driver=True)
@attrs.frozen
class Counted:
    count: int = 0
    ratio: float = 0.0


REGISTRY = EventRegistry([Opened, Counted])

LARGE = "large " * 5_500

# Each stream's events in order; the last of "ticket/2" is sealed and reads back with its content erased.
EVENTS: dict[str, list[object]] = {
    "ticket/1": [
        Opened("plain", "hello", priority=1),
        Opened("lone surrogates", "\ud83d and \udc00 apart, \U0001f600 together"),
        Opened("integers", "", extra=[2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**400]),
        Opened("floats", "", extra=[0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 1, True]),
        Counted(),
        Counted(7, 0.25),
    ],
    "ticket/2": [
        Opened("unions", "t", (Note("n"), Link("https://example.org", "Example"), Link("https://example.org"))),
        Opened("large", LARGE, extra={"again": 1}),
        Opened("nested", "", extra={"": [[], {}, {"b": b"\x00\xff", "a": None}]}),
        Opened("sealed", "secret", extra={"a": 1}, priority=2),
    ],
    "заявка/3": [Opened("large in a domain", LARGE)],
}
