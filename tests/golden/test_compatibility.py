"""What each release promises about journals of others (docs/compatibility.md), with those that are at hand."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from trouper.audit.doctor import examine
from trouper.core.events import REGISTRY, Principal
from trouper.runtime import Commands
from trouper_journal import Journal, NotAJournal, SystemClock

FOLDER = Path(__file__).parent
GOLDEN = sorted(path.name for path in FOLDER.glob("*.db") if "tampered" not in path.name)
MARIA = Principal("maria", "person", "test", "asserted")


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, because opening a file may write to it."""
    return Path(shutil.copy(FOLDER / request.param, tmp_path))


async def test_older_journals_are_read_as_they_lie_and_found_well(golden: Path) -> None:
    before = golden.read_bytes()  # noqa: ASYNC240
    async with Journal.open(golden, registry=REGISTRY, read_only=True) as journal:
        found = await examine(journal, now=SystemClock().now(), driven=False)
        assert (await journal.verify()).ok
    assert found.ok, [each for each in found.findings if each.severity == "bad"]
    assert golden.read_bytes() == before  # noqa: ASYNC240


async def test_older_journals_are_gone_on_with(tmp_path: Path) -> None:
    golden = Path(shutil.copy(FOLDER / "runs-1.db", tmp_path))
    async with Journal.open(golden, registry=REGISTRY) as journal:
        count = await journal.position()
        [waiting, *_] = [head async for head in journal.streams(label="awaiting_approval") if "~" not in head.stream]
        await Commands(journal).cancel(waiting.stream.removeprefix("run/"), by=MARIA, reason="an old one")
        assert await journal.position() > count
        assert (await journal.verify()).ok


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version = 2", r"layout 2, this release knows layout 1"),
        ("UPDATE journal SET format = 2", r"format 2, this release knows format 1"),
    ],
)
async def test_newer_journals_are_refused_by_name_and_not_written_to(
    statement: str, message: str, read_only: bool, golden: Path
) -> None:
    with closing(sqlite3.connect(golden, isolation_level=None)) as database:
        database.execute("DROP TRIGGER journal_update")
        database.execute(statement)
    before = golden.read_bytes()  # noqa: ASYNC240
    with pytest.raises(NotAJournal, match=message):
        async with Journal.open(golden, registry=REGISTRY, read_only=read_only):
            raise AssertionError
    assert golden.read_bytes() == before  # noqa: ASYNC240
