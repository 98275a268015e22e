"""The journal as its users see it."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, final

import trio

from trouper_journal import _snapshots
from trouper_journal._attached import original
from trouper_journal._clock import Clock, SystemClock
from trouper_journal._errors import JournalInUse, StorageReadOnly
from trouper_journal._lock import DriverLock
from trouper_journal._news import NewsHub
from trouper_journal._opening import Opening, Provider, Storage, open_storage, open_to_read, real_path
from trouper_journal._options import JournalOptions
from trouper_journal._planner import Proposal
from trouper_journal._proposals import NOTHING, Proposer, checked_name, plain_name
from trouper_journal._reader import Reader, bounded
from trouper_journal._records import Committed, Key, Write
from trouper_journal._registry import EventRegistry
from trouper_journal._statistics import JournalStatistics
from trouper_journal._store import Store
from trouper_journal._values import Value
from trouper_journal._verification import Verification
from trouper_journal._verifying import verify
from trouper_journal._writer import Writer

if TYPE_CHECKING:
    from trouper_journal._damaged import Damaged
    from trouper_journal._keystore import KeyStore
    from trouper_journal._sealer import Sealer

NO_EVENTS: Final = EventRegistry([])
"""Enough to list and verify."""


@final
class Journal(Reader):
    """An append-only journal of events, in a file or in memory.

    Made by ``Journal.open``. May be used from any task of the program, also outside of the one that opened it, as
    long as the ``async with`` block is open; other processes may use the same file at the same time.

    After a cancelled ``commit`` or ``append`` it is unknown whether the events were written: a key, or reading the
    stream, tells.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        news: NewsHub,
        *,
        path: str | None,
        registry: EventRegistry,
        clock: Clock,
        random: Callable[[int], bytes],
        read_only: bool = False,
        reading: Callable[[Store], Store] | None = None,
        keys: KeyStore | None = None,
    ) -> None:
        checked = store if reading is None else reading(store)
        self._sealer = None if keys is None else _sealer(keys, checked, random)
        super().__init__(checked, news, self._sealer, checked=reading is not None)
        self._store = store
        self._writer = writer
        self._path = path
        self._registry = registry
        self._clock = clock
        self._proposer = Proposer(registry, random)
        self._driven = False
        self._read_only = read_only

    @staticmethod
    def open(
        path: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        registry: EventRegistry | None = None,
        clock: Clock | None = None,
        options: JournalOptions | None = None,
        random: Callable[[int], bytes] = os.urandom,
        wrap: Callable[[Store], Store] | None = None,
        keys: KeyStore | None = None,
    ) -> AbstractAsyncContextManager[Journal]:
        """Open a journal for the length of an ``async with`` block.

        Leaving the block writes what waits. It takes at most about twice ``options.close_timeout`` seconds, also when
        the storage hangs; what could not be written is answered with an error.

        Args:
            path: The file, created where nothing is there; None for a journal in memory.
            read_only: Only read a file that is there: not a byte of it or beside it is written, so that neither needs
                write permission. Whoever writes to it meanwhile is not held up, and what they commit is seen. Each
                record is held against its digest and its place before it is given; where one is missing or was changed,
                what is good before it is given, and then reading raises JournalCorrupt with its position. To read on
                behind it, see `past_damage`.
            registry: The events that can be written and read; none by default, which is enough to list and verify.
            clock: Source of time.
            options: Durability and limits.
            random: Source of random bytes, for the journal's id and for content.
            wrap: Puts something between the journal and its storage: faults in tests, or an instrument.
            keys: Keeps the keys that content is sealed and opened with (see `trouper_journal.sealing`). None: content
                is written in plain, and sealed content reads as ``ERASED``.

        Raises:
            NotAJournal: The file is something else, or of another layout or format.
            StorageUnreadable: It is to be read only, and is not there or may not be read.
            StorageBusy, StorageReadOnly, StorageFull, JournalCorrupt, JournalBroken: It cannot be opened.
            MissingExtra: Keys were given, and what seals is not installed.
        """
        where = None if path is None else real_path(path)
        clock = clock or SystemClock()
        settings = options or JournalOptions()
        if read_only:
            if where is None:
                raise TypeError("a journal that is only read must be in a file: give its path")
            provide: Provider = partial(open_to_read, where, settings, wrap=wrap)
        else:
            provide = partial(open_storage, where, settings, new_id=random(16), now=clock.now(), wrap=wrap)
        make = partial(Journal, path=where, registry=registry or NO_EVENTS, clock=clock, random=random)
        reading = _checking() if read_only else None
        return Opening(provide, settings, clock, partial(make, read_only=read_only, reading=reading, keys=keys))

    @staticmethod
    def over(
        store: Store,
        *,
        checked: bool = False,
        registry: EventRegistry | None = None,
        clock: Clock | None = None,
        options: JournalOptions | None = None,
        random: Callable[[int], bytes] = os.urandom,
        keys: KeyStore | None = None,
    ) -> AbstractAsyncContextManager[Journal]:
        """Open a journal over a store of your own, which must be ready for the length of the block.

        Args:
            store: Any storage engine that keeps the promises of ``Store``.
            checked: Whether records are checked before they are given, as where a file is opened for reading only.
            registry: As for ``open``.
            clock: As for ``open``.
            options: As for ``open``.
            random: As for ``open``.
            keys: As for ``open``.
        """

        async def provide(_: trio.Nursery) -> Storage:
            return Storage(store)

        clock = clock or SystemClock()
        make = partial(Journal, path=None, registry=registry or NO_EVENTS, clock=clock, random=random)
        reading = _checking() if checked else None
        return Opening(provide, options or JournalOptions(), clock, partial(make, reading=reading, keys=keys))

    @property
    def id(self) -> bytes:
        """The journal's 16 random bytes; part of every digest."""
        return self._store.journal_id

    @property
    def registry(self) -> EventRegistry:
        """The events that can be written and read here."""
        return self._registry

    @property
    def path(self) -> str | None:
        """The file's real path; None for a journal that is not in a file."""
        return self._path

    @property
    def store(self) -> Store:
        """The storage engine, for tools that check or copy a journal. Appending goes through ``commit`` alone."""
        return self._store

    @property
    def keys(self) -> KeyStore | None:
        """What keeps the keys that content is sealed with; None where the journal was opened without keys."""
        return None if self._sealer is None else self._sealer.keys

    def statistics(self) -> JournalStatistics:
        """A snapshot of the journal's counters."""
        return JournalStatistics(self._writer.statistics(), self._news.position, self._news.waiting)

    def past_damage(self, told: Callable[[Damaged], None] | None) -> Journal:
        """This journal, for reading on behind what is damaged, as long as this one is open.

        In the place of a record that is missing, cannot be read or is not what was recorded, a `Damaged` marker is
        read, one for all that are missing in a row. Decoding it raises RecordDamaged, an UnknownEvent.

        Args:
            told: Called with each marker, each time that it is read, before it is given. None: as where a journal is
                opened for reading only, reading raises JournalCorrupt, also from one that was opened for writing.
        """
        other = copy.copy(self)
        other.read_from(_checking(told)(self._store), checked=True)
        return other

    async def commit(
        self,
        writes: Sequence[Write],
        *,
        require: Mapping[str, int] | None = None,
        key: Key | None = None,
        fence: int | None = None,
        meta: Mapping[str, Value] | None = None,
    ) -> Committed:
        """Append events to one or more streams, all or nothing. What returned is durable.

        The key is looked at before anything else: a known one with an equal digest gives the original records, writes
        nothing and does not look at ``expected``.

        Args:
            writes: Events by stream; positions are consecutive in this order.
            require: Versions of streams that were only read; nothing is written unless they still stand.
            key: Makes the commit idempotent.
            fence: The driver's epoch, from ``drive``; needed for driver events, compared under the write lock.
            meta: Causes and circumstances, kept with each record.

        Raises:
            InvalidWrite, InvalidValue, UnregisteredEvent: It is malformed; nothing was written.
            IdempotencyConflict: The key stands for something else; nothing was written.
            VersionConflict: An expected or required version does not stand; nothing was written.
            StaleFence: Another driver has taken over; nothing was written.
            StorageBusy, StorageFull, StorageReadOnly: Certainly nothing was written.
            JournalBroken: The outcome is unknown, and the journal takes no more commits.
            JournalClosed: The block has been left; nothing was written.
        """
        proposal = self._proposer.propose(writes, require=require or NOTHING, key=key, fence=fence, meta=meta)
        if self._sealer is not None:
            return await self._sealer.commit(writes, proposal, self._commit)
        return await self._commit(proposal)

    async def append(
        self,
        stream: str,
        events: Sequence[object],
        *,
        expected: int | None = None,
        label: str | None = None,
        wake_at: int | None = None,
        require: Mapping[str, int] | None = None,
        key: Key | None = None,
        fence: int | None = None,
        meta: Mapping[str, Value] | None = None,
    ) -> Committed:
        """Append events to one stream: ``commit`` with one write, and with its errors."""
        writes = [Write(stream, events, expected=expected, label=label, wake_at=wake_at)]
        return await self._commit(
            self._proposer.propose(writes, require=require or NOTHING, key=key, fence=fence, meta=meta)
        )

    @asynccontextmanager
    async def drive(self, node: str) -> AsyncIterator[int]:
        """Be the journal's one driver for the length of a block; gives the fence for the driver's commits.

        Raises:
            JournalInUse: A living process, or another task of this one, drives the journal.
            StorageReadOnly, StorageFull: The side file for the lock cannot be written.
        """
        node = checked_name(node, "node")
        self._check_open()
        lock: DriverLock | None = None
        if self._read_only:
            raise StorageReadOnly(f"{self._path} was opened for reading only: nobody can drive it here")
        if self._path is not None:
            lock = DriverLock(self._path)
            lock.acquire(node, self._clock.now())
        elif self._driven:
            raise JournalInUse("the journal in memory", "another task of this process")
        self._driven = True
        try:
            yield await self._store.raise_epoch()
        finally:
            self._driven = False
            if lock is not None:
                lock.release()

    async def save_snapshot(self, stream: str, version: int, fingerprint: str, state: bytes) -> None:
        """Keep a folded state as a cache; a no-op where the stream has no record of that version.

        Also a no-op in a journal that was opened with keys: a state may hold what is sealed.

        Args:
            stream: Whose fold it is.
            version: Version of the last record that was folded.
            fingerprint: Of the code that folded; another one will not load it.
            state: The state's bytes.
        """
        self._check_open()
        if self._sealer is not None:
            return  # a folded state would hold in plain what is sealed
        if (name := plain_name(stream)) is not None and version == bounded(version, "version") > 0:
            await _snapshots.save(self._store, name, version, fingerprint, state)

    async def load_snapshot(self, stream: str, fingerprint: str) -> tuple[int, bytes] | None:
        """The cached fold of a stream as version and state; dropped where it does not fit record and fingerprint."""
        self._check_open()
        name = plain_name(stream)
        if self._sealer is not None:
            return None  # it may be the state of a reader without keys
        return None if name is None else await _snapshots.load(self._store, name, fingerprint)

    async def verify(
        self,
        progress: Callable[[int, int], None] | None = None,
        *,
        sizes: Iterable[int] = (),
        jobs: int = 1,
    ) -> Verification:
        """Check every record up to the present end against its digests and the Merkle root.

        Args:
            progress: Called after each page with the records checked and their total.
            sizes: For which numbers of records to give the root, too; compare them with roots kept elsewhere.
            jobs: How many processes check a journal in a file; with one it is this process, in the storage's thread.

        Raises:
            StorageBusy, JournalBroken: The storage cannot be read; damage that it reports is a finding instead.
        """
        self._check_open()
        return await verify(self._store, progress, sizes=sizes, jobs=jobs)

    async def _commit(self, proposal: Proposal) -> Committed:
        writer = self._writer
        # A caller rarely has to wait for room; then the way to the writer is one call shorter.
        slot = writer.submit_nowait(proposal) if writer.has_room else await writer.submit(proposal)
        verdict = await slot.wait()
        return verdict if isinstance(verdict, Committed) else await original(self._store, verdict, self._sealer)


def _checking(told: Callable[[Damaged], None] | None = None) -> Callable[[Store], Store]:
    # Loaded here alone, as the sealer is: only who reads evidence needs it.
    from trouper_journal._checked import checked

    return partial(checked, told=told)


def _sealer(keys: KeyStore, store: Store, random: Callable[[int], bytes]) -> Sealer:
    # Loaded here alone: a program without keys neither waits for it nor for the cipher.
    from trouper_journal._sealer import Sealer

    return Sealer(keys, store, random)
