"""The key that data keys are wrapped with, in a file of its own: best on another disk, or given by a secret store."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from trouper_journal._aead import KEY_SIZE
from trouper_journal._digest import hmac_sha256
from trouper_journal._keystore import KeyStoreError

PRIVATE = 0o600


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


def new_master(path: str, random: Callable[[int], bytes]) -> bytes:
    """Make a master key and its file, readable for its owner alone; both are durable when this returns.

    Raises:
        KeyStoreError: The file is there already, or cannot be written.
    """
    master = random(KEY_SIZE)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with open(descriptor, "wb") as file:
            file.write(master.hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise KeyStoreError(f"the master key {path} cannot be written: {error.strerror}") from error
    sync_folder(path)
    return master


def refuse_open(path: str) -> None:
    """Refuse a file of keys that others than its owner may read or write.

    Raises:
        KeyStoreError: They may.
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise KeyStoreError(f"others may read or change {path} (mode {mode:o}): chmod 600 it")


def sync_folder(path: str) -> None:
    """Make a new name in a folder durable."""
    with suppress(OSError):  # some file systems cannot
        descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
