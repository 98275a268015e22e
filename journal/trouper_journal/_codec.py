"""How a class of events is written and read: facts and content apart, strict both ways, compiled once.

Fields equal to their defaults are not stored. Content beyond 32 KiB is stored apart, once for each erasure domain.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias

import attrs

from trouper_journal._classes import Shapes, is_content
from trouper_journal._errors import InvalidValue, JournalCorrupt
from trouper_journal._printable import Printable
from trouper_journal._records import Domain, LargeValue, Opened, Record
from trouper_journal._shapes import ERASED, READ_ERRORS, TOO_DEEP, Erased, Fields, Shape, explain
from trouper_journal._values import Reference, Value, pack_plain, too_deep, unpack_map

LARGE: Final = 32 * 1024
"""A content field of more packed bytes than this is stored apart."""

SALT_SIZE: Final = 16
"""Random bytes at the start of stored content."""

SEAL_OVERHEAD: Final = 28
"""By how many bytes a sealed large value is longer than a plain one: nonce and tag."""

_PUBLIC: Final = b"trouper large value"


@attrs.define(slots=True, repr=False)
class Encoded(Printable):
    """An event as it is going to be stored. Not changed once made; frozen would cost with every event.

    Attributes:
        type: Name of the event.
        schema: Number of its schema.
        driver: Whether only the holder of the fence may append it.
        facts: Packed map of the plain fields; empty where there are none.
        content: 16 random bytes and the packed map of the content fields; empty where the class has none.
        large: How many large values ``content`` refers to.
        values: Those values, each once.
    """

    type: str
    schema: int
    driver: bool
    facts: bytes
    content: bytes = attrs.field(repr=False)
    large: int = 0
    values: tuple[LargeValue, ...] = ()


Writer: TypeAlias = Callable[[object], Fields]
Reader: TypeAlias = Callable[[Fields], object]


class EventCodec:
    """Writes and reads the events of one class.

    The class is checked at once, unless told otherwise; the code that writes and reads it is generated at its first
    use, because that is most of the time that a program takes to import its events.
    """

    __slots__ = (
        "_all_shapes",
        "_fact_names",
        "_reader",
        "_shapes",
        "_writers",
        "cls",
        "content",
        "driver",
        "schema",
        "type",
    )

    def __init__(self, cls: type, *, type: str, schema: int, driver: bool, shapes: Shapes, check: bool = True) -> None:
        self.cls: Final = cls
        self.type: Final = type
        self.schema: Final = schema
        self.driver: Final = driver
        self._all_shapes: Final = shapes
        self._shapes: Mapping[str, Shape] | None = None
        self.content: frozenset[str] = frozenset()
        self._fact_names: frozenset[str] = frozenset()
        self._writers: tuple[Writer, Writer] | None = None
        self._reader: Reader | None = None
        if check:
            self.look()

    def look(self) -> Mapping[str, Shape]:
        """Find out how the class's fields are stored, unless that is known.

        Raises:
            InvalidRegistry: One of them cannot be stored.
        """
        if self._shapes is None:
            shapes = self._all_shapes.fields(self.cls)
            fields = attrs.fields_dict(self.cls)
            self.content = frozenset(name for name in shapes if is_content(fields[name].type))
            self._fact_names = frozenset(shapes) - self.content
            self._shapes = shapes
        return self._shapes

    def _make_writers(self) -> tuple[Writer, Writer]:
        """For the facts and for the content."""
        make, shapes = self._all_shapes.writer, self.look()
        self._writers = make(self.cls, shapes, self._fact_names), make(self.cls, shapes, self.content)
        return self._writers

    def _make_reader(self) -> Reader:
        shapes = self.look()
        readable = {name: _or_erased(shape) if name in self.content else shape for name, shape in shapes.items()}
        self._reader = self._all_shapes.reader(self.cls, readable)
        return self._reader

    def encode(self, event: object, *, stream: str, domain: Domain | None, salt16: bytes) -> Encoded:
        """Write an event.

        Raises:
            InvalidValue: A field cannot be stored; the path begins with the event's name.
        """
        write_facts, write_content = self._writers or self._make_writers()
        try:
            fields = write_facts(event)
            facts = pack_plain(fields) if fields else b""
            if not self.content:
                if too_deep(facts):
                    self._refuse(event, TOO_DEEP)
                return Encoded(self.type, self.schema, self.driver, facts, b"")
            fields = write_content(event)
            packed = pack_plain(fields)
        except (InvalidValue, *READ_ERRORS) as error:
            self._refuse(event, str(error))
        if too_deep(facts) or too_deep(packed):
            self._refuse(event, TOO_DEEP)
        if len(packed) <= LARGE:
            return Encoded(self.type, self.schema, self.driver, facts, salt16 + packed)
        large = _set_apart(fields, stream, domain)
        values = tuple({value.digest: value for value in large}.values())
        return Encoded(self.type, self.schema, self.driver, facts, salt16 + pack_plain(fields), len(large), values)

    def decode(self, record: Record) -> object:
        """Read an event of this very schema.

        Raises:
            JournalCorrupt: The stored bytes do not form one.
        """
        facts, content = split(record)
        return self.build(facts, content, record.position)

    def build(self, facts: Mapping[str, Value], content: Mapping[str, Value] | Erased, position: int) -> object:
        """Call the constructor with stored fields.

        Raises:
            JournalCorrupt: They do not fit.
        """
        read = self._reader or self._make_reader()
        if not facts.keys() <= self._fact_names:
            raise JournalCorrupt(f"{self.type} has the unknown fact {min(facts.keys() - self._fact_names)!r}", position)
        fields: Fields
        if content is ERASED:
            fields = {**facts, **dict.fromkeys(self.content, ERASED)}
        elif content.keys() <= self.content:
            fields = {**facts, **content}
        else:
            unknown = min(content.keys() - self.content)
            raise JournalCorrupt(f"{self.type} has the unknown content field {unknown!r}", position)
        try:
            return read(fields)
        except READ_ERRORS as error:
            raise JournalCorrupt(self._explain_stored(fields, error), position) from None

    def _refuse(self, event: object, reason: str) -> NoReturn:
        """Find the field that cannot be stored; done only after a failure, so that encoding stays fast."""
        for name, shape in self.look().items():
            found = explain(shape, getattr(event, name), _try_write)
            if found is not None:
                raise InvalidValue(f"{self.type}.{name}{found[0]}", found[1]) from None
        raise InvalidValue(self.type, reason) from None

    def _explain_stored(self, fields: Fields, error: Exception) -> str:
        for name, shape in self.look().items():
            if name in fields and fields[name] is not ERASED:
                found = explain(shape, fields[name], _try_read)
                if found is not None:
                    return f"{self.type}.{name}{found[0]}: {found[1]}"
        if isinstance(error, KeyError):
            return f"{self.type} lacks the field {error}"
        return f"{self.type}: {error}"


def split(record: Record) -> tuple[dict[str, Value], dict[str, Value] | Erased]:
    """A record's facts and content as maps.

    Raises:
        JournalCorrupt: They are not packed maps, or a large value is missing.
    """
    try:
        facts = unpack_map(record.facts)
        if record.key_id is not None:
            opened = record.opened
            if not isinstance(opened, Opened):
                return facts, ERASED
            values = opened.values if record.large else None
            return facts, unpack_map(opened.content[SALT_SIZE:], values, SEAL_OVERHEAD)
        if not record.content:
            return facts, {}
        if len(record.content) <= SALT_SIZE:
            raise JournalCorrupt("content is shorter than its random bytes")
        return facts, unpack_map(record.content[SALT_SIZE:], record.values if record.large else None)
    except JournalCorrupt as error:
        raise JournalCorrupt(str(error), record.position) from None
    except (TypeError, AttributeError):
        raise JournalCorrupt("a column does not hold bytes", record.position) from None


def large_value(packed: bytes, stream: str, domain: Domain | None) -> LargeValue:
    """A large value as stored: 16 bytes that key it to its domain, then the packed value.

    Equal values of a domain are stored once; across domains they share nothing, and without the domain's salt
    nobody can test a guess.
    """
    name = stream if domain is None else domain.name
    key = _PUBLIC if domain is None else domain.salt
    scope = name.encode("utf-8", "surrogatepass")
    prefix = hmac.digest(key, len(scope).to_bytes(4, "big") + scope + packed, "sha256")[:SALT_SIZE]
    data = prefix + packed
    return LargeValue(name, hashlib.sha256(data).digest(), data)


def _set_apart(fields: Fields, stream: str, domain: Domain | None) -> list[LargeValue]:
    """Replace the large ones among content fields by references."""
    values = []
    for name, value in fields.items():
        packed = pack_plain(value)
        if len(packed) > LARGE:
            large = large_value(packed, stream, domain)
            fields[name] = Reference(large.digest, len(large.data))
            values.append(large)
    return values


def _or_erased(shape: Shape) -> Shape:
    inner = shape.read

    def read(value: object, kind: object) -> object:
        return value if value is ERASED else inner(value, kind)

    return attrs.evolve(shape, read=read)


def _try_write(shape: Shape, value: object) -> object:
    packed = pack_plain(shape.write(value))
    # One level less than the limit, because the field stands in a map.
    if too_deep(b"\x91" + packed):
        raise ValueError(TOO_DEEP)
    return packed


def _try_read(shape: Shape, value: object) -> object:
    return shape.read(value, None)
