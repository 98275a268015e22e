"""The key that data keys are wrapped with, in a file of its own: best on another disk, or given by a secret store."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from trouper_journal._aead import KEY_SIZE
from trouper_journal._digest import hmac_sha256
from trouper_journal._keystore import KeyStoreError
from trouper_journal._whole_file import make_file, remove_left, sync_folder

PRIVATE: Final = 0o600
_ID: Final = re.compile("[0-9a-f]{16}")


def master_id(master: bytes) -> str:
    """Tells master keys apart, and tells nothing of them."""
    return hmac_sha256(master, b"trouper master key id")[:8].hex()


def read_master(path: str) -> bytes | None:
    """A master key from its file, 64 hexadecimal digits; None where there is no such file.

    Raises:
        KeyStoreError: It cannot be read, holds something else, or others than its owner may read it.
    """
    try:
        refuse_open(path)
        with open(path, "rb") as file:
            master = bytes.fromhex(file.read(1000).decode("ascii").strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyStoreError(f"the master key {path} cannot be read: {error.strerror}") from error
    except ValueError:
        master = b""
    if len(master) != KEY_SIZE:
        raise KeyStoreError(f"{path} is no master key: it must hold {2 * KEY_SIZE} hexadecimal digits")
    return master


def keep_master(path: str, master: bytes) -> None:
    """Keep a master key in a new file, readable for its owner alone; it is durable when this returns.

    Raises:
        KeyStoreError: The file is there already, or cannot be written.
    """
    try:
        make_file(path, master.hex().encode() + b"\n")
    except OSError as error:
        raise KeyStoreError(f"the master key {path} cannot be written: {error.strerror or error}") from error


def waiting_path(path: str, master: bytes) -> str:
    """Where a new master key waits until all keys are wrapped with it; no two wait in one place."""
    return f"{path}.{master_id(master)}"


def settle_master(path: str, present: str, *, alone: bool) -> None:
    """Let the master key that all keys of a file are wrapped with take its place, where it still waits for it.

    Args:
        path: Its place.
        present: Its id.
        alone: Whether nobody else needs what is there: then it, and whatever waits, is deleted. Otherwise it is kept
            under the name that it would wait under, where it is found.

    Raises:
        KeyStoreError: The files cannot be read or renamed.
    """
    with _one_at_a_time(path):
        standing = read_master(path)
        if standing is None or master_id(standing) != present:
            waiting = f"{path}.{present}"
            if read_master(waiting) is None:
                return
            if standing is not None and not alone:
                _link(path, waiting_path(path, standing))
            os.replace(waiting, path)
            sync_folder(path)
        if alone:
            _remove_waiting(path)
        _remove_unfinished(path)


@contextmanager
def _one_at_a_time(path: str) -> Iterator[None]:
    """Keeps other processes from renaming master keys in this folder; files of keys may share one."""
    try:
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
    except OSError as error:
        raise KeyStoreError(f"the master key {path} cannot be renamed: {error.strerror or error}") from error


def _link(path: str, name: str) -> None:
    with suppress(FileExistsError):
        os.link(path, name)


def _remove_waiting(path: str) -> None:
    folder, name = os.path.split(path)
    for each in os.listdir(folder):
        if each.startswith(f"{name}.") and _ID.fullmatch(each.removeprefix(f"{name}.")):
            os.unlink(os.path.join(folder, each))


def _remove_unfinished(path: str) -> None:
    """Remove what killed processes left of master keys: one that is no longer in use must not be found any more."""
    folder, name = os.path.split(path)
    begun = re.compile(rf"\.({re.escape(name)}(?:\.{_ID.pattern})?)\.[0-9]+\.part")
    for found in filter(None, map(begun.fullmatch, os.listdir(folder))):
        remove_left(os.path.join(folder, found[1]))


def refuse_open(path: str) -> None:
    """Refuse a file of keys that others than its owner may read or write.

    Raises:
        KeyStoreError: They may.
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise KeyStoreError(f"others may read or change {path} (mode {mode:o}): chmod 600 it")
