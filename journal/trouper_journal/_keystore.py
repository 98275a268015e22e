"""The port that a keeper of data keys fills, and the keeper in memory.

A *data key* seals the content of one erasure domain of one journal. It is made when the domain first needs it, and is
durable before any record is sealed with it. Destroying it makes that content unreadable, wherever copies of the journal
are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs
import trio

from trouper_journal._aead import KEY_SIZE
from trouper_journal._errors import JournalError
from trouper_journal._printable import Plain
from trouper_journal._records import Withheld

ID_SIZE = 16
"""Random bytes in the name of a data key."""


class KeyStoreError(JournalError):
    """Data keys cannot be had or kept; nothing was written to the journal."""


@attrs.frozen(slots=False, repr=False, eq=False)
class DataKey(Plain):
    """A key that seals the content of one domain.

    Attributes:
        id: Names it, in records too; random, and tells nothing.
        journal: Id of the journal.
        domain: Name of the erasure domain.
        secret: 32 random bytes.
    """

    id: str
    journal: bytes
    domain: str
    secret: bytes = attrs.field(repr=False)


@attrs.frozen(slots=False, repr=False, eq=False)
class KeyEntry(Plain):
    """What a keeper tells of a key, without the key.

    Attributes:
        id: Its name.
        state: ``active``: the domain's new content is sealed with it; ``retired``: it only opens; ``destroyed``.
    """

    id: str
    state: str


class KeyStore(Protocol):
    """Keeps data keys, apart from the journal. May be used by several processes at once.

    What one call has changed is durable when it returns, and seen by every later call of any process.
    """

    async def obtain(self, journal: bytes, domain: str) -> DataKey:
        """The active key of a domain; where it has none, a new random one, which is durable when this returns.

        Args:
            journal: The journal's id; the same domain of another journal has other keys.
            domain: Name of the erasure domain.

        Raises:
            KeyStoreError: There is no key to be had; nothing has changed.
        """
        ...

    async def find(self, key_id: str) -> DataKey | Withheld:
        """A key by its name, or why there is none. Trouble with the keeper is a reason too, and not an error."""
        ...

    async def entries(self, journal: bytes, domain: str) -> Sequence[KeyEntry]:
        """All keys that a domain has or had, oldest first.

        Raises:
            KeyStoreError: The keeper cannot be asked.
        """
        ...

    async def retire(self, journal: bytes, domain: str) -> Sequence[str]:
        """Let the domain have no active key, so that `obtain` makes a new one; the names of all keys not destroyed.

        Raises:
            KeyStoreError: The keeper cannot be asked or changed.
        """
        ...

    async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
        """Destroy keys so that nobody can have them again, all or none; those that were there.

        That they were destroyed is remembered. Names that are not known, or destroyed already, are passed over.

        Raises:
            KeyStoreError: They could not be destroyed.
        """
        ...

    def stamp(self) -> object:
        """Cheap to get, never waits; changes whenever any process has destroyed a key or added one.

        None: that cannot be told; then keys are looked up for each use.
        """
        ...


def new_key(journal: bytes, domain: str, random: Callable[[int], bytes]) -> DataKey:
    """A random data key."""
    return DataKey(random(ID_SIZE).hex(), journal, domain, random(KEY_SIZE))


class MemoryKeyStore:
    """Keeps data keys in memory, for tests and examples; what was sealed with them is lost with the process.

    Args:
        random: Source of random bytes.
    """

    def __init__(self, *, random: Callable[[int], bytes] = os.urandom) -> None:
        self._random = random
        self._keys: dict[str, DataKey] = {}
        self._entries: dict[str, tuple[bytes, str, str]] = {}
        self._changes = 0

    async def obtain(self, journal: bytes, domain: str) -> DataKey:
        """The active key of a domain, made where there is none."""
        await trio.lowlevel.checkpoint()
        for key_id, entry in self._entries.items():
            if entry == (journal, domain, "active"):
                return self._keys[key_id]
        key = new_key(journal, domain, self._random)
        self._keys[key.id] = key
        self._entries[key.id] = (journal, domain, "active")
        self._changes += 1
        return key

    async def find(self, key_id: str) -> DataKey | Withheld:
        """A key by its name, or why there is none."""
        await trio.lowlevel.checkpoint()
        if key_id in self._keys:
            return self._keys[key_id]
        return erased(key_id) if key_id in self._entries else missing(key_id)

    async def entries(self, journal: bytes, domain: str) -> Sequence[KeyEntry]:
        """All keys that a domain has or had."""
        await trio.lowlevel.checkpoint()
        return [KeyEntry(key_id, entry[2]) for key_id, entry in self._entries.items() if entry[:2] == (journal, domain)]

    async def retire(self, journal: bytes, domain: str) -> Sequence[str]:
        """Let the domain have no active key."""
        await trio.lowlevel.checkpoint()
        found = [key_id for key_id in self._keys if self._entries[key_id][:2] == (journal, domain)]
        self._entries.update((key_id, (journal, domain, "retired")) for key_id in found)
        self._changes += 1
        return found

    async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
        """Forget keys."""
        await trio.lowlevel.checkpoint()
        found = [key_id for key_id in key_ids if key_id in self._keys]
        for key_id in found:
            journal, domain, _ = self._entries[key_id]
            self._entries[key_id] = (journal, domain, "destroyed")
            del self._keys[key_id]
        self._changes += 1
        return found

    def stamp(self) -> object:
        """How often anything has changed."""
        return self._changes


def erased(key_id: str) -> Withheld:
    """What to say of a key that was destroyed."""
    return Withheld("erased", f"erased: its key {key_id} was destroyed")


def missing(key_id: str) -> Withheld:
    """What to say of a key that nobody knows."""
    return Withheld("missing", f"sealed, and the keys at hand do not have its key {key_id}")
