"""Archives that somebody damaged or changed: by themselves and beside their journal, nothing of it goes unnoticed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from tests.journal.notes import REGISTRY
from tests.journal.test_archive import archived, fill, opened

from trouper_journal import Journal, JournalCorrupt, JournalError, NotAJournal, StorageUnreadable
from trouper_journal.archive import check_archive, open_archive

UNCOVERED = {
    "archive.id": "says which archive it is; the journal's tombstones name it",
    "archive.created_at": "when it was made is told and not proved",
    "streams.unit": "which streams left together matters only until they have left",
    "large.domain": "in whose domain a value is stored; which record has it, the record says",
}
"""Cells that no digest and no other cell covers, and why that does no harm."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A journal and its archive."""
    path = tmp_path_factory.mktemp("whole") / "a.db"
    trio.run(fill, path)
    trio.run(archived, path, path.with_suffix(".archive"))
    return path, path.with_suffix(".archive")


@pytest.fixture
def pair(whole: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """Copies of them to do something to."""
    for source in whole:
        shutil.copy(source, tmp_path)
    return tmp_path / whole[0].name, tmp_path / whole[1].name


def cells(archive: Path) -> Iterator[tuple[str, str, int]]:
    with closing(sqlite3.connect(archive)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table}").fetchall()]
            for _, column, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                yield from ((table, column, row) for row in rows)


def changed(archive: Path, *statements: str) -> None:
    with closing(sqlite3.connect(archive, isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            database.execute(statement)


def stored(archive: Path, table: str, column: str, row: int) -> object:
    with closing(sqlite3.connect(archive)) as database:
        query = f"SELECT typeof({column}), CAST({column} AS BLOB) FROM {table} WHERE rowid = {row}"
        return database.execute(query).fetchone()


def test_every_cell_of_an_archive_that_is_changed_is_found(whole: tuple[Path, Path], tmp_path: Path) -> None:
    _, archive = whole
    missed = set()
    for table, column, row in cells(archive):
        values = ("NULL", "x'00'", "CAST(x'ff' AS TEXT)", "''", "0", f"{column} + 1", f"{column} || '0'")
        for number, value in enumerate(values):
            copy = tmp_path / "changed.archive"
            shutil.copy(archive, copy)
            before = stored(copy, table, column, row)
            try:
                changed(copy, f"UPDATE {table} SET {column} = {value} WHERE rowid = {row}")
            except sqlite3.IntegrityError:
                continue
            after = stored(copy, table, column, row)
            if after in (before, None) or (
                column == "large" and (before, after) == (("null", None), ("integer", b"0"))
            ):
                continue
            try:
                trio.run(check_archive, copy)
            except JournalError:
                continue
            missed.add((f"{table}.{column}", number))
    assert {name for name, _ in missed} <= set(UNCOVERED), missed


def test_large_values_that_were_taken_away_are_missed(pair: tuple[Path, Path]) -> None:
    _, archive = pair
    changed(archive, "UPDATE events SET large = NULL", "DELETE FROM large")
    with pytest.raises(JournalCorrupt, match="position 3: "):
        trio.run(check_archive, archive)


@pytest.mark.parametrize("position", [2, 3, 5, 6])
async def test_a_record_that_its_archive_lacks_is_damage_and_no_gap(position: int, pair: tuple[Path, Path]) -> None:
    path, archive = pair
    changed(archive, f"DELETE FROM events WHERE position = {position}")
    with pytest.raises(JournalCorrupt):
        await check_archive(archive)
    async with opened(path, archive) as journal:
        found = await journal.verify()
        assert not found.ok
        assert {problem.position for problem in found.problems if problem.kind == "unreadable"} == {position}
        with pytest.raises(JournalCorrupt, match=f"position {position}: .* lacks the record"):
            [record async for record in journal.read_all()]


async def test_what_the_journal_says_of_an_archive_is_held_against_it(pair: tuple[Path, Path]) -> None:
    path, archive = pair
    changed(path, "DROP TRIGGER archives_update", "UPDATE archives SET size = size - 1")
    async with opened(path, archive) as journal:
        (problem,) = (await journal.verify()).problems
    assert problem.kind == "archive"
    assert "was made of 6 records with the root" in problem.message


async def test_keys_that_no_record_has_are_found_with_the_archive_at_hand_too(pair: tuple[Path, Path]) -> None:
    path, archive = pair
    changed(path, "INSERT INTO keys VALUES ('submit:forged', x'00', 8, 8)")
    async with opened(path, archive) as journal:
        assert [problem.kind for problem in (await journal.verify()).problems] == ["key"]


@pytest.mark.parametrize(
    "change", ["content = content || x'00'", "facts = x'80'", "type = 'note.other'", "type = x'ff'", "meta = 7"]
)
async def test_a_changed_record_is_not_told_as_the_true_one(change: str, pair: tuple[Path, Path]) -> None:
    path, archive = pair
    changed(archive, f"UPDATE events SET {change} WHERE position = 2")
    async with opened(path, archive) as journal:
        with pytest.raises(JournalCorrupt):
            [record async for record in journal.read("a")]
        assert (await journal.verify()).problems[0].position == 2


def seen(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_reading_writes_nothing_beside_an_archive_that_another_program_opened(pair: tuple[Path, Path]) -> None:
    path, archive = pair
    changed(archive, "PRAGMA journal_mode = WAL")
    before = seen(archive.parent)
    assert (await check_archive(archive)).records == 4
    async with open_archive(archive) as store, Journal.over(store, registry=REGISTRY) as journal:
        assert len([record async for record in journal.read_all()]) == 4
    async with (
        open_archive(archive) as store,
        Journal.open(path, registry=REGISTRY, read_only=True) as journal,
    ):
        assert (await journal.verify()).ok
    assert seen(archive.parent) == before


async def test_what_is_no_archive_is_named_as_that(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = pair
    for wrong, error in ((tmp_path, NotAJournal), (path, NotAJournal), (tmp_path / "none", StorageUnreadable)):
        with pytest.raises(error):
            await check_archive(wrong)
        with pytest.raises(error):
            async with open_archive(wrong):
                pass
