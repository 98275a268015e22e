"""Seals what is about to be written, and opens what was read: one for each journal that was opened with keys.

**No record is ever sealed with a key that is being destroyed.** Each commit with sealed content requires the version of
the stream ``system/erasures`` at which its keys were looked up. Whoever erases a domain first retires its key, then
appends to that stream, and destroys the key after that. What was sealed before with the retired key is either in the
journal by then, where whoever erases has seen it; or it is refused, sealed anew with the domain's next key, and tried
again.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from trouper_journal._aead import KEY_SIZE, Cipher, SealBroken
from trouper_journal._attached import original
from trouper_journal._codec import SALT_SIZE, Encoded
from trouper_journal._errors import IdempotencyConflict, JournalCorrupt, VersionConflict
from trouper_journal._keystore import DataKey, KeyStore
from trouper_journal._planner import PreparedWrite, Proposal, SealedWrite
from trouper_journal._records import Committed, Domain, LargeValue, Opened, Record, Withheld, Write
from trouper_journal._sealed import (
    NONCE,
    content_context,
    header_of,
    referring_to,
    sealed_references,
    split_sealed,
    value_context,
    value_digest,
    value_nonce,
)
from trouper_journal._store import Store
from trouper_journal._values import Reference

ERASURES: Final = "system/erasures"
"""The stream that an erasure is recorded in before any key is destroyed."""

T = TypeVar("T")

REMEMBERED: Final = 10_000
"""How many keys are held in memory."""


class _Key:
    """A data key with its cipher."""

    __slots__ = ("cipher", "data")

    def __init__(self, data: DataKey) -> None:
        self.data = data
        self.cipher = Cipher(data.secret)


@attrs.define(eq=False, repr=False)
class _Active:
    """The keys to seal with, by domain, and the version of the stream of erasures that they were looked up at.

    What was looked up before an erasure must never be kept among what was looked up after it.
    """

    version: int
    keys: dict[str, _Key] = attrs.field(factory=dict)


class Sealer:
    """Seals and opens the content of one journal.

    Args:
        keys: Keeps the data keys.
        store: The journal's storage.
        random: Source of random bytes.

    Raises:
        MissingExtra: The package that does it is not installed.
    """

    def __init__(self, keys: KeyStore, store: Store, random: Callable[[int], bytes] = os.urandom) -> None:
        self.keys: Final = keys
        self._store = store
        self._random = random
        self._stamp: object = None
        self._by_id: dict[str, _Key | Withheld] = {}
        self._active: _Active | None = None
        Cipher(bytes(KEY_SIZE))  # now, and not with the first record

    def stamp(self) -> object:
        """Changes when what can be read may have changed."""
        return self.keys.stamp()

    # ---- writing

    async def commit(
        self, writes: Sequence[Write], proposal: Proposal, commit: Callable[[Proposal], Awaitable[Committed]]
    ) -> Committed:
        """Seal a proposal and commit it, again with other keys where something was erased meanwhile."""
        key = proposal.key
        if key is not None and (entry := (await self._store.load([], [key.name])).keys.get(key.name)) is not None:
            # No data key is made for what is not going to be written.
            if entry.digest != key.digest:
                raise IdempotencyConflict(key.name, entry.first)
            return await original(self._store, entry, self)
        while True:
            try:
                return await commit(await self.sealed(writes, proposal))
            except VersionConflict as conflict:
                if conflict.stream != ERASURES or ERASURES in proposal.require:
                    raise
                self.forget()

    async def sealed(self, writes: Sequence[Write], proposal: Proposal) -> Proposal:
        """The proposal with the content of all writes that name a domain sealed; their keys are durable by then.

        Raises:
            KeyStoreError: There is no key to be had; nothing was written.
        """
        wanted = [_domain_of(write, prepared) for write, prepared in zip(writes, proposal.writes, strict=True)]
        if not any(wanted):
            return proposal
        active = self._active
        if active is None:
            known = (await self._store.load([ERASURES], [])).streams.get(ERASURES)
            active = self._active = _Active(0 if known is None else known.version)
        keys = {domain.name: await self._obtained(active, domain.name) for domain in wanted if domain is not None}
        parts = [
            prepared if domain is None else self._seal_write(prepared, keys[domain.name])
            for domain, prepared in zip(wanted, proposal.writes, strict=True)
        ]
        return attrs.evolve(proposal, writes=parts, require={ERASURES: active.version, **proposal.require})

    def forget(self) -> None:
        """Look everything up again: something was erased."""
        self._active = None
        self._by_id.clear()

    async def _obtained(self, active: _Active, domain: str) -> _Key:
        key = active.keys.get(domain)
        if key is None:
            key = _Key(await self.keys.obtain(self._store.journal_id, domain))
            _keep(active.keys, domain, key)
        return key

    def _seal_write(self, write: PreparedWrite, key: _Key) -> PreparedWrite:
        events: list[Encoded] = []
        opened: list[Opened | None] = []
        for event in write.events:
            if event.content:
                sealed, said = self._seal(event, write.stream, key)
                events.append(sealed)
                opened.append(said)
            else:
                events.append(event)
                opened.append(None)
        return attrs.evolve(write, events=events, sealed=SealedWrite(key.data.id, opened))

    def _seal(self, event: Encoded, stream: str, key: _Key) -> tuple[Encoded, Opened]:
        content, header = event.content, header_of(())
        plain: dict[bytes, bytes] = {}
        values: tuple[LargeValue, ...] = ()
        if event.values:
            values, references, plain = self._seal_values(event.values, key)
            content, found = referring_to(content, references)
            header = header_of(found)
        context = content_context(self._store.journal_id, key.data.id, stream, event.type, event.schema, header)
        nonce = self._random(NONCE)
        sealed = header + nonce + key.cipher.seal(nonce, content, context)
        return attrs.evolve(event, content=sealed, values=values), Opened(content, plain)

    def _seal_values(
        self, values: Sequence[LargeValue], key: _Key
    ) -> tuple[tuple[LargeValue, ...], dict[bytes, Reference], dict[bytes, bytes]]:
        """The values sealed; how to refer to each, by its plain digest; and each opened, by its sealed digest."""
        stored: list[LargeValue] = []
        references: dict[bytes, Reference] = {}
        plain: dict[bytes, bytes] = {}
        context = value_context(self._store.journal_id, key.data.id, key.data.domain)
        for value in values:
            nonce = value_nonce(key.data.secret, value.data)
            data = nonce + key.cipher.seal(nonce, value.data, context)
            reference = references[value.digest] = value_digest(data)
            stored.append(LargeValue(value.domain, reference.digest, data))
            plain[reference.digest] = value.data
        return tuple(stored), references, plain

    # ---- reading

    async def opened(self, record: Record) -> Record:
        """The record with its content opened, or with the reason why it cannot be.

        Raises:
            JournalCorrupt: Its key does not open it, or it is malformed; names the position.
        """
        if record.key_id is None:
            return record
        key = await self._key(record.key_id)
        if isinstance(key, Withheld):
            return attrs.evolve(record, opened=key)
        try:
            return await self._open(record, key)
        except JournalCorrupt as error:
            raise type(error)(str(error), record.position) from None

    async def _open(self, record: Record, key: _Key) -> Record:
        header, nonce, sealed = split_sealed(record.content)
        context = content_context(
            self._store.journal_id, key.data.id, record.stream, record.type, record.schema, header
        )
        content = key.cipher.open(nonce, sealed, context)
        if len(content) <= SALT_SIZE:
            raise JournalCorrupt("content is shorter than its random bytes")
        if not record.large:
            return attrs.evolve(record, opened=Opened(content))
        stored = await self._store.values({reference.digest for reference in sealed_references(record.content)})
        return attrs.evolve(record, values=stored, opened=Opened(content, self._open_values(stored, key)))

    def _open_values(self, stored: Mapping[bytes, bytes], key: _Key) -> dict[bytes, bytes]:
        context = value_context(self._store.journal_id, key.data.id, key.data.domain)
        plain: dict[bytes, bytes] = {}
        for digest, data in stored.items():
            try:
                plain[digest] = key.cipher.open(data[:NONCE], data[NONCE:], context)
            except SealBroken:
                raise SealBroken(f"the large value {digest.hex()} does not open with its key") from None
        return plain

    async def _key(self, key_id: str) -> _Key | Withheld:
        stamp = self.keys.stamp()
        if stamp is None or stamp != self._stamp:
            self._by_id.clear()
            self._stamp = stamp
        key = self._by_id.get(key_id)
        if key is None:
            found = await self.keys.find(key_id)
            key = found if isinstance(found, Withheld) else _Key(found)
            # Only what was found after the stamp was taken is as new as the stamp says.
            # A key that is locked may be had a moment later, without any change to the file of keys.
            locked = isinstance(found, Withheld) and found.reason == "locked"
            if stamp is not None and stamp == self._stamp and not locked:
                _keep(self._by_id, key_id, key)
        return key


def _domain_of(write: Write, prepared: PreparedWrite) -> Domain | None:
    """The domain whose key seals a write; None where nothing is to be sealed."""
    return write.domain if write.domain is not None and any(event.content for event in prepared.events) else None


def _keep(memory: dict[str, T], name: str, item: T) -> None:
    memory[name] = item
    while len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
