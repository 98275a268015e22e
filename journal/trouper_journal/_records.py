"""What goes into a journal and what comes out: plain frozen data, no behaviour.

A *record* is one event as stored, with its envelope. A *write* offers events for one stream; a *commit*
is several writes, all or nothing. Times are nanoseconds since the Unix epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from trouper_journal._printable import Plain

NO_VALUES: Mapping[bytes, bytes] = {}


@attrs.frozen(slots=True, repr=False, eq=False)
class Opened(Plain):
    """What sealed content says, for a reader who has its key.

    Attributes:
        content: As plain content is stored.
        values: The large values that it refers to, opened, by the digests of their sealed bytes.
    """

    content: bytes = attrs.field(repr=False)
    values: Mapping[bytes, bytes] = attrs.field(default=NO_VALUES, repr=False)


@attrs.frozen(slots=True, repr=False, eq=False)
class Withheld(Plain):
    """Why sealed content cannot be read, for a reader who has other keys.

    Attributes:
        reason: ``erased``: its key was destroyed on purpose; ``missing``: the keys at hand do not have it, and know
            nothing of it; ``locked``: the keys at hand cannot be opened.
        details: In words.
    """

    reason: Literal["erased", "missing", "locked"]
    details: str


@attrs.frozen(slots=True, repr=False, eq=False)
class Record(Plain):
    """One stored event with its envelope, exactly as the digest covers it.

    Attributes:
        position: Place in the whole journal, gapless from 1.
        stream: Name of the stream.
        version: Place in the stream, gapless from 1.
        type: Name of the event, such as ``run.submitted``.
        schema: Number of the event's schema, from 1.
        recorded_at: When it was recorded, ns UTC. The fold never reads it.
        key: Name of the command key of its commit, or None.
        label: The stream's status after this commit, or None where the commit left it as it was.
        wake_at: When the stream needs its driver next (ns UTC) after this commit, or None for never.
        key_id: Names the data key under which ``content`` is sealed; None for plain.
        meta: Packed map of causes and circumstances, kept byte for byte.
        facts: Packed map of the event's plain fields.
        content: 16 random bytes and the packed map of its content fields; empty where it has none.
        leaf: RFC 6962 leaf hash over all of the above.
        values: Large values that ``content`` refers to, by digest, as stored, attached by the reader.
        opened: What sealed content says, or why it cannot be read, attached by a reader that was given keys; None
            where content is not sealed, or no keys were given.
    """

    position: int
    stream: str
    version: int
    type: str
    schema: int
    recorded_at: int
    key: str | None
    label: str | None
    wake_at: int | None
    key_id: str | None
    meta: bytes
    facts: bytes
    content: bytes
    leaf: bytes
    large: int = 0
    values: Mapping[bytes, bytes] = attrs.field(default=NO_VALUES, eq=False, repr=False)
    opened: Opened | Withheld | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(slots=True, repr=False, eq=False)
class Domain(Plain):
    """An erasure domain: content that would be made unreadable together.

    Attributes:
        name: Such as the root run or the session.
        salt: Random bytes (32) that key the digests of the domain's content.
    """

    name: str
    salt: bytes = attrs.field(repr=False)


@attrs.frozen(slots=True, repr=False, eq=False)
class Write(Plain):
    """Events for one stream.

    Attributes:
        stream: Name of the stream; it begins to exist with its first event.
        events: Instances of registered event classes, at least one.
        expected: The stream's version that the caller acted on (0: it must not exist yet); None to append anyway.
        label: New indexed status of the stream; None leaves it.
        wake_at: Earliest moment the stream needs its driver, ns UTC; None for never. A commit without a fence
            always sets it to the time of the commit.
        domain: Erasure domain of the content; None means the stream is its own domain, without a secret salt.
    """

    stream: str
    events: Sequence[object]
    expected: int | None = None
    label: str | None = None
    wake_at: int | None = None
    domain: Domain | None = None


@attrs.frozen(slots=False, repr=False, eq=False)
class Key(Plain):
    """Makes a commit idempotent.

    Attributes:
        name: Scoped name, such as ``submit:request-001``.
        digest: Digest of what the caller asked for; the same name with another digest is a conflict.
    """

    name: str
    digest: bytes


@attrs.frozen(slots=True, repr=False, eq=False)
class Committed(Plain):
    """What a commit wrote, or what an equal commit had written before.

    Attributes:
        records: In position order; positions are consecutive.
        repeated: True where the key was known and nothing was written now.
    """

    records: tuple[Record, ...]
    repeated: bool = False


@attrs.frozen(slots=False, repr=False, eq=False)
class StreamHead(Plain):
    """Where a stream stands.

    Attributes:
        stream: Name of the stream.
        version: Version of its last event.
        position: Position of its last event.
        label: Its status, or None.
        wake_at: Earliest moment it needs its driver, ns UTC, or None.
    """

    stream: str
    version: int
    position: int
    label: str | None
    wake_at: int | None


@attrs.frozen(slots=False, repr=False, eq=False)
class LargeValue(Plain):
    """A value stored once per domain, outside of the records that refer to it.

    Attributes:
        domain: Name of the erasure domain.
        digest: SHA-256 of ``data``.
        data: 16 bytes and the packed value, as stored.
    """

    domain: str
    digest: bytes
    data: bytes = attrs.field(repr=False)


@attrs.frozen(slots=False, repr=False, eq=False)
class KeyEntry(Plain):
    """A command key as stored: which records it stands for."""

    name: str
    digest: bytes
    first: int
    last: int


@attrs.frozen(slots=False, repr=False, eq=False)
class Snapshot(Plain):
    """A cached fold of a stream; worthless once the stream's record at ``version`` has another leaf."""

    stream: str
    version: int
    leaf: bytes
    fingerprint: str
    state: bytes = attrs.field(repr=False)
