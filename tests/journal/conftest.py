"""Journals over both stores, and the events that these tests write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from trouper_journal import EventRegistry, Journal, MemoryStore
from trouper_journal.testing import NewStorage, OpenJournal


def new_memory(_: Path) -> NewStorage:
    """Storages in memory; each outlives the journals over it."""

    def new_storage() -> OpenJournal:
        store = MemoryStore(b"memory journal 0")
        return lambda registry: Journal.over(store, registry=registry)

    return new_storage


def new_sqlite(folder: Path) -> NewStorage:
    """Storages in files of a folder."""

    def new_storage() -> OpenJournal:
        path = folder / f"{len(list(folder.iterdir()))}.db"

        def open_journal(registry: EventRegistry) -> AbstractAsyncContextManager[Journal]:
            return Journal.open(path, registry=registry)

        return open_journal

    return new_storage


STORES: dict[str, Callable[[Path], NewStorage]] = {"memory": new_memory, "sqlite": new_sqlite}


@pytest.fixture(params=list(STORES.values()), ids=list(STORES))
def new_storage(request: pytest.FixtureRequest, tmp_path: Path) -> NewStorage:
    """Each store that this distribution brings."""
    made: NewStorage = request.param(tmp_path)
    return made
