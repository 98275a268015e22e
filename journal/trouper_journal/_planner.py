"""Decides what a batch of waiting commits writes: keys, fences, expected versions, positions, digests.

Pure but for the clock that it is handed. It goes by what it remembers of heads and keys; the store compares
the head that a plan was made on under its lock, so that a stale memory costs a repetition, never a wrong
record. A refusal is only given on knowledge that was loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from trouper_journal._codec import Encoded
from trouper_journal._digest import leaf_digest, leaf_frame, leaf_within
from trouper_journal._errors import IdempotencyConflict, JournalError, StaleFence, VersionConflict
from trouper_journal._merkle import EMPTY_RANGE, CompactRange
from trouper_journal._printable import Plain, Printable
from trouper_journal._records import NO_VALUES, Committed, Key, KeyEntry, LargeValue, Opened, Record
from trouper_journal._store import Batch, Head, Known

T = TypeVar("T")

MEMORY: Final = 10_000
"""How many streams' versions, and how many keys, are remembered."""


@attrs.define(slots=True, eq=False, repr=False)
class SealedWrite(Printable):
    """How the content of a write is sealed.

    Attributes:
        key_id: Names the data key.
        opened: What each event's content says; None for an event without content.
    """

    key_id: str
    opened: Sequence[Opened | None] = attrs.field(repr=False)


@attrs.define(slots=True, eq=False, repr=False)
class PreparedWrite(Printable):
    """One stream's part of a commit, checked and encoded. Not changed once made; frozen would cost in each commit."""

    stream: str
    events: Sequence[Encoded]
    expected: int | None
    label: str | None
    wake_at: int | None
    sealed: SealedWrite | None = None


@attrs.define(slots=True, eq=False, repr=False)
class Proposal(Printable):
    """A commit that waits to be written, checked and encoded.

    Attributes:
        size: Number of events.
    """

    writes: Sequence[PreparedWrite]
    require: Mapping[str, int]
    key: Key | None
    fence: int | None
    meta: bytes
    size: int


Verdict = Committed | KeyEntry | JournalError
"""What a proposal comes to: new records, an earlier equal commit, or a refusal."""


@attrs.frozen(slots=True, repr=False, eq=False)
class Plan(Plain):
    """What to write, and what to tell whom once it is written.

    Attributes:
        batch: The transaction; None where nothing is to be written.
        verdicts: One for each proposal, in order.
        doubtful: Some refusal rests on remembered heads, which another process may have moved.
    """

    batch: Batch | None
    verdicts: Sequence[Verdict]
    doubtful: bool
    versions: Mapping[str, int]
    keys: Mapping[str, KeyEntry]
    range: CompactRange


class Planner:
    """Remembers heads and keys, and plans batches on them."""

    def __init__(self, journal_id: bytes, now: Callable[[], int]) -> None:
        self._journal_id = journal_id
        self._now = now
        self._head: Head | None = None
        self._range = EMPTY_RANGE
        self._versions: dict[str, int] = {}
        self._keys: dict[str, KeyEntry] = {}

    @property
    def position(self) -> int:
        """Position of the last record known of."""
        return self._head.position if self._head is not None else 0

    def unknown(self, proposals: Sequence[Proposal]) -> set[str] | None:
        """Streams that must be loaded before the proposals can be planned; None where nothing is.

        A stream that a proposal expects not to exist is taken at its word: the store's uniqueness rules catch it.
        """
        if self._head is None:
            return concerned_streams(proposals)
        versions = self._versions
        missing: set[str] = set()
        for proposal in proposals:
            for write in proposal.writes:
                if write.expected != 0 and write.stream not in versions:
                    missing.add(write.stream)
            for stream in proposal.require:
                if stream not in versions:
                    missing.add(stream)
        return missing or None

    def learn(self, known: Known, asked: set[str]) -> bool:
        """Take in what was loaded; False where older memories turned out stale and were dropped."""
        stood = known.head == self._head
        if not stood:
            self._head = known.head
            self._range = CompactRange.from_bytes(known.head.range)
            self._versions.clear()
        heads = known.streams
        _remember(self._versions, {name: heads[name].version if name in heads else 0 for name in asked})
        _remember(self._keys, known.keys)
        return stood

    def plan(self, proposals: Sequence[Proposal]) -> Plan:
        """Plan one transaction for as many of the proposals as can be written."""
        assert self._head is not None
        draft = _Draft(self._journal_id, self._head, self._versions, self._keys)
        verdicts = [draft.take(proposal, self._now) for proposal in proposals]
        if not draft.records:
            return Plan(None, verdicts, draft.doubtful, {}, {}, self._range)
        grown = self._range.extend([record.leaf for record in draft.records])
        head = Head(draft.position, self._head.epoch, grown.to_bytes())
        batch = Batch(self._head, head, draft.records, list(draft.keys.values()), draft.values)
        return Plan(batch, verdicts, draft.doubtful, draft.versions, draft.keys, grown)

    def apply(self, plan: Plan) -> None:
        """Remember a plan that was written."""
        if plan.batch is None:
            return
        self._head = plan.batch.head
        self._range = plan.range
        _remember(self._versions, plan.versions)
        _remember(self._keys, plan.keys)


class _Draft:
    """A batch in the making: what the planner remembers, overlaid by what this batch adds."""

    def __init__(
        self, journal_id: bytes, head: Head, versions: Mapping[str, int], keys: Mapping[str, KeyEntry]
    ) -> None:
        self.position = head.position
        self.records: list[Record] = []
        self.values: list[LargeValue] = []
        self.versions: dict[str, int] = {}
        self.keys: dict[str, KeyEntry] = {}
        self.doubtful = False
        self.sealed = False
        self._journal_id = journal_id
        self._epoch = head.epoch
        self._known_versions = versions
        self._known_keys = keys

    def take(self, proposal: Proposal, now: Callable[[], int]) -> Verdict:
        """Add a proposal, or say why not; a refused one leaves the draft as it was."""
        key = proposal.key
        if key is not None:
            entry = self.keys.get(key.name) or self._known_keys.get(key.name)
            if entry is not None:
                return entry if entry.digest == key.digest else IdempotencyConflict(key.name, entry.first)
        if proposal.fence is not None and proposal.fence != self._epoch:
            self.doubtful = True
            return StaleFence(proposal.fence, self._epoch)
        for stream, required in proposal.require.items():
            version = self._version(stream)
            if version != required:
                self.doubtful = True
                return VersionConflict(stream, required, version)
        versions: list[int] = []
        for write in proposal.writes:
            version = self._version(write.stream)
            if write.expected is not None and version != write.expected:
                self.doubtful = True
                return VersionConflict(write.stream, write.expected, version)
            versions.append(version)
        first = self.position + 1
        moment = now()
        records: list[Record] = []
        for write, version in zip(proposal.writes, versions, strict=True):
            add = self._add if write.sealed is None else self._add_sealed
            add(write, version, proposal, moment, records)
        if key is not None:
            self.keys[key.name] = KeyEntry(key.name, key.digest, first, self.position)
        # Whoever stores the records must not keep what was sealed.
        self.records += map(_as_stored, records) if self.sealed else records
        return Committed(tuple(records))

    def _version(self, stream: str) -> int:
        version = self.versions.get(stream)
        return version if version is not None else self._known_versions.get(stream, 0)

    def _add_sealed(
        self, write: PreparedWrite, version: int, proposal: Proposal, moment: int, records: list[Record]
    ) -> None:
        """As ``_add``, for a write whose content is sealed: the events that have content bear the key's name."""
        assert write.sealed is not None
        self.sealed = True
        stream, label, meta = write.stream, write.label, proposal.meta
        key = proposal.key.name if proposal.key is not None else None
        wake_at = write.wake_at if proposal.fence is not None else moment
        for at, (event, opened) in enumerate(zip(write.events, write.sealed.opened, strict=True), 1):
            key_id = None if opened is None else write.sealed.key_id
            record = Record(
                position=self.position + at,
                stream=stream,
                version=version + at,
                type=event.type,
                schema=event.schema,
                recorded_at=moment,
                key=key,
                label=label,
                wake_at=wake_at,
                key_id=key_id,
                meta=meta,
                facts=event.facts,
                content=event.content,
                leaf=b"",
                large=event.large,
                values={value.digest: value.data for value in event.values} if event.values else NO_VALUES,
                opened=opened,
            )
            records.append(attrs.evolve(record, leaf=leaf_digest(self._journal_id, record)))
            self.values.extend(event.values)
        self.versions[stream] = version + len(write.events)
        self.position += len(write.events)

    def _add(self, write: PreparedWrite, version: int, proposal: Proposal, moment: int, records: list[Record]) -> None:
        journal_id = self._journal_id
        stream = write.stream
        position = self.position
        key = proposal.key.name if proposal.key is not None else None
        label = write.label
        # Without a fence the driver is somebody else: the stream is due at once, so that the driver looks at it.
        wake_at = write.wake_at if proposal.fence is not None else moment
        meta = proposal.meta
        frame = leaf_frame(stream, key, label, None, meta)
        for event in write.events:
            version += 1
            position += 1
            kind, schema, facts, content = event.type, event.schema, event.facts, event.content
            leaf = leaf_within(journal_id, position, version, kind, schema, moment, wake_at, facts, content, frame)
            values = NO_VALUES
            if event.values:
                values = {value.digest: value.data for value in event.values}
                self.values.extend(event.values)
            records.append(
                Record(
                    position,
                    stream,
                    version,
                    kind,
                    schema,
                    moment,
                    key,
                    label,
                    wake_at,
                    None,
                    meta,
                    facts,
                    content,
                    leaf,
                    event.large,
                    values,
                )
            )
        self.versions[stream] = version
        self.position = position


def _as_stored(record: Record) -> Record:
    return record if record.key_id is None else attrs.evolve(record, values=NO_VALUES, opened=None)


def concerned_streams(proposals: Sequence[Proposal]) -> set[str]:
    """Every stream that the proposals write or require."""
    streams = {write.stream for proposal in proposals for write in proposal.writes}
    return streams.union(*(proposal.require for proposal in proposals))


def concerned_keys(proposals: Sequence[Proposal]) -> set[str]:
    """The names of all keys of the proposals."""
    return {proposal.key.name for proposal in proposals if proposal.key is not None}


def _remember(memory: dict[str, T], news: Mapping[str, T]) -> None:
    """Put what is new at the end, and forget what was longest without use beyond the limit."""
    for name, item in news.items():
        memory.pop(name, None)
        memory[name] = item
    while len(memory) > max(MEMORY, len(news)):
        del memory[next(iter(memory))]
