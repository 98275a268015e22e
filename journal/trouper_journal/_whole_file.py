"""Small files that must never be seen half written: a kill or a full disk leaves the old state or the new one."""

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
        _link(written, where)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(written)
    sync_folder(where)


def sync_folder(path: str) -> None:
    """Make a new name in a folder durable."""
    with suppress(OSError):  # some file systems cannot
        descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _link(written: str, where: str) -> None:
    """Give a file its name, which a link never takes from another, as a renaming would."""
    try:
        os.link(written, where)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links.
        if os.path.lexists(where):
            raise FileExistsError(f"{where} is there already") from None
        os.replace(written, where)
