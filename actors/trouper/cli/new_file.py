"""Where an export goes: standard output, or a new file that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from attrs import define, field

from trouper.cli.codes import ConflictError
from trouper.cli.output import Output
from trouper_journal._whole_file import give_name, sync_folder, unfinished

_CHUNK: Final = 1 << 16
"""Characters that are gathered before they are written."""


@define
class Sink:
    """Gathers lines for standard output, or for a file."""

    _write: Callable[[str], object]
    _parts: list[str] = field(factory=list)
    _size: int = 0

    def line(self, text: str) -> None:
        """Write a line, in good time."""
        self._parts.append(text)
        self._size += len(text) + 1
        if self._size >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._parts:
            self._write("\n".join(self._parts))
            self._parts.clear()
            self._size = 0


@contextmanager
def sink_to(output: Output, out: Path | None) -> Iterator[Sink]:
    """Standard output, or a new file."""
    if out is None:
        sink = Sink(output.raw)
        yield sink
        sink.flush()
        return
    with new_file(out) as file:
        sink = Sink(lambda text: file.write(f"{text}\n".encode()))
        yield sink
        sink.flush()


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file, to be written and read, that is there whole once the block has ended well, and not at all otherwise.

    Raises:
        ConflictError: There is one of that name already, or one has come meanwhile.
        OSError: It cannot be written.
    """
    refuse_what_is_there(path)
    with unfinished(str(path), mode=0o666) as part:
        with open(part, "r+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            give_name(part, str(path))
        except FileExistsError as error:
            raise ConflictError(str(error)) from None
        sync_folder(str(path))


def refuse_what_is_there(path: Path) -> None:
    """Nothing is overwritten, not even a link to nowhere.

    Raises:
        ConflictError: There is something of that name.
    """
    if os.path.lexists(path):
        raise ConflictError(f"{path} is there already: nothing is overwritten")
