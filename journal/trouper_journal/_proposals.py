"""The door: what a caller offers is checked and encoded here, in the caller's task, before anybody else sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeGuard

from trouper_journal._codec import SALT_SIZE, Encoded
from trouper_journal._errors import InvalidWrite
from trouper_journal._planner import PreparedWrite, Proposal
from trouper_journal._records import Domain, Key, Write
from trouper_journal._registry import EventRegistry
from trouper_journal._values import Value, pack

MAX_NAME: Final = 200
"""Most characters in the name of a stream, a key or a label."""

MAX_EVENTS: Final = 10_000
"""Most events in one commit."""

MAX_INT: Final = 2**63 - 1
"""Largest version, position and time."""

NOTHING: Final[Mapping[str, int]] = {}
"""No requirements."""

_POOL: Final = 256


class Proposer:
    """Makes proposals for one journal.

    Args:
        registry: Encodes the events.
        random: Source of random bytes for content.
    """

    def __init__(self, registry: EventRegistry, random: Callable[[int], bytes]) -> None:
        self._registry = registry
        self._random = random
        self._pool = b""
        self._used = 0

    def propose(
        self,
        writes: Sequence[Write],
        *,
        require: Mapping[str, int],
        key: Key | None,
        fence: int | None,
        meta: Mapping[str, Value] | None,
    ) -> Proposal:
        """Check and encode a commit.

        Raises:
            InvalidWrite: It is malformed in itself.
            UnregisteredEvent: An event's class is not registered.
            InvalidValue: A value cannot be stored.
        """
        size = self._measure(writes)
        if require:
            require = _checked_requirements(require)
        if key is not None:
            key = _checked_key(key)
        if fence is not None:
            _check_int(fence, "fence", least=1)
        if meta is not None and type(meta) is not dict and not isinstance(meta, Mapping):
            raise InvalidWrite(f"meta: {type(meta).__name__} is not a map")
        fenced = fence is not None
        prepared = [self._prepare(write, fenced) for write in writes]
        return Proposal(prepared, require, key, fence, pack(meta, "meta") if meta else b"", size)

    def _measure(self, writes: Sequence[Write]) -> int:
        """Number of events; refuses what has no shape for a commit."""
        size = 0
        if type(writes) is not list and not isinstance(writes, Sequence):
            raise InvalidWrite(f"writes: {type(writes).__name__} is not a sequence of writes")
        for write in writes:
            if type(write) is not Write:
                raise InvalidWrite(f"writes: {type(write).__name__} is not a Write")
            events = write.events
            if type(events) is not list and not isinstance(events, Sequence):
                raise InvalidWrite(f"stream {write.stream!r}: {type(events).__name__} is not a sequence of events")
            size += len(events)
        if not size:
            raise InvalidWrite("a commit needs at least one event")
        if size > MAX_EVENTS:
            raise InvalidWrite(f"a commit has at most {MAX_EVENTS} events, not {size}: split it")
        if len(writes) > 1 and len({checked_name(write.stream, "stream") for write in writes}) != len(writes):
            raise InvalidWrite("a commit writes a stream once: put all of its events in one write")
        return size

    def _prepare(self, write: Write, fenced: bool) -> PreparedWrite:
        expected, label, wake_at, domain = write.expected, write.label, write.wake_at, write.domain
        stream = checked_name(write.stream, "stream")
        if expected is not None:
            _check_int(expected, "expected")
        if wake_at is not None:
            _check_int(wake_at, "wake_at")
        if label is not None:
            label = checked_name(label, "label")
        if domain is not None:
            domain = _checked_domain(domain)
        encode = self._registry.encode
        events: list[Encoded] = []
        for event in write.events:
            encoded = encode(event, stream=stream, domain=domain, salt16=self._salt())
            if encoded.driver and not fenced:
                raise InvalidWrite(f"stream {stream}: {encoded.type} is for the driver, who holds a fence")
            events.append(encoded)
        if not events:
            raise InvalidWrite(f"stream {stream}: a write needs at least one event")
        return PreparedWrite(stream, events, expected, label, wake_at)

    def _salt(self) -> bytes:
        # One call to the system for many salts.
        if self._used == len(self._pool):
            self._pool = self._random(SALT_SIZE * _POOL)
            self._used = 0
        start = self._used
        self._used = start + SALT_SIZE
        return self._pool[start : self._used]


def checked_name(name: object, where: str) -> str:
    """A name as plain text: members of an enumeration, for one, equal their text and have another hash.

    Raises:
        InvalidWrite: It is not 1 to 200 characters of text without control characters and lone surrogates.
    """
    if type(name) is str and 1 <= len(name) <= MAX_NAME and name.isprintable():
        return name
    plain = plain_name(name)
    if plain is None:
        shown = repr(name if not isinstance(name, str) else name[:60])
        raise InvalidWrite(
            f"{where}: {shown} is not a name of 1 to {MAX_NAME} characters without control characters and surrogates"
        )
    return plain


def plain_name(name: object) -> str | None:
    """A name as plain text; None for what cannot name a stream, a key or a label."""
    if not is_name(name):
        return None
    return name if type(name) is str else str.__str__(name)


def is_name(name: object) -> TypeGuard[str]:
    """Whether this can name a stream, a key or a label."""
    return (
        isinstance(name, str)
        and 1 <= len(name) <= MAX_NAME
        and (name.isprintable() or not any(_is_bad(character) for character in name))
    )


def _is_bad(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000


def _checked_requirements(require: object) -> Mapping[str, int]:
    if not isinstance(require, Mapping):
        raise InvalidWrite(f"require: {type(require).__name__} is not a map")
    checked: dict[str, int] = {}
    for name, version in require.items():
        stream = checked_name(name, "require")
        _check_int(version, f"require[{stream}]")
        checked[stream] = version
    return checked


def _checked_key(key: object) -> Key:
    if not isinstance(key, Key):
        raise InvalidWrite(f"key: {type(key).__name__} is not a Key")
    name = checked_name(key.name, "key")
    if not isinstance(key.digest, bytes) or not 1 <= len(key.digest) <= MAX_NAME:
        raise InvalidWrite(f"key {name}: the digest is not bytes (1 to {MAX_NAME})")
    return key if name is key.name else Key(name, key.digest)


def _checked_domain(domain: object) -> Domain:
    if not isinstance(domain, Domain):
        raise InvalidWrite(f"domain: {type(domain).__name__} is not a Domain")
    name = checked_name(domain.name, "domain")
    if not isinstance(domain.salt, bytes) or not domain.salt:
        raise InvalidWrite(f"domain {name}: the salt is not bytes, or there are none")
    return domain if name is domain.name else Domain(name, domain.salt)


def _check_int(number: object, where: str, least: int = 0) -> None:
    if type(number) is not int or not least <= number <= MAX_INT:
        raise InvalidWrite(f"{where}: {number!r} is not an integer from {least} to 2**63 - 1")
