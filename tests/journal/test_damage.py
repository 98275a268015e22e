"""Damaged files: every reader gets a typed error that quotes nothing, and verification finds and names it all."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, Step, decode

from trouper_journal import (
    Journal,
    JournalCorrupt,
    JournalError,
    Key,
    NotAJournal,
    Record,
    Verification,
    Write,
)

SECRET = "a secret"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with two streams, keys, labels, alarms, a large value and a snapshot."""
    path = tmp_path / "a.db"
    trio.run(fill, path)
    return path


async def fill(path: Path) -> None:
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("me") as fence:
        for number in range(6):
            write = Write(
                f"run/{number % 2}", [Note(number, SECRET), Step(number)], label="running", wake_at=number + 1
            )
            await journal.commit([write], fence=fence, key=Key(f"submit:{number}", b"d"), meta={"cause": number})
        await journal.append("big", [Note(9, "x" * 40_000)])
        await journal.save_snapshot("run/0", 3, "code", b"state")


def damage(path: Path, *statements: str) -> None:
    """Write to a journal's tables past its guards, as somebody with an editor might."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)


async def verified(path: Path) -> Verification:
    async with Journal.open(path) as journal:
        return await journal.verify()


@pytest.mark.parametrize("column", ["facts", "content", "meta", "leaf"])
async def test_bytes_that_became_text_are_corrupt_where_they_stand_and_quoted_nowhere(column: str, path: Path) -> None:
    damage(path, f"UPDATE events SET {column} = CAST({column} || x'ff61' AS TEXT) WHERE position = 5")
    async with Journal.open(path, registry=REGISTRY) as journal:
        with pytest.raises(JournalCorrupt) as caught:
            await journal.read_page("run/0")
        assert caught.value.position == 5
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        assert [record.version async for record in journal.read("run/1")] == [1, 2, 3, 4, 5, 6]
    found = await verified(path)
    assert found.records == 12
    assert ("unreadable", 5) in {(problem.kind, problem.position) for problem in found.problems}
    assert not any(SECRET in problem.message for problem in found.problems)


async def test_bytes_that_became_readable_text_are_corrupt_too(path: Path) -> None:
    damage(path, "UPDATE events SET facts = 'abc' WHERE position = 5")
    async with Journal.open(path, registry=REGISTRY) as journal:
        page = await journal.read_page("run/0")
        with pytest.raises(JournalCorrupt) as caught:
            decode(journal, page[2])
        assert caught.value.position == 5
    assert {(problem.kind, problem.position) for problem in (await verified(path)).problems} >= {("leaf", 5)}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET version = 'one' WHERE position = 5",
        "UPDATE events SET schema = 'one' WHERE position = 5",
        "UPDATE events SET label = x'00' WHERE position = 5",
        "UPDATE events SET key = x'00' WHERE position = 5",
        "UPDATE events SET wake_at = 'soon' WHERE position = 5",
        "UPDATE streams SET name = x'00' WHERE name = 'run/0'",
        "UPDATE streams SET version = 'last' WHERE name = 'run/0'",
        "UPDATE streams SET position = 'last' WHERE name = 'run/0'",
        "UPDATE keys SET first = 'first' WHERE name = 'submit:1'",
        "UPDATE keys SET digest = 'abc' WHERE name = 'submit:1'",
        "UPDATE large SET data = 'abc'",
        "UPDATE large SET data = CAST(x'ff' AS TEXT)",
        "UPDATE events SET content = zeroblob(3) WHERE large",
        "UPDATE head SET range = 'abc'",
        "UPDATE head SET position = 'abc'",
        "UPDATE head SET epoch = 'abc'",
        "DELETE FROM head",
        "DELETE FROM streams WHERE name = 'run/0'",
        "DELETE FROM journal",
        "UPDATE journal SET id = 'abc'",
        "DROP TABLE keys",
    ],
)
async def test_whatever_is_put_into_the_tables_errors_are_typed(statement: str, path: Path) -> None:
    damage(path, "PRAGMA ignore_check_constraints = ON", statement)
    with pytest.raises(JournalError):
        await use(path)


async def test_a_damaged_snapshot_is_dropped(path: Path) -> None:
    damage(path, "UPDATE snapshots SET state = CAST(x'ff' AS TEXT)")
    async with Journal.open(path) as journal:
        assert await journal.load_snapshot("run/0", "code") is None
        await journal.save_snapshot("run/0", 3, "code", b"state")
        assert await journal.load_snapshot("run/0", "code") == (3, b"state")


async def test_a_journal_of_a_newer_format_is_not_opened(path: Path) -> None:
    damage(path, "UPDATE journal SET format = 2")
    with pytest.raises(NotAJournal, match="format 2"):
        await use(path)


def test_a_log_whose_file_is_gone_is_kept(tmp_path: Path) -> None:
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    log.write_bytes(b"what is left")
    with pytest.raises(JournalCorrupt, match=r"a\.db-wal is there"):
        trio.run(use, path)
    assert log.read_bytes() == b"what is left"
    assert not path.exists() or not path.stat().st_size


async def test_a_key_that_leads_to_other_records_is_corrupt(path: Path) -> None:
    damage(path, "UPDATE keys SET first = 1, last = 1000000 WHERE name = 'submit:1'")
    async with Journal.open(path, registry=REGISTRY) as journal:
        with pytest.raises(JournalCorrupt, match="submit:1"):
            await journal.find("submit:1")


async def use(path: Path) -> Sequence[object]:
    """All that can be read, verified, and written."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        found = await journal.verify()
        if not found.ok:
            raise JournalCorrupt("verified")
        records: list[Record] = [record async for record in journal.read_all()]
        seen: list[object] = [found.root, [journal.registry.decode(record) for record in records]]
        for stream in ("run/0", "run/1", "big"):
            seen += [await journal.head(stream), [record.leaf async for record in journal.read(stream)]]
        seen += [[head async for head in journal.streams(label="running")], await journal.next_wake(after=0)]
        for number in range(6):
            committed = await journal.find(f"submit:{number}")
            seen.append(committed and committed.records)
        async with journal.drive("other") as fence:
            await journal.append("run/0", [Step(6)], expected=6, fence=fence, key=Key("submit:6", b"d"))
        return seen


def put(path: Path, content: bytes) -> None:
    """The file, and nothing beside it."""
    for left in path.parent.iterdir():
        left.unlink()
    path.write_bytes(content)


def test_a_flipped_byte_is_refused_or_found_or_changes_nothing_that_is_read(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    whole = path.read_bytes()
    true = trio.run(use, path)
    outcomes: list[JournalError | None] = []
    used = [at for at, byte in enumerate(whole) if byte and byte != ord("x")]
    for at in used[::47]:
        put(path, whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert trio.run(use, path) == true
            outcomes.append(None)
        except JournalError as error:
            outcomes.append(error)
    told = [str(error) for error in outcomes if error is not None]
    assert not any(SECRET in message for message in told)
    assert len(told) > len(outcomes) / 2


def test_pages_that_were_swapped_are_found_and_lead_nobody_in_circles(tmp_path: Path) -> None:
    async def make() -> None:
        async with Journal.open(tmp_path / "b.db", registry=REGISTRY) as journal:
            for number in range(60):
                await journal.append(f"s{number}", [Note(value, "y" * 300) for value in range(10)])

    async def read_all() -> None:
        async with Journal.open(tmp_path / "b.db", registry=REGISTRY, read_only=True) as journal:
            assert not (await journal.verify()).ok
            with suppress(JournalCorrupt):
                assert len([record async for record in journal.read_all()]) < 2000
            with suppress(JournalCorrupt):
                assert len([head async for head in journal.streams()]) < 2000

    trio.run(make)
    whole = (tmp_path / "b.db").read_bytes()
    pages = [whole[at : at + 4096] for at in range(0, len(whole), 4096)]
    leaves = [number for number, page in enumerate(pages) if b"note.added" in page]
    for left, right in zip(leaves[::9], reversed(leaves), strict=False):
        swapped = list(pages)
        swapped[left], swapped[right] = pages[right], pages[left]
        put(tmp_path / "b.db", b"".join(swapped))
        trio.run(read_all)
