"""Reading a journal file without writing a byte to it, nor to anything beside it.

An ordinary connection that only reads still makes the log and its index beside the file, and folds the log into the
file when it is closed. What must be asked of SQLite instead depends on what lies beside the file:

- A log and its index (``-wal``, ``-shm``): somebody has the journal open, or has died with it. The index is opened
  read-only; where nobody alive keeps it, SQLite makes one of its own in memory.
- No log, or an empty one: all is in the file, which is read as it lies (``immutable``). SQLite then takes no locks, so
  that whether it has been written to meanwhile is looked for after each read; if so, it is read once more.
- A log without its index, as in a folder that was copied by hand, or what an interrupted program left behind in the
  rollback mode: SQLite would have to write. A private copy of both is read, and removed afterwards.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Self, TypeVar

import attrs

from trouper_journal._errors import JournalError, NotAJournal, StorageBusy, StorageUnreadable
from trouper_journal._sqlite_connection import reading_error
from trouper_journal._sqlite_schema import identity, is_new, refuse_orphaned_log

T = TypeVar("T")

_TRIES: Final = 20
"""How often what was written to meanwhile is read again."""

_LOOKS: Final = 5
_PAUSE: Final = 0.01
"""Seconds between two looks at a log without its index, or with one that is being changed."""

_IN_CHANGE: Final = frozenset(
    {sqlite3.SQLITE_READONLY_RECOVERY, sqlite3.SQLITE_READONLY_CANTLOCK, sqlite3.SQLITE_READONLY_CANTINIT}
)
"""What SQLite says where it met the log's index in the middle of a writer's change, and may not mend it."""

_AS_IT_LIES: Final = "mode=ro&immutable=1"
_BESIDE_OTHERS: Final = "mode=ro&readonly_shm=1"

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~")


@attrs.frozen(slots=True)
class _Seen:
    """What tells whether a file was written to or replaced."""

    device: int
    inode: int
    size: int
    changed_at: int


@attrs.frozen(slots=True)
class _Lay:
    """A journal's files, as they lie there; None for those that are missing."""

    file: _Seen | None
    log: _Seen | None
    index: _Seen | None
    rollback: _Seen | None

    @property
    def needs_copy(self) -> bool:
        """Whether SQLite would have to write before it can read all that is there."""
        if self.rollback is not None and self.rollback.size:
            return True
        return self.log is not None and self.log.size > 0 and self.index is None


class ReadOnlyFile:
    """A journal file opened for reading only. Belongs to the thread that uses it; opened at the first use.

    Also for worker processes that read a part of a journal each: give them `source` of the file that the parent has
    opened, so that a copy is made once.

    Args:
        path: The file's real path.
        busy_timeout: Seconds to wait for a lock that another process holds.
        any_thread: Whether it is used by one thread after the other, and not by one alone.
    """

    def __init__(self, path: str, busy_timeout: float = 10.0, *, any_thread: bool = False) -> None:
        self._path = path
        self._patience = max(1, int(busy_timeout / _PAUSE))
        self._connect_to = partial(_connect, busy_timeout=busy_timeout, one_thread=not any_thread)
        self._database: sqlite3.Connection | None = None
        self._lay: _Lay | None = None
        self._copy = ""

    @property
    def source(self) -> str:
        """The file that is read: the journal's own, or the private copy of it; the copy goes when this is closed."""
        return self._copy or self._path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> bytes:
        """Open the file and see that it is a journal; its id.

        Raises:
            NotAJournal: It is something else, or of another layout or format.
            StorageUnreadable: It is not there, or may not be read.
            StorageBusy, JournalCorrupt, JournalBroken: It cannot be read.
        """
        refuse_orphaned_log(self._path)
        try:
            return self.read(self._identity)
        except BaseException:
            self.close()
            raise

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out what reads, and again where the file was written to in between.

        Raises:
            StorageUnreadable, StorageBusy, NotAJournal, JournalCorrupt, JournalBroken: It cannot be read.
        """
        for _ in range(_TRIES):
            try:
                result = self._done(work)
            except (sqlite3.Error, UnicodeDecodeError, JournalError) as error:
                if self._stands():
                    if isinstance(error, JournalError):
                        raise
                    raise reading_error(error, self._path) from None
            else:
                if self._stands():
                    return result
            self.close()
        raise StorageBusy(f"{self._path} is opened and closed for writing all the time: read it again later")

    def _done(self, work: Callable[[sqlite3.Connection], T]) -> T:
        for _ in range(self._patience):
            try:
                return work(self._opened())
            except sqlite3.OperationalError as error:
                # What the module raises by itself has no code.
                if getattr(error, "sqlite_errorcode", None) not in _IN_CHANGE:
                    raise
            time.sleep(_PAUSE)
        raise StorageBusy(f"{self._path}: the index of its log is being changed all the time: read it again later")

    def close(self) -> None:
        """Close the file, and remove the private copy, if one had to be made."""
        database, self._database = self._database, None
        if database is not None:
            database.close()
        if self._copy:
            import shutil

            shutil.rmtree(os.path.dirname(self._copy), ignore_errors=True)
            self._copy = ""

    def _identity(self, database: sqlite3.Connection) -> bytes:
        if is_new(database, self._path):
            raise NotAJournal(f"{self._path} is an empty file, not a Trouper journal: give another path")
        return identity(database, self._path)

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = self._connect()
        return self._database

    def _connect(self) -> sqlite3.Connection:
        self._check_readable()
        lay, alone = self._look(), 0
        while lay.needs_copy and alone < _LOOKS:
            # Whoever closes the journal at this moment removes the index first, and then the log.
            time.sleep(_PAUSE)
            lay, alone = self._look(), alone + 1
        if lay.log is not None and lay.index is not None and not lay.needs_copy:
            self._lay = None
            return self._connect_to(self._path, _BESIDE_OTHERS)
        self._lay = lay
        if lay.needs_copy:
            return self._connect_to(self._copied(), "mode=rw")
        return self._connect_to(self._path, _AS_IT_LIES)

    def _look(self) -> _Lay:
        path = self._path
        return _Lay(_seen(path), _seen(f"{path}-wal"), _seen(f"{path}-shm"), _seen(f"{path}-journal"))

    def _check_readable(self) -> None:
        # Nothing is opened for it: to close a file again gives up all locks that this process holds on it.
        try:
            os.stat(self._path)
        except OSError as error:
            raise StorageUnreadable(f"{self._path} cannot be read: {error.strerror}") from None
        if not os.path.isfile(self._path):
            raise NotAJournal(f"{self._path} is not a file, so not a Trouper journal: give another path")
        for path in (self._path, f"{self._path}-wal", f"{self._path}-shm"):
            if os.path.exists(path) and not os.access(path, os.R_OK):
                raise StorageUnreadable(f"{path} cannot be read: you have no permission to")

    def _copied(self) -> str:
        import shutil
        import tempfile

        folder = ""
        try:
            folder = tempfile.mkdtemp(prefix="trouper-reading-")
            for ending in ("", "-wal", "-journal"):
                if os.path.exists(f"{self._path}{ending}"):
                    shutil.copyfile(f"{self._path}{ending}", os.path.join(folder, f"journal.db{ending}"))
        except OSError as error:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            raise StorageUnreadable(
                f"{self._path} has a log without its index, and could not be copied to "
                f"{folder or tempfile.gettempdir()} to be read: {error.strerror} (TMPDIR names another place)"
            ) from None
        self._copy = os.path.join(folder, "journal.db")
        return self._copy

    def _stands(self) -> bool:
        """Whether what was read is what the file holds: locks see to it, unless the file was read as it lay."""
        return self._lay is None or self._look() == self._lay


def connect_alone(path: str) -> sqlite3.Connection:
    """A connection to what stands in the file itself, whatever its log holds; takes no locks, for one thread."""
    return _connect(path, _AS_IT_LIES, busy_timeout=0.0, one_thread=True)


def _connect(path: str, how: str, *, busy_timeout: float, one_thread: bool) -> sqlite3.Connection:
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(path))
    database = sqlite3.connect(
        f"file:{name}?{how}",
        uri=True,
        timeout=busy_timeout,
        isolation_level=None,
        cached_statements=64,
        check_same_thread=one_thread,
    )
    database.execute("PRAGMA query_only = ON")
    # So that SQLite does not refuse a file as a whole of which the end is missing: what is there can be read.
    database.execute("PRAGMA writable_schema = ON")
    return database


def _seen(path: str) -> _Seen | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return _Seen(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
