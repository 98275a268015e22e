"""Data keys in an SQLite file of their own, each wrapped with a master key. ``docs/format.md`` gives the layout.

The file keeps a rollback journal instead of a write-ahead log, and overwrites what is deleted: a key that was destroyed
is nowhere in it. Every call opens the file anew, so that it may be used from any task, thread and process.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias, TypeVar

import trio

from trouper_journal._aead import KEY_SIZE, Cipher, SealBroken
from trouper_journal._keyfile_layout import APPLICATION_ID, LAYOUT, TABLES, is_laid_out, master_of, quoted
from trouper_journal._keystore import DataKey, KeyEntry, KeyStoreError, erased, missing, new_key
from trouper_journal._masterkey import (
    PRIVATE,
    keep_master,
    master_id,
    read_master,
    refuse_open,
    settle_master,
    waiting_path,
)
from trouper_journal._records import Withheld
from trouper_journal._sealed import NONCE, key_context
from trouper_journal._whole_file import sync_folder

_CHANGES: Final = slice(24, 28)
"""Where the header of an SQLite file counts its transactions."""

Place: TypeAlias = tuple[bytes, str]
T = TypeVar("T")


class FileKeyStore:
    """Keeps data keys in a file, which is made with the first key; a `KeyStore`.

    Whoever has a copy of this file *and* the master key can read what was sealed, also after an erasure that the copy
    is older than: let backups of it grow no older than you promise to forget.

    Args:
        path: The file.
        master: The master key, 32 bytes, as a secret store gives it; or the path of its file. By default the file is
            called like this one with ``.master`` behind it, and is made together with it.
        random: Source of random bytes.
        read_only: Only read the file: not a byte of it or beside it is written, not even to put right what another
            process was killed at.

    Raises:
        KeyStoreError: The master key has not 32 bytes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        master: bytes | str | os.PathLike[str] | None = None,
        *,
        random: Callable[[int], bytes] = os.urandom,
        read_only: bool = False,
    ) -> None:
        self.path: Final = os.path.abspath(os.fsdecode(path))
        self._secret = master if isinstance(master, bytes) else None
        if self._secret is not None:
            Cipher(_checked(self._secret))
        own = f"{self.path}.master"
        self.master_path: Final = own if master is None else os.path.abspath(os.fsdecode(master))
        self._alone = self.master_path == own
        self._random = random
        self._read_only = read_only
        self._lock = trio.Lock()
        self._wanted: set[Place] = set()
        self._made: dict[Place, DataKey] = {}
        self._batches = 0

    @property
    def in_files(self) -> bool:
        """Whether the master key is in a file, too: then another process can open this by `path` and `master_path`."""
        return self._secret is None

    async def obtain(self, journal: bytes, domain: str) -> DataKey:
        """The active key of a domain, made where there is none; calls at the same time share one transaction.

        Raises:
            KeyStoreError: The file cannot be read or written, or another master key is needed.
        """
        place = (journal, domain)
        known = self._batches
        self._wanted.add(place)
        async with self._lock:
            # Only what was looked up after this call began will do.
            if self._batches == known or place not in self._made:
                wanted, self._wanted = self._wanted | {place}, set()
                self._batches += 1
                self._made = {}
                self._made = await trio.to_thread.run_sync(self._obtain, wanted)
            return self._made[place]

    async def find(self, key_id: str) -> DataKey | Withheld:
        """A key by its name, or why there is none."""

        def find(database: sqlite3.Connection) -> DataKey | Withheld:
            row = database.execute("SELECT journal, domain, wrapped FROM keys WHERE id = ?", (key_id,)).fetchone()
            if row is None:
                return missing(key_id)
            return erased(key_id) if row[2] is None else _unwrap(self._cipher(database), key_id, *row)

        try:
            return await self._read(find, missing(key_id))
        except KeyStoreError as error:
            return Withheld("locked", f"sealed, and its key {key_id} cannot be had: {error}")

    async def entries(self, journal: bytes, domain: str) -> Sequence[KeyEntry]:
        """All keys that a domain has or had, oldest first.

        Raises:
            KeyStoreError: The file cannot be read.
        """
        query = "SELECT id, state FROM keys WHERE journal = ? AND domain = ? ORDER BY number"
        return await self._read(
            lambda database: [KeyEntry(*row) for row in database.execute(query, (journal, domain)).fetchall()], []
        )

    async def retire(self, journal: bytes, domain: str) -> Sequence[str]:
        """Let the domain have no active key; the names of all its keys that are not destroyed.

        Raises:
            KeyStoreError: The file cannot be read or written.
        """

        def retire(database: sqlite3.Connection) -> list[str]:
            where = "WHERE journal = ? AND domain = ? AND wrapped IS NOT NULL"
            database.execute(f"UPDATE keys SET state = 'retired' {where}", (journal, domain))  # noqa: S608 -- a constant
            found = database.execute(f"SELECT id FROM keys {where} ORDER BY number", (journal, domain))  # noqa: S608
            return [row[0] for row in found.fetchall()]

        return await self._change(retire)

    async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
        """Overwrite keys; those that were there. Their names are kept, so that it is known that they are no more.

        Raises:
            KeyStoreError: The file cannot be read or written; nothing was destroyed.
        """

        def destroy(database: sqlite3.Connection) -> list[str]:
            update = "UPDATE keys SET state = 'destroyed', wrapped = NULL WHERE id = ? AND wrapped IS NOT NULL"
            return [key_id for key_id in key_ids if database.execute(update, (key_id,)).rowcount]

        return await self._change(destroy)

    async def rotate(self, master: bytes | None = None) -> int:
        """Wrap all keys with another master key; how many there are. The old one is of no use afterwards.

        Where the master key has a file, the new one takes its place, and an interrupted rotation is completed by the
        next one. The old one is deleted where that file lies beside the file of keys under its name; anywhere else
        another file of keys may need it, and it is kept under the same name with its own id behind it. Data keys stay
        as they are, so that nothing in a journal changes.

        Args:
            master: The new master key, 32 bytes; needed where the present one was given as bytes. By default a random
                one.

        Raises:
            KeyStoreError: The files cannot be read or written, or the present master key is not the right one.
        """
        if self._secret is not None and master is None:
            raise KeyStoreError("give the new master key, as the present one was given: 32 bytes")
        async with self._lock:
            return await trio.to_thread.run_sync(self._rotate, master)

    def stamp(self) -> object:
        """Changes with every transaction on the file."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                return (os.fstat(file.fileno()).st_ino, file.read(100)[_CHANGES])
        except OSError:
            return ()

    # ---- in a thread

    def _obtain(self, places: Collection[Place]) -> dict[Place, DataKey]:
        query = "SELECT id, journal, domain, wrapped FROM keys WHERE journal = ? AND domain = ? AND state = 'active'"
        insert = "INSERT INTO keys (id, journal, domain, state, wrapped) VALUES (?, ?, ?, 'active', ?)"

        def obtain(database: sqlite3.Connection) -> dict[Place, DataKey]:
            cipher = self._cipher(database)
            found: dict[Place, DataKey] = {}
            for place in places:
                row = database.execute(query, place).fetchone()
                if row is None:
                    key = found[place] = new_key(*place, self._random)
                    database.execute(insert, (key.id, *place, self._wrap(cipher, key)))
                else:
                    found[place] = _unwrap(cipher, *row)
            return found

        self._create()
        return self._transact(obtain)

    def _rotate(self, master: bytes | None) -> int:
        def rotate(database: sqlite3.Connection) -> tuple[int, bytes]:
            made = self._random(KEY_SIZE) if master is None else _checked(master)
            count = self._rewrap(database, self._cipher(database), made)
            if self._secret is None:
                # It must be on disk before anything wrapped with it is.
                keep_master(waiting_path(self.master_path, made), made)
            return count, made

        number, made = self._transact(rotate)
        if self._secret is not None:
            self._secret = made
        else:
            self._transact(lambda database: settle_master(self.master_path, master_of(database), alone=self._alone))
        return number

    def _rewrap(self, database: sqlite3.Connection, old: Cipher, master: bytes) -> int:
        new = Cipher(master)
        last = count = 0
        query = (
            "SELECT number, id, journal, domain, wrapped FROM keys WHERE number > ? AND wrapped IS NOT NULL "
            "ORDER BY number LIMIT 500"
        )
        while rows := database.execute(query, (last,)).fetchall():
            for number, *row in rows:
                key = _unwrap(old, *row)
                database.execute("UPDATE keys SET wrapped = ? WHERE number = ?", (self._wrap(new, key), number))
                last = number
            count += len(rows)
        database.execute("UPDATE vault SET master = ?", (master_id(master),))
        return count

    def _wrap(self, cipher: Cipher, key: DataKey) -> bytes:
        nonce = self._random(NONCE)
        return nonce + cipher.seal(nonce, key.secret, key_context(key.id, key.journal, key.domain))

    def _cipher(self, database: sqlite3.Connection) -> Cipher:
        """The cipher of the master key that the file's keys are wrapped with.

        Raises:
            KeyStoreError: It is not at hand.
        """
        wanted = master_of(database)
        for master in self._masters(wanted):
            if master is not None and master_id(master) == wanted:
                return Cipher(master)
        where = "the one given" if self._secret is not None else self.master_path
        raise KeyStoreError(f"{self.path} needs the master key {wanted}, which is not {where}")

    def _masters(self, wanted: str) -> Iterator[bytes | None]:
        if self._secret is not None:
            yield self._secret
        else:
            yield read_master(self.master_path)
            # A rotation was interrupted, or another file of keys has the same master key's file and was rotated; or a
            # rotation is under way, and this one takes that place just now.
            yield read_master(f"{self.master_path}.{wanted}")
            yield read_master(self.master_path)

    def _create(self) -> None:
        """Make the file and its tables, and the master key's file with them, unless they are there."""
        if not os.path.exists(self.path) and not self._read_only:
            try:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
            except OSError as error:
                raise KeyStoreError(f"{self.path} cannot be made: {error.strerror}") from error
            sync_folder(self.path)

        def lay_out(database: sqlite3.Connection) -> None:
            if is_laid_out(database, self.path):
                return
            master = self._secret or read_master(self.master_path) or self._new_master()
            for statement in TABLES:
                database.execute(statement)
            database.execute("INSERT INTO vault VALUES (1, ?)", (master_id(master),))
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {LAYOUT}")

        with self._opened() as database:
            done = is_laid_out(database, self.path)
        if not done:
            self._transact(lay_out)

    def _new_master(self) -> bytes:
        master = self._random(KEY_SIZE)
        try:
            keep_master(self.master_path, master)
        except KeyStoreError:
            # Another file of keys that shares it was made in this very moment.
            found = read_master(self.master_path)
            if found is None:
                raise
            return found
        return master

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._read_only:
            raise KeyStoreError(f"{self.path} is opened to be read only")
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                result = work(database)
                database.execute("COMMIT")
                return result
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            refuse_open(self.path)
            place = f"file:{quoted(self.path)}?mode={'ro' if self._read_only else 'rw'}"
            database = sqlite3.connect(place, uri=True, timeout=10, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise KeyStoreError(f"{self.path} cannot be opened: {error}") from error
        try:
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA synchronous = EXTRA")
            yield database
        except sqlite3.Error as error:
            raise KeyStoreError(f"{self.path}: {error}") from error
        finally:
            database.close()

    async def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What a look at the file gives; ``otherwise`` where there is no file."""

        def read() -> T:
            if not os.path.exists(self.path):
                return otherwise
            with self._opened() as database:
                # All that is read is of one moment, whoever rotates.
                database.execute("BEGIN")
                return work(database) if is_laid_out(database, self.path) else otherwise

        return await trio.to_thread.run_sync(read)

    async def _change(self, work: Callable[[sqlite3.Connection], list[str]]) -> list[str]:
        def change() -> list[str]:
            if not os.path.exists(self.path):
                return []
            with self._opened() as database:
                there = is_laid_out(database, self.path)
            return self._transact(work) if there else []

        async with self._lock:
            return await trio.to_thread.run_sync(change)


def _unwrap(cipher: Cipher, key_id: str, journal: bytes, domain: str, wrapped: bytes) -> DataKey:
    try:
        secret = cipher.open(wrapped[:NONCE], wrapped[NONCE:], key_context(key_id, journal, domain))
    except (SealBroken, TypeError, AttributeError):  # a cell of that file may hold anything
        raise KeyStoreError(f"the key {key_id} is damaged: restore the file of keys from a backup") from None
    return DataKey(key_id, journal, domain, secret)


def _checked(master: bytes) -> bytes:
    if len(master) != 32:
        raise KeyStoreError(f"a master key has 32 bytes, not {len(master)}")
    return master
