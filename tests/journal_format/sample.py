"""Events for the tests of the format: one with every kind of field, one with facts only, and plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Literal, NewType

import attrs

from trouper_journal import Content, Encoded, EventRegistry, Record, Value, event

RunId = NewType("RunId", str)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Said:
    kind: ClassVar[str] = "said"
    text: str


@attrs.frozen
class Showed:
    kind: ClassVar[str] = "showed"
    url: str
    inner: tuple[Said | Showed, ...] = ()


@attrs.frozen
class Price:
    nanos: int
    entry: str = "none"

    def __attrs_post_init__(self) -> None:
        if self.nanos < 0:
            raise ValueError("nanos is at least 0")


@event("sample.everything")
@attrs.frozen
class Everything:
    run: RunId
    count: int
    ratio: float
    yes: bool
    digest: bytes
    maybe: str | None
    mode: Literal["fast", "slow", 3]
    color: Color
    tags: tuple[str, ...]
    pair: tuple[str, int]
    price: Price
    prices: Mapping[str, Price]
    text: Content[str]
    anything: Content[Value]
    said: Content[Said | Showed]
    either: Content[str | tuple[Mapping[str, Value], ...] | None]
    number: Content[int | float]
    extra: Content[dict[str, Value]] = attrs.Factory(dict[str, Value])
    limit: int = 10
    note: Content[str | None] = None


@event("sample.counted", driver=True)
@attrs.frozen
class Counted:
    count: int = 0


@event("sample.noted")
@attrs.frozen
class Noted:
    text: Content[str]
    other: Content[Value] = None
    subject: str = ""


REGISTRY = EventRegistry([Everything, Counted, Noted])
SALT = bytes(range(16))


def encode(event: object, registry: EventRegistry = REGISTRY) -> Encoded:
    return registry.encode(event, stream="sample/1", domain=None, salt16=SALT)


def record_of(encoded: Encoded, position: int = 7) -> Record:
    """The record that a journal would give back for an encoded event."""
    return Record(
        position=position,
        stream="sample/1",
        version=1,
        type=encoded.type,
        schema=encoded.schema,
        recorded_at=0,
        key=None,
        label=None,
        wake_at=None,
        key_id=None,
        meta=b"",
        facts=encoded.facts,
        content=encoded.content,
        leaf=b"",
        large=encoded.large,
        values={value.digest: value.data for value in encoded.values},
    )
