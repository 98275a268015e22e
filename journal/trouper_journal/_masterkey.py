"""The key that data keys are wrapped with, in a file of its own: best on another disk, or given by a secret store."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from trouper_journal._aead import KEY_SIZE
from trouper_journal._digest import hmac_sha256
from trouper_journal._keystore import KeyStoreError
from trouper_journal._whole_file import make_file, sync_folder

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


def new_master(path: str, random: Callable[[int], bytes], *, replace: bool = False) -> bytes:
    """Make a master key and its file, readable for its owner alone; both are durable when this returns.

    Raises:
        KeyStoreError: The file is there already and is not to be replaced, or it cannot be written.
    """
    master = random(KEY_SIZE)
    try:
        make_file(path, master.hex().encode() + b"\n", replace=replace)
    except OSError as error:
        raise KeyStoreError(f"the master key {path} cannot be written: {error.strerror or error}") from error
    return master


def waiting_path(path: str) -> str:
    """Where a new master key waits until all keys are wrapped with it."""
    return f"{path}.new"


def settle_master(path: str, present: str) -> None:
    """Let the master key that all keys are wrapped with take its place, where it still waits for it.

    Only whoever has the file of keys locked may call this: between a look at that file and a renaming nobody else may
    rotate, or a key that is needed would be lost.

    Raises:
        KeyStoreError: The files cannot be read.
        OSError: It cannot be renamed.
    """
    if _is(read_master(path), present):
        return
    if _is(read_master(waiting_path(path)), present):
        os.replace(waiting_path(path), path)
        sync_folder(path)


def _is(master: bytes | None, wanted: str) -> bool:
    return master is not None and master_id(master) == wanted


def refuse_open(path: str) -> None:
    """Refuse a file of keys that others than its owner may read or write.

    Raises:
        KeyStoreError: They may.
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise KeyStoreError(f"others may read or change {path} (mode {mode:o}): chmod 600 it")
