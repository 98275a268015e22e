"""The quick ways of ``verify`` (rows as they are, worker processes) find what the thorough one finds."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trouper_journal import Content, EventRegistry, Journal, Key, Store, Verification, Write, event
from trouper_journal import _verify_chunks as chunks
from trouper_journal._workers import Worker, start_workers


@event("test.said")
@frozen
class Said:
    number: int
    text: Content[str] = ""


REGISTRY = EventRegistry([Said])
STREAMS = 7


class Unscanned:
    """A store whose rows cannot be looked at as they are, so that each record is checked by itself."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        if name == "source":
            raise AttributeError(name)
        return getattr(self._store, name)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CHUNK", 16), ("_FEW", 8), ("_STREAMS", 2), ("_WORTH_IT", 0)):
        monkeypatch.setattr(chunks, name, value)


async def write(path: Path) -> None:
    """103 records: keys over one, three and thirty of them, and large values, one of them twice."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        for number in range(23):
            writes = [
                Write(f"s/{(number + each) % STREAMS}", [Said(number, "x" * 5)], label=f"l{each}") for each in range(3)
            ]
            await journal.commit(writes, key=Key(f"k{number}", b"d") if number % 2 else None)
        await journal.append("s/0", [Said(number) for number in range(30)], key=Key("many", b"d"))
        for text in ("a", "a", "b"):
            await journal.append("s/1", [Said(0, text * 40_000)])
        await journal.append("s/end", [Said(1)])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trio.run(write, path := tmp_path_factory.mktemp("verify") / "j.db")
    return path


async def found(path: Path, *, jobs: int = 1, thorough: bool = False, sizes: tuple[int, ...] = ()) -> Verification:
    def wrap(store: Store) -> Store:
        return Unscanned(store)  # type: ignore[return-value]

    async with Journal.open(path, read_only=True, wrap=wrap if thorough else None) as journal:
        verification = await journal.verify(jobs=jobs, sizes=sizes)
    # Pages end at other places, and with each page its keys are looked up.
    return evolve(verification, problems=tuple(sorted(verification.problems, key=repr)))


@pytest.mark.parametrize("jobs", [1, 2])
async def test_a_good_journal_is_found_good(original: Path, jobs: int) -> None:
    sizes = (0, 1, 8, 9, 16, 40, 103, 104)
    expected = await found(original, thorough=True, sizes=sizes)
    assert (expected.grade, expected.records, expected.streams, expected.values) == ("self-consistent", 103, 8, 2)
    assert sorted(expected.roots) == [0, 1, 8, 9, 16, 40, 103]
    assert await found(original, jobs=jobs, sizes=sizes) == expected


DAMAGE = [
    "UPDATE events SET facts = facts || x'00' WHERE position = 50",
    "UPDATE events SET leaf = x'00' WHERE position IN (3, 103)",
    "DELETE FROM events WHERE position = 40",
    "DELETE FROM events WHERE position BETWEEN 33 AND 48",
    "DELETE FROM events WHERE position > 90",
    "DELETE FROM streams WHERE name = 's/2'",
    "UPDATE streams SET name = CAST(x'ff' AS TEXT) WHERE name = 's/2'",
    "UPDATE streams SET version = version + 1 WHERE name = 's/3'",
    "UPDATE events SET stream_id = (SELECT id FROM streams WHERE name = 's/end') WHERE position = 17",
    "UPDATE events SET version = 'two' WHERE position = 20",
    "DELETE FROM large WHERE rowid = 1",
    "UPDATE large SET data = x'00' WHERE rowid = 2",
    "DELETE FROM keys WHERE name = 'k3'",
    "UPDATE keys SET last = last + 1 WHERE name = 'many'",
    "UPDATE head SET position = 110",
    "UPDATE head SET position = 1152921504606846976",
    "UPDATE head SET range = x''",
]


COLUMNS = ["stream_id", "version", "type", "schema", "recorded_at", "key", "label", "wake_at", "key_id",
           "meta", "facts", "content", "leaf", "large"]  # fmt: skip


def damaged(original: Path, path: Path, *statements: str) -> None:
    shutil.copy(original, path)
    with sqlite3.connect(path) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
    database.close()


@pytest.mark.parametrize("statement", DAMAGE)
async def test_all_ways_find_the_same_damage(original: Path, tmp_path: Path, statement: str) -> None:
    damaged(original, path := tmp_path / "j.db", statement)
    expected = await found(path, thorough=True)
    assert not expected.ok
    assert await found(path) == expected
    if statement in DAMAGE[::3]:
        assert await found(path, jobs=2) == expected


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 103),
    st.sampled_from(COLUMNS),
    st.integers(0, 10_000),
)
def test_a_changed_cell_is_found_and_described_alike(
    original: Path, tmp_path: Path, position: int, column: str, where: int
) -> None:
    path = tmp_path / "j.db"
    damaged(original, path)
    change(path, position, column, where)
    expected = trio.run(lambda: found(path, thorough=True))
    assert not expected.ok
    assert trio.run(lambda: found(path)) == expected
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def change(path: Path, position: int, column: str, where: int) -> None:
    """Change one cell: a bit of bytes, a letter of a text, a number."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        (old,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
        new: object
        if isinstance(old, bytes) and old:
            at = where % len(old)
            new = old[:at] + bytes([old[at] ^ 1 << where % 8]) + old[at + 1 :]
        elif isinstance(old, str):
            new = old + "x"
        elif isinstance(old, int):
            new = old + 1 + where
        else:
            new = {"content": b"\x00", "meta": b"\x80", "facts": b"\x80"}.get(column, 1)
        database.execute(f"UPDATE OR IGNORE events SET {column} = ? WHERE position = ?", (new, position))
        if not database.execute("SELECT changes()").fetchone()[0]:
            database.execute("UPDATE events SET schema = schema + 1 WHERE position = ?", (position,))
    database.close()


async def test_progress_is_told_up_to_the_end(original: Path) -> None:
    told: list[tuple[int, int]] = []
    note: Callable[[int, int], None] = lambda done, total: told.append((done, total))  # noqa: E731
    async with Journal.open(original, read_only=True) as journal:
        await journal.verify(note, jobs=2)
    assert told == [(min(done + 16, 103), 103) for done in range(0, 103, 16)]


async def test_a_journal_that_is_being_written_to_is_verified_over_cores(tmp_path: Path) -> None:
    await write(path := tmp_path / "j.db")
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append("s/0", [Said(2)])
        found = await journal.verify(jobs=2)
        assert (found.ok, found.records) == (True, 104)


async def test_a_journal_in_memory_has_but_one_way() -> None:
    async with Journal.open(registry=REGISTRY) as journal:
        await journal.append("s", [Said(1, "a")])
        assert (await journal.verify(jobs=8)).ok


async def test_cancelled_no_worker_process_is_left(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Worker] = []

    @asynccontextmanager
    async def recording(module: str, arguments: Sequence[str], number: int) -> AsyncIterator[Sequence[Worker]]:
        async with start_workers(module, arguments, number) as workers:
            started.extend(workers)
            yield workers

    monkeypatch.setattr(chunks, "start_workers", recording)
    with trio.CancelScope() as scope:
        async with Journal.open(original, read_only=True) as journal:
            await journal.verify(lambda _done, _total: scope.cancel(), jobs=2)
    assert scope.cancelled_caught
    assert [worker.process.returncode is None for worker in started] == [False, False]


SAME = {("content", None, b""), ("content", b"", None), ("large", None, 0), ("large", 0, None)}
"""Ways to say that there is nothing, of which readers make the same."""


@pytest.mark.parametrize("column", COLUMNS)
async def test_nothing_of_another_kind_is_found_where_there_is_nothing(
    original: Path, tmp_path: Path, column: str
) -> None:
    """Empty texts, empty bytes, zeros and nulls are easily taken for each other."""
    damaged(original, path := tmp_path / "j.db")
    changed = 0
    for position in (1, 4, 100):
        for new in (0, 0.5, "", b"", None):
            with sqlite3.connect(path) as database:
                database.execute("PRAGMA foreign_keys = OFF")
                (old,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
                database.execute(f"UPDATE OR IGNORE events SET {column} = ? WHERE position = ?", (new, position))
                (now,) = database.execute(f"SELECT {column} FROM events WHERE position = ?", (position,)).fetchone()
            if (type(now), now) != (type(old), old) and (column, old, now) not in SAME:
                changed += 1
                assert not (await found(path)).ok, (position, new)
                assert not (await found(path, thorough=True)).ok, (position, new)
            with sqlite3.connect(path) as database:
                database.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (old, position))
            database.close()
    assert changed >= 6
    assert (await found(path)).ok


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO keys VALUES ('submit:forged', x'00', 1, 2)", [("submit:forged", 1)]),
        ("INSERT INTO keys VALUES ('a', x'00', 1, 2), ('b', x'00', 5, 5)", [("a", 1), ("b", 5)]),
        ("INSERT INTO keys VALUES ('submit:forged', x'00', 104, 104)", [("submit:forged", 104)]),
        (f"INSERT INTO keys VALUES ('a', x'00', {2**62}, {2**62})", [("a", 2**62)]),
        ("INSERT INTO keys VALUES ('submit:forged', x'00', 'x', 2)", [("submit:forged", None)]),
        ("INSERT INTO keys VALUES (NULL, x'00', 1, 2)", [("", 1)]),
        ("INSERT INTO keys VALUES (x'ff', x'00', 1, 2)", [("\\xff", 1)]),
        ("INSERT INTO keys (rowid, name, digest, first, last) VALUES (-5, 'a', x'', 1, 1)", [("a", 1)]),
        (f"INSERT INTO keys (rowid, name, digest, first, last) VALUES ({2**63 - 1}, 'a', x'', 1, 1)", [("a", 1)]),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
async def test_a_key_that_no_record_has_is_found(
    original: Path, tmp_path: Path, statement: str, told: list[tuple[str, int | None]], jobs: int
) -> None:
    damaged(original, path := tmp_path / "j.db", statement)
    problems = (await found(path, jobs=jobs)).problems
    assert [(each.kind, each.position, each.message) for each in problems] == [
        ("key", first, f"the index says that the key {name} begins at {first}, where no record has it")
        for name, first in told
    ]
