"""The block in which a journal is open: its tasks are started on entry, and ended in bounded time on leaving."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Protocol, TypeAlias, TypeVar

import attrs
import trio

from trouper_journal._clock import Clock
from trouper_journal._errors import NotAJournal
from trouper_journal._memory import MemoryStore
from trouper_journal._news import NewsHub
from trouper_journal._options import JournalOptions
from trouper_journal._printable import Plain
from trouper_journal._sqlite_host import SQLiteHost
from trouper_journal._store import Store
from trouper_journal._writer import Writer

T = TypeVar("T")


def real_path(path: str | os.PathLike[str]) -> str:
    """The one name of a file, which does not depend on links or on where the process stands.

    Raises:
        NotAJournal: It cannot name a file.
    """
    try:
        return os.path.realpath(os.fsdecode(path))
    except (TypeError, ValueError) as error:
        raise NotAJournal(f"{path!r} cannot name a file: {error}") from error


class Closer(Protocol):
    """Ends a storage in bounded time."""

    async def close(self, *, hangs: bool = False) -> None:
        """End it; ``hangs`` says that a write is known not to return."""
        ...


@attrs.frozen(slots=False, repr=False, eq=False)
class Storage(Plain):
    """A store that is ready, and what ends it (None: its owner does)."""

    store: Store
    closer: Closer | None = None


Provider: TypeAlias = Callable[[trio.Nursery], Awaitable[Storage]]
"""Opens a storage, whose tasks may live in the nursery. Cancelled, it has left nothing running, or ends by itself."""


async def open_storage(
    path: str | None,
    options: JournalOptions,
    nursery: trio.Nursery,
    *,
    new_id: bytes,
    now: int,
    wrap: Callable[[Store], Store] | None = None,
) -> Storage:
    """Open a journal file, or make a journal in memory.

    Raises:
        NotAJournal: The file is something else, or of another layout.
        StorageBusy, StorageReadOnly, StorageFull, JournalCorrupt, JournalBroken: It cannot be opened.
    """
    if path is None:
        store = MemoryStore(new_id)
        return Storage(store if wrap is None else wrap(store))
    return await _hosted(SQLiteHost(path, options, new_id=new_id, now=now), nursery, wrap)


async def open_to_read(
    path: str, options: JournalOptions, nursery: trio.Nursery, *, wrap: Callable[[Store], Store] | None = None
) -> Storage:
    """Open a journal file that is there, without ever writing a byte to it or beside it.

    Raises:
        NotAJournal: The file is something else, or of another layout.
        StorageUnreadable, StorageBusy, JournalCorrupt, JournalBroken: It cannot be read.
    """
    return await _hosted(SQLiteHost(path, options, read_only=True), nursery, wrap)


async def _hosted(host: SQLiteHost, nursery: trio.Nursery, wrap: Callable[[Store], Store] | None) -> Storage:
    nursery.start_soon(host.run, name="journal storage")
    try:
        store: Store = await host.store()
        return Storage(store if wrap is None else wrap(store), host)
    except BaseException:
        with trio.CancelScope(shield=True):
            await host.close()
        raise


class Opening(Generic[T]):
    """Opens the storage, starts the writer and the look-out for other processes, and gives what ``make`` makes of them.

    Args:
        provide: Opens the storage.
        options: Limits.
        clock: Source of time.
        make: Makes the block's value.
    """

    def __init__(
        self,
        provide: Provider,
        options: JournalOptions,
        clock: Clock,
        make: Callable[[Store, Writer, NewsHub], T],
    ) -> None:
        if not trio.lowlevel.in_trio_run():
            raise RuntimeError(
                "a journal needs Trio's event loop, not asyncio's: start the program with trio.run(main)"
            )
        self._provide = provide
        self._options = options
        self._clock = clock
        self._make = make
        self._news = NewsHub()
        self._storage: Storage | None = None
        self._writer: Writer | None = None
        self._manager = trio.open_nursery()
        self._nursery: trio.Nursery | None = None
        self._watching = trio.CancelScope(shield=True)

    async def __aenter__(self) -> T:
        self._nursery = nursery = await self._manager.__aenter__()
        try:
            self._storage = await self._provide(nursery)
            store = self._storage.store
            writer = Writer(store, self._clock, self._options, self._news)
            made = self._make(store, writer, self._news)
        except BaseException:
            await self._leave()
            raise
        self._writer = writer
        nursery.start_soon(writer.run, name="journal writer")
        nursery.start_soon(self._watch, store, name="journal watch")
        return made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._nursery is not None
        if self._nursery.cancel_scope.cancel_called:
            # One of our tasks has crashed, which is a defect: its error must come out, in the nursery's own way.
            await self._end_tasks_surely()
            return await self._manager.__aexit__(kind, error, trace)
        await self._leave()
        return None

    @trio.lowlevel.enable_ki_protection
    async def _watch(self, store: Store) -> None:
        with self._watching:
            await self._news.watch(store, self._clock, self._options.poll_interval)

    async def _leave(self) -> None:
        """End the tasks, then the empty nursery, which thus wraps no error of the block in a group."""
        interrupted = await self._end_tasks_surely()
        await self._manager.__aexit__(None, None, None)
        if interrupted is not None:
            raise interrupted

    async def _end_tasks_surely(self) -> KeyboardInterrupt | None:
        """End the tasks, in bounded time; Ctrl-C meanwhile is for afterwards, as the nursery must be left empty."""
        interrupted: KeyboardInterrupt | None = None
        while True:
            try:
                with trio.CancelScope(shield=True):
                    await self._end_tasks()
            except KeyboardInterrupt as error:
                interrupted = error
            else:
                return interrupted

    async def _end_tasks(self) -> None:
        answered = True
        if self._writer is not None:
            answered = await self._writer.close(self._options.close_timeout)
        self._watching.cancel()
        self._news.close()
        if self._storage is not None and self._storage.closer is not None:
            await self._storage.closer.close(hangs=not answered)
