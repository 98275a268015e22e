"""What belongs to records and is stored apart: their large values, and what is under a seal."""

from __future__ import annotations

from typing import Protocol

import attrs

from trouper_journal._archived import Archived
from trouper_journal._codec import SALT_SIZE
from trouper_journal._damaged import Marking
from trouper_journal._errors import JournalCorrupt
from trouper_journal._proposals import MAX_EVENTS
from trouper_journal._records import Committed, KeyEntry, Record
from trouper_journal._store import Store
from trouper_journal._values import references


class Opener(Protocol):
    """Opens sealed content."""

    async def opened(self, record: Record) -> Record:
        """The record with what its content says, or why it does not."""
        ...


async def original(store: Store, entry: KeyEntry, opener: Opener | None = None) -> Committed:
    """What was committed under a key.

    Raises:
        JournalCorrupt: The index of keys leads to other records.
    """
    count = entry.last - entry.first + 1
    # No commit is as long as a damaged index may say.
    records = await store.read_all(entry.first - 1, max(1, min(count, MAX_EVENTS)))
    if len(records) != count or any(
        record.key != entry.name and not isinstance(record, Archived) for record in records
    ):
        raise JournalCorrupt(f"the index of keys leads from {entry.name} to other records", entry.first)
    return Committed(tuple([await with_values(store, record, opener) for record in records]), repeated=True)


async def with_values(store: Store, record: Record, opener: Opener | None = None) -> Record:
    """The record with the large values that it refers to, and opened where it is sealed and there is a opener.

    Raises:
        JournalCorrupt: Its content does not name them, they are not bytes, or it does not open; names the position.
    """
    try:
        if opener is not None and record.key_id is not None:
            return await opener.opened(record)
        if not record.large or record.key_id is not None:
            return record
        digests = {reference.digest for reference in references(record.content[SALT_SIZE:])}
        return attrs.evolve(record, values=await store.values(digests))
    except JournalCorrupt as error:
        text = str(error).removeprefix(f"position {error.position}: ")
        if isinstance(store, Marking):
            return store.mark(record, text)
        raise JournalCorrupt(text, record.position) from None
