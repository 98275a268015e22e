"""Reading evidence: what is missing or was changed is met where it is read, and what is good before it is given."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.audit.tampering import tampered
from tests.journal.notes import REGISTRY, Note

from trouper_journal import Damaged, Journal, JournalCorrupt, Record, RecordDamaged, UnknownEvent, Write

LENGTH = 40


async def write(path: Path) -> None:
    """Two streams in turns; one large value."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        for number in range(1, LENGTH + 1):
            text = "x" * 40_000 if number == 20 else "text"
            await journal.commit([Write("ab"[number % 2], [Note(number, text)], label="noted")])


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    await write(path := tmp_path / "j.db")
    return path


async def read(path: Path, stream: str | None = None) -> tuple[list[Record], JournalCorrupt | None]:
    """What is given, and what ends it."""
    good: list[Record] = []
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        try:
            async for record in journal.read_all() if stream is None else journal.read(stream):
                good.append(record)
        except JournalCorrupt as error:
            return good, error
    return good, None


async def read_past(path: Path, stream: str | None = None) -> tuple[list[Record], list[Damaged]]:
    """What is given, and what is told of."""
    told: list[Damaged] = []
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        past = journal.past_damage(told.append)
        given = (
            [record async for record in past.read_all()]
            if stream is None
            else [record async for record in past.read(stream)]
        )
    return given, told


def places(records: Sequence[Record]) -> list[int]:
    return [record.position for record in records if not isinstance(record, Damaged)]


async def test_what_is_good_is_given_and_then_the_first_bad_position(journal: Path) -> None:
    assert (len((await read(journal))[0]), (await read(journal))[1]) == (LENGTH, None)
    tampered(journal, "DELETE FROM events WHERE position IN (7, 8, 9)")
    good, error = await read(journal)
    assert error is not None
    assert (places(good), error.position) == ([1, 2, 3, 4, 5, 6], 7)
    # Stream b has the odd positions; what it lacks are 7 and 9.
    good, error = await read(journal, "b")
    assert error is not None
    assert (places(good), error.position) == ([1, 3, 5], 7)
    assert "versions 4 to 5 of b are missing" in str(error)


async def test_a_marker_stands_for_all_that_are_missing_in_a_row(journal: Path) -> None:
    tampered(journal, "DELETE FROM events WHERE position IN (7, 8, 9)")
    given, (told,) = await read_past(journal)
    assert places(given) == [1, 2, 3, 4, 5, 6, *range(10, LENGTH + 1)]
    assert (told.first, told.position, given[6]) == (7, 9, told)
    with pytest.raises(RecordDamaged, match="position 7: the records up to position 9 are missing") as caught:
        REGISTRY.decode(told)
    assert isinstance(caught.value, UnknownEvent)


@pytest.mark.parametrize("stream", [None, "a"])
async def test_a_missing_end_is_missed(journal: Path, stream: str | None) -> None:
    tampered(journal, f"DELETE FROM events WHERE position = {LENGTH}")
    good, error = await read(journal, stream)
    assert error is not None
    assert (good[-1].position, error.position) == (LENGTH - (1 if stream is None else 2), LENGTH)
    _, (told,) = await read_past(journal, stream)
    assert (told.first, told.position) == (LENGTH, LENGTH)


async def test_a_page_of_a_stream_is_whole_or_an_error(journal: Path) -> None:
    """Whoever folds a stream page by page takes one that comes short for the last."""
    tampered(journal, "UPDATE events SET facts = x'80' WHERE position = 8")
    async with Journal.open(journal, registry=REGISTRY, read_only=True) as opened:
        assert places(await opened.read_page("a", limit=3)) == [2, 4, 6]
        with pytest.raises(JournalCorrupt, match="position 8"):
            await opened.read_page("a", limit=4)
        with pytest.raises(JournalCorrupt, match="position 8"):
            await opened.read_page("a", limit=100)
        assert len(await opened.read_page("b", limit=100)) == LENGTH // 2


@pytest.mark.parametrize("bad", [2, 14, 18, 22, 30, LENGTH])
async def test_a_page_is_not_cut_where_the_storage_cannot_read_on(journal: Path, bad: int) -> None:
    """However much of it has to be read in parts: none may be left out between what is given and the bad record."""
    tampered(journal, "UPDATE events SET type = CAST(x'ff6f' AS TEXT) WHERE position = ?", bad)
    async with Journal.open(journal, registry=REGISTRY, read_only=True) as opened:
        with pytest.raises(JournalCorrupt, match=f"position {bad}: "):
            await opened.read_page("a", limit=LENGTH)
        told: list[Damaged] = []
        page = await opened.past_damage(told.append).read_page("a", limit=LENGTH)
        assert ([record.version for record in page], len(told)) == (list(range(1, LENGTH // 2 + 1)), 1)


async def test_a_missing_record_is_named_by_its_own_place(journal: Path) -> None:
    """And not by that of another stream's damage before it."""
    tampered(journal, "UPDATE events SET facts = x'80' WHERE position = 3")
    tampered(journal, "DELETE FROM events WHERE position IN (20, 40)")
    good, error = await read(journal, "a")
    assert error is not None
    assert (places(good), error.position) == (list(range(2, 20, 2)), 20)
    _, told = await read_past(journal, "a")
    assert [each.first for each in told] == [20, 40]
    async with Journal.open(journal, registry=REGISTRY, read_only=True) as opened:
        with pytest.raises(JournalCorrupt, match="position 40: "):
            await opened.read_page("a", after=LENGTH // 2 - 1)


async def test_a_tail_ends_where_the_journal_is_damaged(journal: Path) -> None:
    tampered(journal, "DELETE FROM events WHERE position = 8")
    async with Journal.open(journal, registry=REGISTRY, read_only=True) as opened:
        tail = opened.tail(after=5)
        assert [(await anext(tail)).position for _ in range(2)] == [6, 7]
        with pytest.raises(JournalCorrupt, match="position 8: the record is missing"):
            await anext(tail)


async def test_a_large_value_that_is_another_is_damage(journal: Path) -> None:
    tampered(journal, "UPDATE large SET data = zeroblob(length(data))")
    good, error = await read(journal)
    assert error is not None
    assert (len(good), error.position) == (19, 20)
    given, (told,) = await read_past(journal)
    assert (len(given), told.position, "does not have its digest" in told.problem) == (LENGTH, 20, True)
    tampered(journal, "DELETE FROM large")
    _, error = await read(journal)
    assert error is not None
    assert "position 20: the large value" in str(error)


async def test_streams_that_the_index_has_lost_are_missed(journal: Path) -> None:
    tampered(journal, "DELETE FROM streams WHERE name = 'a'")
    async with Journal.open(journal, registry=REGISTRY, read_only=True) as opened:
        with pytest.raises(JournalCorrupt, match="position 2: the record's stream is missing from the index"):
            [head async for head in opened.streams()]
        told: list[Damaged] = []
        assert [head.stream async for head in opened.past_damage(told.append).streams()] == ["b"]
        assert [each.first for each in told] == [2]


async def test_a_snapshot_is_no_evidence(journal: Path) -> None:
    async with Journal.open(journal, registry=REGISTRY) as opened:
        await opened.save_snapshot("a", LENGTH // 2, "code", b"state")
        assert await opened.load_snapshot("a", "code") == (LENGTH // 2, b"state")
    async with Journal.open(journal, registry=REGISTRY, read_only=True) as opened:
        # What was made of the records is believed where nobody else can have made it.
        assert await opened.reading.load_snapshot("a") is None


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flipped")


CELLS = [
    "version",
    "type",
    "schema",
    "recorded_at",
    "key",
    "label",
    "wake_at",
    "key_id",
    "meta",
    "facts",
    "content",
    "leaf",
]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, LENGTH), st.sampled_from(CELLS), st.integers(0), st.integers(1, 255))
async def test_every_changed_cell_is_met(copies: Path, position: int, column: str, at: int, mask: int) -> None:
    if not (source := copies / "source.db").exists():
        await write(source)
    shutil.copy(source, path := copies / "j.db")
    with closing(sqlite3.connect(path)) as database:
        (before,) = database.execute(f"SELECT {column} FROM events WHERE position = {position}").fetchone()
    match before:
        case int():
            after: object = before ^ mask
        case bytes() if before:
            after = bytes(
                [*before[: at % len(before)], before[at % len(before)] ^ mask, *before[at % len(before) + 1 :]]
            )
        case str():
            after = f"{before}x"
        case _:
            after = mask if column == "wake_at" else b"x" if column == "content" else "x"
    try:
        tampered(path, f"UPDATE events SET {column} = ? WHERE position = ?", after, position)
    except sqlite3.IntegrityError:
        return  # another record of the stream has that version
    good, error = await read(path)
    assert error is not None
    assert (places(good), error.position) == (list(range(1, position)), position)
    stream = "ab"[position % 2]
    good, error = await read(path, stream)
    assert error is not None
    assert (error.position, places(good)) == (position, list(range(1 + (stream == "a"), position, 2)))
    given_, told = await read_past(path)
    assert ({each.position for each in told}, len(given_)) == ({position}, LENGTH)
