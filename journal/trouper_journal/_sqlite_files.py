"""Whether the files that a connection holds open still are what their names lead to.

A file's own status must not be asked for before each commit: Linux gives a file that was asked about a time stamp of
its own at the next write (multigrain timestamps, since 6.13), and such a write costs a durable commit a third more.
The folder is asked instead: as long as it was not written to, nothing in it can have been deleted, moved or replaced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

_SECOND: Final = 1_000_000_000
_TICK: Final = 100_000_000
"""Nanoseconds, well above the distance of two time stamps on a file system that keeps fractions of a second."""

FileId = tuple[int, int]


class OpenFiles:
    """A journal's file and its log, as they were when they were opened.

    Args:
        path: The file's real path.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = os.path.dirname(path)
        self._files = self._find()
        self._seen: tuple[int, int, int] | None = None

    def stand(self) -> bool:
        """Whether both are still in their places, as far as they were there to begin with."""
        if not self._files:
            return True
        try:
            state = os.stat(self._folder)
        except OSError:
            return False
        seen = (state.st_dev, state.st_ino, state.st_mtime_ns)
        if seen == self._seen:
            return True
        stand = self._find() == self._files
        if stand and _is_settled(state.st_mtime_ns):
            self._seen = seen
        return stand

    def _find(self) -> Sequence[FileId]:
        try:
            found = (os.stat(self._path), os.stat(f"{self._path}-wal"))
        except OSError:
            return ()
        return [(state.st_dev, state.st_ino) for state in found]


def _is_settled(stamp: int) -> bool:
    """Whether the folder's next change will certainly show: two changes at nearly the same time have one stamp."""
    distance = _TICK if stamp % _SECOND else 2 * _SECOND
    return 0 <= stamp < time.time_ns() - distance
