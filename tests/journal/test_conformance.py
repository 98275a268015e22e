"""Both stores keep every promise of the published suite, and the suite notices a store that does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from trouper_journal import Batch, Journal, MemoryStore
from trouper_journal.testing import PROMISES, FaultyStore, NewStorage, OpenJournal, check_journal


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_promise(promise: Callable[[OpenJournal], Awaitable[None]], new_storage: NewStorage) -> None:
    await promise(new_storage())


async def test_the_suite_names_the_promise_that_a_store_breaks() -> None:
    class Forgetful(FaultyStore):
        async def write(self, batch: Batch) -> bool:
            return True

    def new_storage() -> OpenJournal:
        store = Forgetful(MemoryStore(b"forgetful store."))
        return lambda registry: Journal.over(store, registry=registry)

    with pytest.raises(AssertionError) as caught:
        await check_journal(new_storage)
    assert caught.value.__notes__ == ["promise: reads_what_it_wrote"]
