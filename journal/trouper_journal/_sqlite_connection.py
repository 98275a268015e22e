"""Connections that carry a whole unit of work out in their own thread, and the translation of SQLite's errors.

A hop into aiosqlite's thread costs a fraction of a millisecond, as much as a durable commit, so that a
transaction must not take a hop for each statement. aiosqlite hands what it is given to ``execute`` of the
connection class that it was told to use; ours runs a function when it gets one for parameters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, cast

import outcome
import trio

from trouper_journal._errors import (
    JournalBroken,
    JournalCorrupt,
    JournalError,
    NotAJournal,
    StorageBusy,
    StorageFull,
    StorageReadOnly,
    StorageUnreadable,
)

if TYPE_CHECKING:
    import trio_asyncio

T = TypeVar("T")

_EXISTS = frozenset(
    {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID}
)


class UnitConnection(sqlite3.Connection):
    """An SQLite connection whose ``execute`` runs a function of the connection, given in place of parameters."""

    def execute(self, sql: str, parameters: object = ()) -> sqlite3.Cursor:
        """Run one statement, or a unit of work, which delivers its result itself."""
        if callable(parameters):
            parameters(self)
            return self.cursor()
        return super().execute(sql, cast("tuple[object, ...]", parameters))


class Answer(Generic[T]):
    """Carries what a unit of work returned or raised from its thread to the Trio task that waits for it."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._outcome: outcome.Outcome[T] | None = None
        self._task: trio.lowlevel.Task | None = None

    def carrying(self, work: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], None]:
        """The work, with its answer delivered; for the thread."""

        def run(database: sqlite3.Connection) -> None:
            self._outcome = outcome.capture(work, database)
            self._token.run_sync_soon(self._wake)

        return run

    async def wait(self) -> T:
        """The answer; cancelled, nobody waits for it any more."""
        if self._outcome is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        assert self._outcome is not None
        return self._outcome.unwrap()

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class _NoLoop:
    """What aiosqlite needs of an event loop and of a future, for answers that go another way."""

    def create_future(self) -> Self:
        return self

    def get_loop(self) -> Self:
        return self

    def call_soon_threadsafe(self, *_: object) -> None:
        """The answer has been delivered."""

    def __await__(self) -> Iterator[None]:
        yield None


NO_LOOP: Final = cast("trio_asyncio.TrioEventLoop", _NoLoop())
"""In place of the event loop, while work is handed to aiosqlite's thread."""


def transact(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T | None:
    """Run ``work`` in one write transaction; None where something exists that must not, or it returned None.

    BEGIN IMMEDIATE takes the write lock before anything is read: a deferred transaction that reads and then
    writes fails at once, whatever the busy limit, when another process has committed in between.

    Raises:
        StorageBusy, StorageFull, StorageReadOnly, JournalCorrupt, NotAJournal: Certainly nothing was written.
        JournalBroken: The outcome is unknown.
    """
    try:
        database.execute("BEGIN IMMEDIATE")
        result = work(database)
        if result is None:
            return None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if _code(error) in _EXISTS:
            return None
        raise translated(error) from _quotable(error)
    else:
        _commit(database)
        return result
    finally:
        if database.in_transaction:
            _roll_back(database)


def _commit(database: sqlite3.Connection) -> None:
    try:
        database.execute("COMMIT")
    except sqlite3.Error as error:
        # Also where the disk is full: whether the last frame that was written commits the transaction, should the
        # process die before the next commit, depends on how SQLite was built.
        raise JournalBroken(
            _say("the commit's outcome is unknown: open the journal again and read what it holds", error)
        ) from error


def _roll_back(database: sqlite3.Connection) -> None:
    try:
        database.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise JournalBroken(_say("a transaction could not be rolled back", error)) from error


def translating(work: Callable[[], T], where: str = "the journal's file") -> T:
    """Carry work out that writes nothing, or has a transaction of its own that is rolled back when it fails.

    Raises:
        JournalError: For an error of SQLite, which does not quote what is stored.
    """
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise translated(error, where) from _quotable(error)


def is_undecodable(error: Exception) -> bool:
    """Whether text is stored that is not UTF-8, as where bytes were declared to be text; the message quotes it."""
    return isinstance(error, UnicodeDecodeError) or (
        isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode")
    )


def translated(error: sqlite3.Error | UnicodeDecodeError, where: str = "the journal's file") -> JournalError:
    """The error of this package for an error of SQLite that came before COMMIT."""
    if is_undecodable(error):
        return JournalCorrupt(f"{where} holds text that is not UTF-8")
    assert isinstance(error, sqlite3.Error)
    code = _code(error) & 0xFF
    # SQLITE_PROTOCOL: the log's locks were passed from one process to the next for too long.
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}:
        return StorageBusy(_say(f"another process holds the lock on {where}; nothing was written, try again", error))
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(_say("the disk is full; nothing was written", error))
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return StorageReadOnly(_say(f"{where} or its folder cannot be opened for writing", error))
    if code == sqlite3.SQLITE_NOTADB:
        return NotAJournal(_say(f"{where} is not an SQLite database", error))
    if code == sqlite3.SQLITE_CORRUPT:
        return JournalCorrupt(_say(f"SQLite finds {where} damaged", error))
    if code == sqlite3.SQLITE_CONSTRAINT:
        return JournalCorrupt(_say("the tables contradict each other", error))
    if hasattr(error, "sqlite_errorcode") and code == sqlite3.SQLITE_ERROR:
        # All statements are fixed, so that it is the tables that do not fit them.
        return JournalCorrupt(_say(f"the tables in {where} are not a journal's", error))
    return JournalBroken(_say("SQLite failed in an unforeseen way", error))


def reading_error(error: sqlite3.Error | UnicodeDecodeError, where: str) -> JournalError:
    """As ``translated``, where nothing was to be written."""
    code = _code(error) & 0xFF
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        assert isinstance(error, sqlite3.Error)
        return StorageUnreadable(_say(f"{where} cannot be opened for reading", error))
    return translated(error, where)


def _quotable(error: Exception) -> Exception | None:
    """The error as a cause, unless its message quotes what is stored, which may be personal."""
    return None if is_undecodable(error) else error


def _code(error: Exception) -> int:
    # Errors that the sqlite3 module raises by itself (a closed connection) carry no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code


def _say(what: str, error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return f"{what} ({name}: {error})"
