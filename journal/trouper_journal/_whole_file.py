"""Files that must never be seen half written: a kill or a full disk leaves the old state or the new one."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

_BESIDE: Final = ("", "-journal", "-wal", "-shm")
"""Endings of the files that SQLite lays beside one that it writes to, and of that itself."""


def make_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Make a file that only its owner can read; it is there whole or not at all, and on the disk when this returns.

    Args:
        path: Its name.
        data: What it holds.

    Raises:
        FileExistsError: There is one of that name.
        OSError: It cannot be written.
    """
    where = os.path.abspath(os.fsdecode(path))
    with unfinished(where, mode=0o600) as written:
        with open(written, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        give_name(written, where)
    sync_folder(where)


@contextmanager
def unfinished(path: str, *, mode: int) -> Iterator[str]:
    """A new and empty file beside another, to be filled and then given the other's name; gone when the block is left.

    Whoever fills it holds the operating system's lock on it, and so what a killed process has left is known, and
    removed by whoever comes next.

    Args:
        path: The name that it is to have in the end.
        mode: Who may read it, before the process's mask.

    Raises:
        OSError: It cannot be made.
    """
    remove_left(path)
    descriptor, part = _made(*os.path.split(os.path.abspath(path)), mode)
    try:
        yield part
    finally:
        _remove(part)
        os.close(descriptor)


def remove_left(path: str) -> None:
    """Remove what killed processes left of a file that they had begun."""
    folder, name = os.path.split(os.path.abspath(path))
    known = re.compile(rf"\.{re.escape(name)}\.[0-9]+\.part")
    with suppress(OSError):
        for each in os.listdir(folder):
            if known.fullmatch(each):
                _remove_unless_in_use(os.path.join(folder, each))


def _made(folder: str, name: str, mode: int) -> tuple[int, str]:
    for number in count(1):
        part = os.path.join(folder, f".{name}.{number}.part")
        with suppress(FileExistsError):
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            if _locked(descriptor, part, where_there_are_locks=True):
                return descriptor, part
            # Another took it for something left, before it was locked.
            os.close(descriptor)
    raise AssertionError


def _remove_unless_in_use(part: str) -> None:
    with suppress(OSError):
        descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if _locked(descriptor, part):
                _remove(part)
        finally:
            os.close(descriptor)


def _locked(descriptor: int, part: str, *, where_there_are_locks: bool = False) -> bool:
    """Lock a file, unless another has; whether that is done, and the file still has this name."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # On a file system without locks nothing that was left can be told from what is in use.
        if not where_there_are_locks:
            return False
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(part))
    return False


def _remove(part: str) -> None:
    for ending in _BESIDE:
        with suppress(FileNotFoundError):
            os.unlink(f"{part}{ending}")


def sync_file(path: str) -> None:
    """Make durable what a file holds."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Make a new name in a folder durable."""
    with suppress(OSError):  # some file systems cannot
        sync_file(os.path.dirname(os.path.abspath(path)))


def give_name(written: str, where: str) -> None:
    """Give a file its name, which a link never takes from another, as a renaming would.

    Args:
        written: The file; it may or may not have this name afterwards, too.
        where: Its name.

    Raises:
        FileExistsError: Another has it.
        OSError: It cannot be given.
    """
    try:
        os.link(written, where)
    except OSError:
        # Or it is a file system without links.
        if os.path.lexists(where):
            raise FileExistsError(f"{where} is there already: nothing is overwritten") from None
        os.replace(written, where)
