"""Whatever was done to a journal: a replay ends with findings or one typed error, and never writes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import aclosing, closing
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.cli.program import called, complaint
from tests.golden.found import FOLDER

from trouper.audit import StreamReplay, replay_streams
from trouper.errors import JournalError
from trouper_journal import Journal, Record

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


async def read(path: Path) -> list[Record]:
    async with Journal.open(path, read_only=True) as journal:
        return [record async for record in journal.read_all()]


RECORDED = trio.run(read, GOLDEN)

COLUMNS = st.sampled_from(["facts", "content", "meta", "type", "schema", "version", "key_id", "recorded_at", "label"])
CELLS = st.none() | st.integers(-3, 2**62) | st.text(max_size=5) | st.binary(max_size=20)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(1, RECORDS), st.sampled_from(["facts", "content"]), st.integers(0)),
        max_size=4,
        unique_by=lambda flip: flip[:2],
    )
)
def test_flipped_bytes_in_records_are_findings(unlocked: Path, flips: list[tuple[int, str, int]]) -> None:
    with closing(sqlite3.connect(unlocked)) as database:
        before: list[tuple[str, int, object, str]] = []
        with database:
            for position, column, at in flips:
                query = (
                    f"SELECT e.{column}, s.name FROM events e JOIN streams s ON s.id = e.stream_id WHERE e.position = ?"
                )
                cell, stream = database.execute(query, (position,)).fetchone()
                if not cell:
                    continue
                before.append((column, position, cell, stream))
                changed = bytearray(cell)
                changed[at % len(cell)] ^= 1 << at % 8
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (bytes(changed), position))
        found = replayed(unlocked)
        with database:
            for column, position, cell, _ in before:
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (cell, position))
    firsts: dict[str, int] = {}
    for _, position, _, stream in before:
        firsts[stream] = min(position, firsts.get(stream, position))
    told = {each.stream: each.problem for each in found if each.problem is not None}
    for stream, position in firsts.items():
        if stream in {each.stream for each in found}:
            assert (told[stream].kind, told[stream].position) == ("corrupt", position)
    # Others may start from those, or ask them.
    assert {each.kind for stream, each in told.items() if stream not in firsts} <= {"history", "promise", "kin"}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, RECORDS), COLUMNS, CELLS)
@example(5, "schema", None)
@example(5, "version", "x")
def test_any_cell_in_any_column_is_a_finding_or_one_error(
    unlocked: Path, position: int, column: str, cell: object
) -> None:
    with closing(sqlite3.connect(unlocked)) as database:
        (before,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
        query = "SELECT s.name FROM events e JOIN streams s ON s.id = e.stream_id WHERE e.position = ?"
        (stream,) = database.execute(query, (position,)).fetchone()
        with database:
            try:
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (cell, position))
            except sqlite3.IntegrityError:
                return
        (after,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
        try:
            told = {each.stream: each.problem for each in replayed(unlocked)}
            # A stream of another kind is none that is replayed.
            found = stream not in told or told[stream] is not None
        except JournalError:
            found = True
        with database:
            database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (before, position))
    assert found == ((type(before), before) != (type(after), after)) or stream not in told


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
        elif done.returncode == 0:
            # What was flipped is nothing that a record is made of.
            assert not cut
            assert trio.run(read, path) == RECORDED
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
