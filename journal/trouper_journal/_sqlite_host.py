"""The task in which an SQLite store lives.

aiosqlite needs an asyncio event loop. trio-asyncio provides one for as long as a block is open; that block
stands in a task of its own which no cancellation reaches, so that what a cancelled program still has to
write finds the loop running. Both libraries are imported when the first file is opened: most programs that
import this package open none, or not yet, and asyncio alone takes as long to import as a tenth of the rest.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import trio

from trouper_journal._errors import JournalError
from trouper_journal._options import JournalOptions
from trouper_journal._sqlite import SQLiteStore
from trouper_journal._sqlite_connection import UnitConnection, translated
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore

if TYPE_CHECKING:
    import asyncio

    import aiosqlite
    import trio_asyncio


class SQLiteHost:
    """Opens a journal file, keeps it open until told otherwise, and closes it in bounded time.

    Args:
        path: The file; created where nothing is there, also by two processes at once.
        options: Durability and limits.
        new_id: The journal's id if it has to be created.
        now: Time of creation, ns UTC.
        read_only: Never write a byte to the file or beside it; it must be there.
    """

    def __init__(
        self, path: str, options: JournalOptions, *, new_id: bytes = b"", now: int = 0, read_only: bool = False
    ) -> None:
        self._path = path
        self._options = options
        self._new_id = new_id
        self._now = now
        self._read_only = read_only
        self._ready = trio.Event()
        self._leave = trio.Event()
        self._left = trio.Event()
        self._opened: SQLiteStore | None = None
        self._refused: JournalError | None = None
        self._hangs = False

    async def store(self) -> SQLiteStore:
        """The store, once it is open.

        Raises:
            NotAJournal: The file is something else, or of another layout.
            StorageBusy, StorageReadOnly, StorageFull, JournalCorrupt, JournalBroken: It cannot be opened.
        """
        await self._ready.wait()
        if self._opened is None:
            assert self._refused is not None
            raise self._refused
        return self._opened

    async def close(self, *, hangs: bool = False) -> None:
        """End the task.

        Args:
            hangs: A call of the writing connection is known to hang: do not wait for that connection.
        """
        self._hangs = hangs
        self._leave.set()
        await self._left.wait()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Body of the task."""
        try:
            # Inside, so that whoever waits is let go also where the import fails.
            import trio_asyncio

            with trio.CancelScope(shield=True):
                async with trio_asyncio.open_loop() as loop:
                    await self._serve(loop)
        finally:
            self._ready.set()
            self._left.set()

    async def _serve(self, loop: trio_asyncio.TrioEventLoop) -> None:
        connections: list[aiosqlite.Connection] = []
        try:
            self._opened = await self._open(connections)
        except JournalError as error:
            # Carried by hand: the event loop's nurseries would wrap it in a group.
            self._refused = error
        except BaseException:
            await self._close(loop, connections)
            raise
        else:
            self._ready.set()
            await self._leave.wait()
        await self._close(loop, connections)

    async def _open(self, connections: list[aiosqlite.Connection]) -> SQLiteStore:
        # The caller's list, so that it can close the first where the second is refused.
        store: SQLiteStore
        if self._read_only:
            connections.append(thread := await self._connect(":memory:"))
            store = ReadOnlySQLiteStore(self._path, thread, self._options)
        else:
            connections.append(writer := await self._connect(self._path))
            connections.append(reader := await self._connect(self._path))
            store = SQLiteStore(self._path, writer, reader)
        await store.prepare(self._options, self._new_id, self._now)
        return store

    async def _connect(self, path: str) -> aiosqlite.Connection:
        import aiosqlite
        import trio_asyncio

        class Connection(aiosqlite.Connection):
            """Remembers the future of its own stopping, which aiosqlite drops where connecting fails."""

            stopping: asyncio.Future[object] | None = None

            def stop(self) -> asyncio.Future[object] | None:
                self.stopping = super().stop()
                return self.stopping

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(
                path,
                timeout=self._options.busy_timeout,
                isolation_level=None,
                factory=UnitConnection,
                cached_statements=64,
            )

        # aiosqlite's thread takes after the thread that makes the connection. Trio's workers are daemons, so that
        # a database call that hangs for ever cannot keep the process from ending.
        connection = await trio.to_thread.run_sync(Connection, connect, 1)

        async def opened() -> None:
            await connection

        try:
            await trio_asyncio.allow_asyncio(opened)
        except sqlite3.Error as error:
            if connection.stopping is not None:
                # The thread has a last answer to give, for which the event loop must still be there.
                await trio_asyncio.run_aio_future(connection.stopping)
            raise translated(error, self._path) from error
        return connection

    async def _close(self, loop: trio_asyncio.TrioEventLoop, connections: list[aiosqlite.Connection]) -> None:
        import trio_asyncio

        closed = 0
        if not self._hangs:
            with trio.move_on_after(self._options.close_timeout):
                if self._opened is not None:
                    await self._opened.finish()
                for connection in reversed(connections):
                    await trio_asyncio.allow_asyncio(connection.close)
                    closed += 1
        if closed < len(connections):
            _abandon(loop, connections)


def _abandon(loop: trio_asyncio.TrioEventLoop, connections: list[aiosqlite.Connection]) -> None:
    """Let threads whose calls hang end by themselves, if they ever return; nobody listens any more."""

    def drop(*_: object, **__: object) -> None:
        """Where aiosqlite's threads would otherwise die of the closed loop, with a traceback."""

    loop.call_soon_threadsafe = drop
    for connection in connections:
        connection.stop()
