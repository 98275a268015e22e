"""Files that must never be seen half written: a kill or a full disk leaves the old state or the new one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress


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
    # Made for its owner alone.
    descriptor, written = tempfile.mkstemp(prefix=f".{os.path.basename(where)}.", dir=os.path.dirname(where))
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        give_name(written, where)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(written)
    sync_folder(where)


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
