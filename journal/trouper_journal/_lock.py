"""The lock that a journal's one driver holds: on a side file, by the operating system, so that it dies with it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import weakref
from contextlib import suppress

import attrs

from trouper_journal._errors import JournalInUse, StorageFull, StorageReadOnly
from trouper_journal._printable import Plain


@attrs.frozen(slots=False, repr=False, eq=False)
class Holder(Plain):
    """Who drives a journal, as that process wrote it down.

    Attributes:
        node: The name that it gave itself.
        pid: Its process id.
        host: The machine's name.
        since: When it took the journal, ns UTC.
    """

    node: str
    pid: int
    host: str
    since: int

    def __str__(self) -> str:
        return f"{self.node} (process {self.pid} on {self.host})"


class DriverLock:
    """An exclusive lock beside a journal file.

    The lock belongs to the open file, not to the process: a second one in the same process is refused as well.
    The kernel releases it when the process ends, however it ends; the file stays, what it says is only a name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, node: str, now: int) -> None:
        """Take the lock.

        Raises:
            JournalInUse: A living process holds it.
            StorageReadOnly: The side file cannot be opened or locked.
            StorageFull: There is no room for the holder's name.
        """
        side_file = f"{self._path}.lock"
        holder = Holder(node, os.getpid(), socket.gethostname(), now)
        while self._descriptor is None:
            try:
                descriptor = os.open(side_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StorageReadOnly(f"{side_file}: {error.strerror}") from error
            try:
                if self._lock(descriptor, side_file):
                    _write(descriptor, side_file, holder)
                    self._descriptor = descriptor
            finally:
                if self._descriptor is None:
                    os.close(descriptor)
        _close_in_children(self)

    def release(self) -> None:
        """Give the lock back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def forget(self) -> None:
        """In a forked child: let go of what the parent holds, without giving it back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _lock(self, descriptor: int, side_file: str) -> bool:
        """Lock an opened side file; False where somebody deleted it meanwhile, so that the next one makes another."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalInUse(self._path, _read(descriptor)) from None
        except OSError as error:
            raise StorageReadOnly(f"{side_file} cannot be locked: {error.strerror}") from error
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(side_file))
        except FileNotFoundError:
            return False


def _close_in_children(lock: DriverLock) -> None:
    """Keep forked children, such as those of a process pool, from holding the lock when their parent has died."""
    held = weakref.ref(lock)

    def close() -> None:
        lock = held()
        if lock is not None:
            lock.forget()

    os.register_at_fork(after_in_child=close)


def _write(descriptor: int, side_file: str, holder: Holder) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(attrs.asdict(holder)).encode(), 0)
    except OSError as error:
        raise StorageFull(f"{side_file} cannot be written: {error.strerror}") from error


def _read(descriptor: int) -> str:
    """The holder's name; it may be writing it at this moment."""
    try:
        return str(Holder(**json.loads(os.pread(descriptor, 4096, 0))))
    except (ValueError, TypeError):
        return "another process"
