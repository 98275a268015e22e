"""Sealed journals of every released format open with the keys of their time, and stay closed where those are gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.golden.sealed import FOLDER, MASTER, REGISTRY, Noted, Spoken

from trouper_journal import ERASED, Domain, Journal, Withheld, Write
from trouper_journal.sealing import ERASURES, FileKeyStore, KeyStore

GOLDEN = sorted(path.stem for path in FOLDER.glob("sealed-*.json"))
WORDS = [Spoken("a word"), Noted(1), Spoken({"deep": [1, 2.5, None]}), *[Spoken("long " * 10_000)] * 2]


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, with its keys beside it."""
    for kind in ("db", "keys", "json"):
        shutil.copy(FOLDER / f"{request.param}.{kind}", tmp_path / f"copy.{kind}")
    (tmp_path / "copy.keys").chmod(0o600)
    return tmp_path / "copy.db"


def keys_of(path: Path) -> KeyStore:
    return FileKeyStore(path.with_suffix(".keys"), MASTER)


async def said(journal: Journal, room: str) -> list[object]:
    streams = [f"{room}/a", f"{room}/b"]
    return [journal.registry.decode(record) for name in streams async for record in journal.read(name)]


async def test_it_reads_as_written_but_for_what_was_erased(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY, keys=keys_of(golden)) as journal:
        assert await said(journal, "kept") == WORDS
        gone = [each if isinstance(each, Noted) else Spoken(ERASED) for each in WORDS]
        assert await said(journal, "erased") == gone
        (first, *_) = await journal.read_page("erased/a")
        assert isinstance(first.opened, Withheld)
        assert first.opened.reason == "erased"
        assert len([record async for record in journal.read(ERASURES)]) == 2


async def test_it_verifies_without_keys_to_the_root_that_it_had(golden: Path) -> None:
    described = json.loads(golden.with_suffix(".json").read_text())
    async with Journal.open(golden, registry=REGISTRY) as journal:
        found = await journal.verify()
        assert found.ok
        assert (found.records, found.root) == (described["records"], described["root"])
        assert await said(journal, "kept") == await said(journal, "erased")


async def test_it_can_be_appended_to_with_the_same_keys(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY, keys=keys_of(golden)) as journal:
        before = (await journal.read_page("kept/a"))[0].key_id
        write = Write("kept/a", [Spoken("one more")], expected=3, domain=Domain("room/kept", b"kept" * 4))
        done = await journal.commit([write])
        assert done.records[0].key_id == before
        assert (await said(journal, "kept"))[3] == Spoken("one more")
        assert (await journal.verify()).ok
