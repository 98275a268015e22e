"""Whatever was done to a journal: a replay ends with findings or one typed error, and never writes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import aclosing, closing, suppress
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.cli.program import called, complaint
from tests.golden.found import FOLDER

from trouper.audit import StreamReplay, replay_streams
from trouper.errors import JournalError

GOLDEN = FOLDER / "runs-1.db"
SIZE = GOLDEN.stat().st_size


def replayed(path: Path) -> list[StreamReplay]:
    async def main() -> list[StreamReplay]:
        async with aclosing(replay_streams(path, jobs=1)) as results:
            return [each async for each in results]

    return trio.run(main)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture
def unlocked(folder: Path) -> Iterator[Path]:
    """A journal whose rows can be changed: a transaction undoes it."""
    path = Path(shutil.copy(GOLDEN, folder / "rows.db"))
    with closing(sqlite3.connect(path)) as database, database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
    yield path
    path.unlink()


RECORDS = 1012

COLUMNS = st.sampled_from(["facts", "content", "meta", "type", "schema", "version", "key_id", "recorded_at", "label"])
CELLS = st.none() | st.integers(-3, 2**62) | st.text(max_size=5) | st.binary(max_size=20)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, RECORDS), st.sampled_from(["facts", "content"]), st.integers(0)), max_size=4))
def test_flipped_bytes_in_records_are_findings_or_do_no_harm(unlocked: Path, flips: list[tuple[int, str, int]]) -> None:
    with closing(sqlite3.connect(unlocked)) as database:
        before: list[tuple[str, int, object]] = []
        with database:
            for position, column, at in flips:
                (cell,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
                if not cell:
                    continue
                before.append((column, position, cell))
                changed = bytearray(cell)
                changed[at % len(cell)] ^= 1 << at % 8
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (bytes(changed), position))
        found = replayed(unlocked)
        with database:
            for column, position, cell in reversed(before):
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (cell, position))
    assert sum(each.records for each in found) <= RECORDS
    assert {each.problem.kind for each in found if each.problem} <= {
        "step", "history", "unknown", "corrupt", "fold", "definition", "promise"
    }  # fmt: skip


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, RECORDS), COLUMNS, CELLS)
@example(5, "schema", None)
@example(5, "version", "x")
def test_any_cell_in_any_column_is_a_finding_or_one_error(
    unlocked: Path, position: int, column: str, cell: object
) -> None:
    with closing(sqlite3.connect(unlocked)) as database:
        (before,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
        with database:
            try:
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (cell, position))
            except sqlite3.IntegrityError:
                return
        with suppress(JournalError):
            assert replayed(unlocked)
        with database:
            database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (before, position))


@settings(max_examples=40)
@given(st.integers(0, SIZE - 1), st.integers(0, 7), st.booleans())
@example(0, 0, True)
@example(100, 0, True)
@example(4096, 0, True)
def test_a_file_that_is_cut_or_has_a_flipped_bit_is_one_clear_error_or_findings(
    folder: Path, at: int, bit: int, cut: bool
) -> None:
    whole = bytearray(GOLDEN.read_bytes())
    if cut:
        del whole[at:]
    else:
        whole[at] ^= 1 << bit
    (path := folder / "file.db").write_bytes(whole)
    for command in ("replay", "spend"):
        done = called(command, path)
        assert done.returncode in {0, 1, 5}, (done.returncode, done.stderr)
        if done.returncode == 5:
            assert complaint(done)
    assert path.read_bytes() == whole
    assert list(folder.glob("file.db?*")) == []


def test_evidence_stays_as_it_is_without_any_permission_to_write(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN, tmp_path / "evidence.db"))
    before = path.read_bytes(), os.stat(path).st_mtime_ns, os.stat(tmp_path).st_mtime_ns
    path.chmod(stat.S_IRUSR)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        commands: list[list[str | Path]] = [["replay", path], ["replay", path, "--jobs", "2"], ["spend", path]]
        for arguments in commands:
            assert called(*arguments).returncode == 0
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert (path.read_bytes(), os.stat(path).st_mtime_ns, os.stat(tmp_path).st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [path]
