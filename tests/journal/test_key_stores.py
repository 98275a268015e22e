"""Both keepers of data keys keep every promise of the published suite, and the suite notices one that does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trouper_journal.sealing import FileKeyStore, KeyStore, MemoryKeyStore
from trouper_journal.testing import KEY_PROMISES, KeyPromise, OpenKeys, check_key_store


def in_memory(_: Path) -> OpenKeys:
    keys = MemoryKeyStore()
    return lambda: keys


def in_file(folder: Path) -> OpenKeys:
    return lambda: FileKeyStore(folder / "a.keys")


@pytest.mark.parametrize("new", [in_memory, in_file])
@pytest.mark.parametrize("promise", KEY_PROMISES, ids=lambda promise: promise.__name__)
async def test_promise(promise: KeyPromise, new: Callable[[Path], OpenKeys], tmp_path: Path) -> None:
    await promise(new(tmp_path))


async def test_the_suite_names_the_promise_that_a_keeper_breaks() -> None:
    class Hoarder(MemoryKeyStore):
        async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
            return [key_id for key_id in key_ids if key_id != "nobody knows"]

    def new_keys() -> OpenKeys:
        keys: KeyStore = Hoarder()
        return lambda: keys

    with pytest.raises(AssertionError) as caught:
        await check_key_store(new_keys)
    assert caught.value.__notes__ == ["promise: destroys_for_good"]
