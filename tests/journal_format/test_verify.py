"""Verification finds what somebody with write access to the file can do to it, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from tests.journal_format.sample import REGISTRY, Counted, Noted

from trouper_journal import Journal, Key, MemoryStore, StreamHead, Verification, Write, verify
from trouper_journal._verify import MAX_PROBLEMS, PAGE

BIG = "x" * 40_000


async def fill(journal: Journal) -> None:
    """Eight records in three streams, under two keys, with a large value."""
    async with journal.drive("test") as fence:
        await journal.commit(
            [Write("a", [Noted("1"), Noted("2")], label="open", wake_at=5), Write("b", [Noted("3")])],
            key=Key("submit:1", b"d"),
            fence=fence,
        )
        await journal.append("a", [Counted(4), Noted("5")], expected=2, fence=fence, meta={"cause": 1})
        await journal.append("c", [Noted(BIG, other=BIG)], key=Key("submit:2", b"d"), label="closed", fence=fence)
        await journal.append("a", [Noted("7"), Noted("8")], label="closed", fence=fence)


async def checked(path: Path) -> Verification:
    async with Journal.open(path) as journal:
        return await journal.verify()


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    async with Journal.open(path, registry=REGISTRY) as journal:
        await fill(journal)
    return path


def damage(path: Path, *statements: str) -> None:
    """Change the file around the triggers that refuse it."""
    database = sqlite3.connect(path)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert database.execute(statement).rowcount > 0
    database.commit()
    database.close()


async def test_an_untouched_journal_is_self_consistent(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with Journal.open(path) as journal:
        found = await journal.verify(lambda done, total: seen.append((done, total)))
        head = (await journal.store.load([], [])).head
    assert found.ok
    assert found.problems == ()
    assert found.grade == "self-consistent"
    assert (found.records, found.streams, found.values) == (8, 3, 1)
    assert head.position == 8
    assert seen == [(8, 8)]


async def test_a_journal_without_records_is_self_consistent(tmp_path: Path) -> None:
    found = await checked(tmp_path / "empty.db")
    assert found.ok
    assert found.records == 0


LEAF_4 = {("leaf", 4), ("head", None)}


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        # Each column that the leaf covers.
        ("UPDATE events SET facts = x'81a5636f756e7405' WHERE position = 4", LEAF_4),
        ("UPDATE events SET content = x'00' WHERE position = 4", {*LEAF_4, ("encoding", 4)}),
        ("UPDATE events SET meta = x'' WHERE position = 4", LEAF_4),
        ("UPDATE events SET meta = x'c1' WHERE position = 4", {*LEAF_4, ("encoding", 4)}),
        ("UPDATE events SET type = 'sample.noted' WHERE position = 4", LEAF_4),
        ("UPDATE events SET schema = 2 WHERE position = 4", LEAF_4),
        ("UPDATE events SET recorded_at = recorded_at + 1 WHERE position = 4", LEAF_4),
        ("UPDATE events SET key_id = 'k' WHERE position = 4", LEAF_4),
        ("UPDATE events SET key = 'other' WHERE position = 4", {*LEAF_4, ("key", 4)}),
        ("UPDATE events SET label = 'other' WHERE position = 4", LEAF_4),
        ("UPDATE events SET label = 'other' WHERE position = 7", {("leaf", 7), ("head", None)}),
        ("UPDATE events SET wake_at = 0 WHERE position = 4", LEAF_4),
        ("UPDATE events SET version = 9 WHERE position = 4", {*LEAF_4, ("version", 4), ("version", 5)}),
        (
            "UPDATE events SET stream_id = 3 WHERE position = 4",
            {*LEAF_4, ("version", 4), ("version", 5), ("stream", 4)},
        ),
        # The leaf itself, and values of the wrong type.
        ("UPDATE events SET leaf = zeroblob(32) WHERE position = 4", {("leaf", 4)}),
        ("UPDATE events SET facts = 'text' WHERE position = 4", {*LEAF_4, ("encoding", 4)}),
        ("UPDATE events SET schema = -1 WHERE position = 4", LEAF_4),
        ("UPDATE events SET type = x'00' WHERE position = 4", LEAF_4),
        # Records that are gone.
        ("DELETE FROM events WHERE position = 4", {("position", 5), ("version", 5), ("head", None)}),
        ("DELETE FROM events WHERE position = 8", {("head", 8), ("stream", 7)}),
        ("DELETE FROM events WHERE stream_id = 3", {("position", 4), ("key", 1), ("stream", None), ("head", None)}),
        # The head.
        ("UPDATE head SET position = 7", {("head", None), ("position", 8)}),
        ("UPDATE head SET position = 9", {("head", 9)}),
        ("UPDATE head SET range = x'00'", {("head", None)}),
        ("UPDATE head SET range = zeroblob(8)", {("head", None)}),
        # The indexes.
        ("UPDATE streams SET version = 5 WHERE name = 'a'", {("stream", 8)}),
        ("UPDATE streams SET position = 7 WHERE name = 'a'", {("stream", 8)}),
        ("UPDATE streams SET label = 'open' WHERE name = 'a'", {("stream", 8)}),
        ("UPDATE streams SET wake_at = 1 WHERE name = 'a'", {("stream", 8)}),
        ("INSERT INTO streams VALUES (99, 'ghost', 1, 1, NULL, NULL)", {("stream", None)}),
        ("DELETE FROM keys WHERE name = 'submit:1'", {("key", 1)}),
        ("UPDATE keys SET last = 4 WHERE name = 'submit:1'", {("key", 1)}),
        ("UPDATE keys SET first = 7, last = 7 WHERE name = 'submit:2'", {("key", 6)}),
        # Large values.
        ("DELETE FROM large", {("value", 6)}),
        ("UPDATE large SET data = zeroblob(length(data))", {("value", 6)}),
        ("UPDATE large SET data = CAST(data || x'00' AS BLOB)", {("value", 6)}),
        ("UPDATE events SET large = 1 WHERE position = 6", {("value", 6)}),
        ("UPDATE events SET large = NULL WHERE position = 6", {("encoding", 6)}),
        ("UPDATE events SET large = 1 WHERE position = 1", {("value", 1)}),
    ],
)
async def test_each_change_is_found(path: Path, statement: str, found: set[tuple[str, int | None]]) -> None:
    damage(path, statement)
    result = await checked(path)
    assert not result.ok
    assert result.grade == "inconsistent"
    noted = {(problem.kind, problem.position) for problem in result.problems}
    assert noted >= found
    # What follows from the change may be noted beside it; what it leaves whole may not.
    assert {kind for kind, _ in noted} <= {kind for kind, _ in found} | {"stream"}


async def test_two_records_that_changed_places_are_found(path: Path) -> None:
    damage(
        path,
        "UPDATE events SET position = 99 WHERE position = 4",
        "UPDATE events SET position = 4 WHERE position = 5",
        "UPDATE events SET position = 5 WHERE position = 99",
    )
    kinds = [problem.kind for problem in (await checked(path)).problems]
    assert {"leaf", "version", "head"} <= set(kinds)


async def test_a_journal_that_is_rewritten_whole_agrees_with_itself_and_has_another_root(
    path: Path, tmp_path: Path
) -> None:
    """What the grade does not promise: only a root kept elsewhere tells a forged journal from the true one."""
    async with Journal.open(tmp_path / "forged.db", registry=REGISTRY) as journal:
        await fill(journal)
    true, forged = await checked(path), await checked(tmp_path / "forged.db")
    assert true.ok
    assert forged.ok
    assert true.root != forged.root


async def test_damage_that_sqlite_reports_is_a_problem(path: Path) -> None:
    database = sqlite3.connect(path)
    page = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()[0]
    size = database.execute("PRAGMA page_size").fetchone()[0]
    database.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    result = await checked(path)
    assert not result.ok
    assert result.records == 0
    assert {problem.kind for problem in result.problems} == {"unreadable", "head", "stream"}


async def test_many_problems_are_counted_and_the_first_described(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append("a", [Noted(str(number)) for number in range(PAGE + 50)])
    damage(path, "UPDATE events SET leaf = zeroblob(32)")
    result = await checked(path)
    assert result.records == PAGE + 50
    assert len(result.problems) == MAX_PROBLEMS
    assert result.found == PAGE + 50


async def test_a_key_whose_records_cross_a_page_is_one_span() -> None:
    async with Journal.open(registry=REGISTRY) as journal:
        await journal.append("a", [Noted(str(number)) for number in range(PAGE - 1)])
        await journal.append("b", [Noted("1"), Noted("2"), Noted("3")], key=Key("submit:1", b"d"))
        seen: list[tuple[int, int]] = []
        result = await journal.verify(lambda done, total: seen.append((done, total)))
    assert result.ok, result.problems
    assert seen == [(PAGE, PAGE + 2), (PAGE + 2, PAGE + 2)]


class BusyStore(MemoryStore):
    """A memory store in which somebody appends just before the index of streams is read."""

    journal: Journal | None = None

    async def streams(
        self, *, label: str | None, prefix: str, wake_before: int | None, after: str, limit: int
    ) -> Sequence[StreamHead]:
        if self.journal is not None:
            await self.journal.append("a", [Noted("more")], label="moved")
            await self.journal.append("new", [Noted("more")])
        return await super().streams(label=label, prefix=prefix, wake_before=wake_before, after=after, limit=limit)


async def test_commits_made_meanwhile_do_no_harm() -> None:
    store = BusyStore(bytes(16))
    async with Journal.over(store, registry=REGISTRY) as journal:
        await fill(journal)
        store.journal = journal
        result = await verify(store)
        assert result.ok, result.problems
        assert result.records == 8
        store.journal = None
        assert (await verify(store)).records == await journal.position()


async def test_verifying_can_be_cancelled(path: Path) -> None:
    async with Journal.open(path) as journal:
        with trio.CancelScope() as scope:
            scope.cancel()
            await journal.verify()
        assert scope.cancelled_caught
        assert (await journal.verify()).ok
