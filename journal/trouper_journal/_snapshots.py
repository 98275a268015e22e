"""Snapshots: folded states kept as a cache, and believed only where they fit the record and the code."""

from __future__ import annotations

from contextlib import suppress

from trouper_journal._errors import InvalidWrite, JournalCorrupt
from trouper_journal._proposals import checked_name
from trouper_journal._records import Snapshot
from trouper_journal._store import Store


async def save(store: Store, stream: str, version: int, fingerprint: str, state: bytes) -> None:
    """Keep a state; a no-op where the stream has no record of that version."""
    fingerprint = checked_name(fingerprint, "fingerprint")
    if not isinstance(state, bytes):
        raise InvalidWrite(f"snapshot of {stream}: the state is {type(state).__name__}, not bytes")
    found = await store.read_stream(stream, version - 1, 1)
    if found and found[0].version == version:
        await store.save_snapshot(Snapshot(stream, version, found[0].leaf, fingerprint, state), stream)


async def load(store: Store, stream: str, fingerprint: str) -> tuple[int, bytes] | None:
    """Version and state; a snapshot of other code, or of a record with another digest, is dropped."""
    try:
        snapshot = await store.load_snapshot(stream)
    except JournalCorrupt:
        # It is a cache: the records tell the same.
        snapshot = None
    else:
        if snapshot is None:
            return None
    if snapshot is not None and snapshot.fingerprint == fingerprint:
        found = await store.read_stream(stream, snapshot.version - 1, 1)
        if found and found[0].leaf == snapshot.leaf:
            return snapshot.version, snapshot.state
    with suppress(JournalCorrupt):
        await store.save_snapshot(None, stream)
    return None
