"""Files of signing keys, and of checkpoints: small texts that must be whole, and last."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from typing import IO

from trouper_journal._checkpoints import SignedCheckpoint, split_notes
from trouper_journal._errors import InvalidKey, InvalidNote
from trouper_journal._notes import Note, SignatureType, SignerKey, VerifierKey
from trouper_journal._whole_file import make_file, sync_folder

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAX_KEY = 10_000
_MAX_HISTORY = 1 << 26
"""Bytes of some hundred thousand checkpoints; a device or a wrong file could go on for ever."""


def new_key(name: str, *, witness: bool = False, random: Callable[[int], bytes] = os.urandom) -> SignerKey:
    """Make a key.

    Args:
        name: The holder's: for a log its origin, which no other log may have.
        witness: Whether it is to cosign others' checkpoints, instead of signing its own.
        random: Source of random bytes.

    Raises:
        InvalidKey: No key can have this name.
    """
    return SignerKey(name, random(32), SignatureType.COSIGNATURE if witness else SignatureType.NOTE)


def write_key(path: str | os.PathLike[str], key: SignerKey) -> None:
    """Keep a private key in a new file that only its owner can read; what returned is on the disk.

    Raises:
        FileExistsError: There is a file already; no key is ever overwritten.
        OSError: It cannot be written.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    make_file(path, f"{key.secret_text()}\n".encode())


def read_key(path: str | os.PathLike[str]) -> SignerKey:
    """Read a private key's file.

    Raises:
        InvalidKey: It holds no private key, or others than its owner can read it.
        OSError: It cannot be read.
        MissingExtra: The package ``cryptography`` is not installed.
    """
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(_MAX_KEY)
    key = SignerKey.parse(_text(data, path))
    if mode & _OTHERS:
        raise InvalidKey(f"others can read the private key {os.fspath(path)}: chmod 600 it, if it still is one")
    return key


def read_public_key(given: str) -> VerifierKey:
    """A public key, given as its text or as the name of a file that holds it.

    Raises:
        InvalidKey: It is neither.
        OSError: The file cannot be read.
    """
    if os.path.exists(given):
        with open(given, "rb") as file:
            given = _text(file.read(_MAX_KEY), given)
    return VerifierKey.parse(given)


class CheckpointFile:
    """A history of checkpoints: a text file, one signed note behind the other, to which is only ever appended.

    Args:
        path: The file; made with the first checkpoint.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def read(self) -> list[Note]:
        """All checkpoints in it, unchecked, in order; none where there is no file.

        Raises:
            InvalidNote: It is no such history.
            OSError: It cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                return self._notes(self._whole(file))
        except FileNotFoundError:
            return []

    def append(self, checkpoint: SignedCheckpoint, check: Callable[[list[Note]], None] | None = None) -> None:
        """Add a checkpoint; what returned is on the disk.

        Args:
            checkpoint: What to add.
            check: Called with what is there, while no other process can add anything; nothing is added where it
                raises.

        Raises:
            InvalidNote: The file is no such history.
            OSError: It cannot be written.
        """
        with self._locked() as file:
            before = self._whole(file)
            notes = self._notes(before)
            if check is not None:
                check(notes)
            _append(file, (b"\n" if before.strip() else b"") + str(checkpoint).encode())
        sync_folder(self.path)

    def add_cosignatures(self, checkpoint: SignedCheckpoint) -> None:
        """Add cosignatures to the last checkpoint: the same text, with more signatures behind it.

        Raises:
            InvalidNote: The file is no such history, or ends with another checkpoint.
            OSError: It cannot be written.
        """
        with self._locked() as file:
            notes = self._notes(self._whole(file))
            last = notes[-1] if notes else None
            added = checkpoint.note.signatures
            if last is None or last.text != checkpoint.note.text or added[: len(last.signatures)] != last.signatures:
                raise InvalidNote(f"{self.path} has another checkpoint at its end: it was written to meanwhile")
            more = added[len(last.signatures) :]
            _append(file, "".join(f"{signature}\n" for signature in more).encode())

    @contextmanager
    def _locked(self) -> Iterator[FileIO]:
        # Without a buffer, from which what could not be written would be written once more.
        with open(self.path, "ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield file

    def _whole(self, file: IO[bytes]) -> bytes:
        data = b""
        # Without a buffer a file may give less than it was asked for.
        while len(data) <= _MAX_HISTORY and (more := file.read(_MAX_HISTORY + 1 - len(data))):
            data += more
        if len(data) > _MAX_HISTORY:
            raise InvalidNote(f"{self.path} is no history of checkpoints: it has more than {_MAX_HISTORY:,} bytes")
        return data

    def _notes(self, data: bytes) -> list[Note]:
        try:
            return list(split_notes(data.decode()))
        except UnicodeDecodeError as error:
            raise InvalidNote(f"{self.path} is no history of checkpoints: it is not text") from error
        except InvalidNote as error:
            raise InvalidNote(f"{self.path}: {error}") from error


def _text(data: bytes, path: str | os.PathLike[str]) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidKey(f"{os.fspath(path)} holds no key: it is not text") from error


def _append(file: FileIO, data: bytes) -> None:
    """Add to a file, all or nothing: half a checkpoint at its end would be in the way of all that follow."""
    before = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        file.truncate(before)
        raise
