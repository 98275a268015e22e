"""Which events a program knows: explicit names, schema numbers, and steps from older schemas to the present ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

from trouper_journal import _archived, _damaged
from trouper_journal._archived import Archived
from trouper_journal._classes import Shapes
from trouper_journal._codec import Encoded, EventCodec, split
from trouper_journal._damaged import Damaged
from trouper_journal._errors import InvalidRegistry, JournalCorrupt, UnknownEvent, UnregisteredEvent
from trouper_journal._printable import Plain
from trouper_journal._records import Domain, Record
from trouper_journal._shapes import READ_ERRORS, Erased
from trouper_journal._values import Value

Upcaster: TypeAlias = Callable[
    [dict[str, Value], dict[str, Value] | Erased], tuple[dict[str, Value], dict[str, Value] | Erased]
]
"""A pure step from one schema to the next: facts and content as stored in, as the next schema stores them out.

Fields equal to their defaults are absent. Content is ``ERASED`` where it cannot be read.
"""

AnyClass: TypeAlias = type[object]

T = TypeVar("T")
S = TypeVar("S")

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_ATTRIBUTE: Final = "__trouper_event__"


@attrs.frozen(slots=False, repr=False, eq=False)
class EventSpec(Plain):
    """What a journal stores about a class of events.

    Attributes:
        type: Name of the event, such as ``run.submitted``.
        schema: Number of the present schema, from 1.
        driver: Whether only the holder of the fence may append it.
        cls: The class.
        content: Names of the fields that are stored as content.
    """

    type: str
    schema: int
    driver: bool
    cls: AnyClass
    content: frozenset[str] = frozenset()


def event(name: str, *, schema: int = 1, driver: bool = False) -> Callable[[type[T]], type[T]]:
    """Name a class of events; put it above ``attrs.frozen``.

    Args:
        name: Lower-case words joined by dots, such as ``run.submitted``. It is what the journal stores: the class may
            be renamed or moved, the name may not.
        schema: Number of the schema, from 1. Every change of a field's name, type, default or place (fact or content)
            is a new schema.
        driver: Whether only the holder of the fence may append it.

    Raises:
        InvalidRegistry: The name or the number is malformed, or the class is not a frozen attrs class.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRegistry(f"{name!r} is not an event's name: use lower-case words joined by dots")
    if not 1 <= schema < 2**31:
        raise InvalidRegistry(f"{name}: schema {schema} is not a number from 1")

    def mark(cls: type[T]) -> type[T]:
        known: type = cls
        if not attrs.has(known) or cls.__setattr__ is object.__setattr__:
            raise InvalidRegistry(f"{name}: {cls.__qualname__} is not a frozen attrs class (put @event above @frozen)")
        setattr(cls, _ATTRIBUTE, EventSpec(name, schema, driver, cls))
        return cls

    return mark


class EventRegistry:
    """The events that a program can write and read; closed once made."""

    __slots__ = ("_by_class", "_by_type", "_upcasters")

    def __init__(
        self,
        classes: Iterable[type],
        *,
        upcasters: Mapping[tuple[str, int], Upcaster] | None = None,
        check: bool = True,
    ) -> None:
        """Make a registry.

        Args:
            classes: Classes marked with ``event``.
            upcasters: Steps by event name and the schema number that they start from. Each schema below the present
                one needs its step.
            check: Whether the fields of all classes are looked at now; else those of each at its first use, so that
                a program with many events imports faster.

        Raises:
            InvalidRegistry: A name or a class is given twice, a field's values cannot be stored, or a step is missing
                or leads nowhere.
        """
        shapes = Shapes()
        codecs: list[EventCodec] = []
        for cls in classes:
            spec = vars(cls).get(_ATTRIBUTE)
            if not isinstance(spec, EventSpec) or spec.cls is not cls:
                raise InvalidRegistry(f"{cls.__qualname__} is not marked with @event")
            codecs.append(
                EventCodec(cls, type=spec.type, schema=spec.schema, driver=spec.driver, shapes=shapes, check=check)
            )
        self._fill(codecs, dict(upcasters or {}))

    def _fill(self, codecs: Iterable[EventCodec], upcasters: Mapping[tuple[str, int], Upcaster]) -> None:
        by_type: dict[str, EventCodec] = {}
        by_class: dict[type, EventCodec] = {}
        for codec in codecs:
            if codec.type in by_type or codec.cls in by_class:
                raise InvalidRegistry(f"event {codec.type} ({codec.cls.__qualname__}) is registered twice")
            by_type[codec.type] = by_class[codec.cls] = codec
        needed = {(codec.type, schema) for codec in by_type.values() for schema in range(1, codec.schema)}
        if needed != upcasters.keys():
            wrong = sorted(needed ^ upcasters.keys())
            raise InvalidRegistry(f"upcasters are missing, or lead nowhere, for {wrong}")
        self._by_type = by_type
        self._by_class = by_class
        self._upcasters = upcasters

    def __or__(self, other: EventRegistry) -> EventRegistry:
        """Both registries in one.

        Raises:
            InvalidRegistry: They share a name or a class.
        """
        both = EventRegistry.__new__(EventRegistry)
        both._fill(
            [*self._by_type.values(), *other._by_type.values()],
            {**self._upcasters, **other._upcasters},
        )
        return both

    def __iter__(self) -> Iterator[EventSpec]:
        return (_spec(codec) for codec in self._by_type.values())

    def __contains__(self, event: object) -> bool:
        return event in self._by_type or event in self._by_class

    def spec(self, event: type | str) -> EventSpec:
        """What is stored about a class, or under a name.

        Raises:
            UnregisteredEvent: It is not in this registry.
        """
        codec = self._by_type.get(event) if isinstance(event, str) else self._by_class.get(event)
        if codec is None:
            raise UnregisteredEvent(f"{event} is not an event of this registry")
        return _spec(codec)

    def encode(self, event: object, *, stream: str, domain: Domain | None, salt16: bytes) -> Encoded:
        """Write an event.

        Args:
            event: An instance of a registered class.
            stream: Where it is going to stand; also its erasure domain where ``domain`` is None.
            domain: Erasure domain of its content.
            salt16: 16 random bytes for its content, never used before.

        Raises:
            UnregisteredEvent: Its class is not in this registry.
            InvalidValue: A field cannot be stored; the path begins with the event's name.
        """
        codec = self._by_class.get(type(event))
        if codec is None:
            raise UnregisteredEvent(f"{type(event).__qualname__} is not an event of this journal's registry")
        return codec.encode(event, stream=stream, domain=domain, salt16=salt16)

    def decode(self, record: Record) -> object:
        """Read a record's event; content fields of a sealed record are ``ERASED``.

        Raises:
            RecordArchived: The record was moved out to an archive.
            RecordDamaged: What is stored in its place is not what was recorded.
            UnknownEvent: The type is not in this registry, or the schema is newer than here.
            JournalCorrupt: The stored bytes do not form such an event; the message names position and field.
        """
        codec = self._by_type.get(record.type)
        if codec is None:
            if isinstance(record, Archived):
                raise _archived.refuse(record)
            if isinstance(record, Damaged):
                raise _damaged.refuse(record)
            raise UnknownEvent(record.type, record.schema, record.position, None)
        if record.schema == codec.schema:
            return codec.decode(record)
        if type(record.schema) is not int:
            raise JournalCorrupt(f"{record.type} has no number for its schema", record.position)
        if record.schema > codec.schema:
            raise UnknownEvent(record.type, record.schema, record.position, codec.schema)
        return self._decode_older(codec, record)

    def _decode_older(self, codec: EventCodec, record: Record) -> object:
        if record.schema < 1:
            raise JournalCorrupt(f"{record.type} has schema {record.schema}", record.position)
        facts, content = split(record)
        for schema in range(record.schema, codec.schema):
            try:
                facts, content = self._upcasters[record.type, schema](facts, content)
            except READ_ERRORS as error:
                raise JournalCorrupt(
                    f"{record.type} schema {schema} does not upcast: {error}", record.position
                ) from error
        return codec.build(facts, content, record.position)


def fold(registry: EventRegistry, records: Iterable[Record], evolve: Callable[[S, object], S], initial: S) -> S:
    """The state after these records.

    Args:
        registry: Decodes the records.
        records: One stream's records in order.
        evolve: The pure step from state and event to state.
        initial: The state before the first record.

    Raises:
        UnknownEvent: A record's type or schema is not known here; it is not folded past.
        JournalCorrupt: A record does not decode.
    """
    state = initial
    for record in records:
        state = evolve(state, registry.decode(record))
    return state


def _spec(codec: EventCodec) -> EventSpec:
    codec.look()
    return EventSpec(codec.type, codec.schema, codec.driver, codec.cls, codec.content)
