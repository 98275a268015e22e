"""Check that the indexes have nothing that no record has: keys in the way of commands to come, streams out of sight."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from trouper_journal._archive_file import ArchiveInfo
from trouper_journal._archive_rows import has_archived

_PAGE: Final = 2048
"""Keys looked at at a time, so that no read holds the write-ahead log back."""

Stray: TypeAlias = tuple[str, int | None]
"""A key, and the first position that the index gives it; None where that is no number."""

_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1
"""The least and the largest number that SQLite can give a row, by itself or by somebody's hand."""

_UPTO: Final = "SELECT max(rowid) FROM (SELECT rowid FROM keys WHERE rowid >= ? ORDER BY rowid LIMIT ?)"

# Where the first record of a key is that key's, the check of the records finds whether the rest is.
_STRAY: Final = """
SELECT cast(name AS BLOB), first FROM keys AS entry
WHERE rowid BETWEEN ? AND ? AND NOT EXISTS (SELECT 1 FROM events WHERE position = entry.first AND key = entry.name)
"""
# A listing begins behind 0, and a look by name finds these, too.
_UNLISTED: Final = "SELECT cast(name AS BLOB) FROM streams WHERE id < 1 LIMIT 100"
_NOT_ARCHIVED: Final = "AND NOT EXISTS (SELECT 1 FROM archived WHERE position = entry.first)"


T = TypeVar("T")


@runtime_checkable
class HasRows(Protocol):
    """A store over an SQLite file, whose rows can be looked at as they are."""

    async def scan(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out work that only reads, in the thread that reads."""
        ...


async def stray_keys(store: HasRows) -> AsyncGenerator[Stray, None]:
    """The keys of the index that no record has; what an archived record had is not known.

    Raises:
        JournalCorrupt, JournalBroken, StorageBusy: The index could not be read.
    """
    begin: int | None = _FIRST
    while begin is not None:
        found, begin = await store.scan(partial(_stray, begin=begin))
        for each in found:
            yield each


def _stray(database: sqlite3.Connection, begin: int) -> tuple[list[Stray], int | None]:
    """The stray ones of a page of keys, and where the next page begins; None behind the last."""
    (last,) = database.execute(_UPTO, (begin, _PAGE)).fetchone()
    if last is None:
        return [], None
    query = _STRAY + _NOT_ARCHIVED if has_archived(database) else _STRAY
    found = [
        (_text(name), first if type(first) is int else None) for name, first in database.execute(query, (begin, last))
    ]
    return found, None if last == _LAST else last + 1


async def unlisted_streams(store: HasRows) -> list[str]:
    """The first streams of the index that no listing shows.

    Raises:
        JournalCorrupt, JournalBroken, StorageBusy: The index could not be read.
    """
    return await store.scan(lambda database: [_text(name) for (name,) in database.execute(_UNLISTED)])


async def entered_otherwise(store: HasRows, archives: Sequence[ArchiveInfo]) -> list[str]:
    """What the journal says otherwise of archives than they do themselves.

    Raises:
        JournalCorrupt, JournalBroken, StorageBusy: The index could not be read.
    """
    entered = await store.scan(_entered) if archives else {}
    return [
        f"the journal says that the archive {archive.id.hex()} was made of {entered[archive.id][0]} records with the "
        f"root {_hex(entered[archive.id][1])}, the archive says {archive.size} with {archive.root.hex()}"
        for archive in archives
        if archive.id in entered and entered[archive.id] != (archive.size, archive.root)
    ]


def _entered(database: sqlite3.Connection) -> dict[object, tuple[object, object]]:
    if not has_archived(database):
        return {}
    return {name: (size, root) for name, size, root in database.execute("SELECT id, size, root FROM archives")}


def _hex(root: object) -> object:
    return root.hex() if isinstance(root, bytes) else root


def _text(name: bytes | None) -> str:
    return (name or b"").decode("utf-8", "backslashreplace")
