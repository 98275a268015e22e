"""The lock that a journal's one driver holds: on a side file, by the operating system, so that it dies with it."""

from __future__ import annotations

import fcntl
import json
import os
import socket

import attrs

from trouper_journal._errors import JournalInUse, StorageReadOnly


@attrs.frozen(slots=True)
class Holder:
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
            StorageReadOnly: The side file cannot be written.
        """
        lock_path = f"{self._path}.lock"
        try:
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageReadOnly(f"{lock_path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = _read(descriptor)
            os.close(descriptor)
            raise JournalInUse(self._path, other) from None
        except OSError as error:
            os.close(descriptor)
            raise StorageReadOnly(f"{lock_path} cannot be locked: {error.strerror}") from error
        self._descriptor = descriptor
        holder = Holder(node, os.getpid(), socket.gethostname(), now)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(attrs.asdict(holder)).encode(), 0)

    def release(self) -> None:
        """Give the lock back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)


def _read(descriptor: int) -> str:
    """The holder's name; it may be writing it at this moment."""
    try:
        return str(Holder(**json.loads(os.pread(descriptor, 4096, 0))))
    except (ValueError, TypeError):
        return "another process"
