"""Archives: streams leave for a file of their own, positions and proof stay, and nothing is lost on the way."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.journal.notes import REGISTRY, Note, Step

from trouper_journal import (
    ERASED,
    Archived,
    ArchiveRefused,
    CompactRange,
    Domain,
    Journal,
    JournalCorrupt,
    JournalError,
    Key,
    NotAJournal,
    Record,
    RecordArchived,
    StorageReadOnly,
    Write,
)
from trouper_journal._archive_proof import Gap, Node, root_over
from trouper_journal._merkle import EMPTY_RANGE
from trouper_journal.archive import (
    Moved,
    beside,
    check_archive,
    is_archive,
    move_to_archive,
    open_archive,
    shrink,
    write_archive,
)
from trouper_journal.sealing import MemoryKeyStore

ID = b"an archive's id."
BIG = "b" * 40_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal in which `a` and `c` may leave: keys over several streams, labels, a large value, a snapshot."""
    path = tmp_path / "a.db"
    trio.run(fill, path)
    return path


async def fill(path: Path) -> None:
    domain = Domain("a", b"s" * 32)
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("me") as fence:
        await journal.commit(
            [
                Write("shared", [Note(0)]),
                Write("a", [Note(1, "what was said"), Note(2, BIG)], label="ended", domain=domain),
                Write("b", [Note(3, "three")], label="running", wake_at=7),
            ],
            key=Key("submit:1", b"d"),
            fence=fence,
        )
        await journal.append("c", [Note(4, "four")], label="ended", key=Key("submit:2", b"d"), fence=fence)
        await journal.append("a", [Step(5)], label="ended", fence=fence)
        await journal.append("b", [Note(6, BIG)], fence=fence, label="running", wake_at=7)
        await journal.save_snapshot("a", 3, "code", b"state with content")


async def archived(
    path: Path, target: Path, units: Sequence[Collection[str]] = (("a",), ("c",)), keep: str = ""
) -> Moved:
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("archiving"):
        await write_archive(journal, target, units, new_id=ID, now=1)
        at = await journal.position()
        moved = await move_to_archive(journal, target, at=at, allowed=lambda name: name != keep)
        assert await shrink(journal)
        return moved


async def all_of(journal: Journal) -> list[Record]:
    return [record async for record in journal.read_all()]


@asynccontextmanager
async def opened(path: Path, *archives: Path) -> AsyncIterator[Journal]:
    """A journal with archives beside it."""
    if not archives:
        async with Journal.open(path, registry=REGISTRY) as journal:
            yield journal
        return
    async with (
        open_archive(archives[0]) as archive,
        Journal.open(path, registry=REGISTRY, wrap=beside(archive)) as journal,
    ):
        yield journal


async def test_positions_stay_gapless_and_markers_stand_in_place(path: Path) -> None:
    async with opened(path) as journal:
        before, root = await all_of(journal), (await journal.verify()).root
    assert await archived(path, path.with_suffix(".archive")) == Moved(records=4)
    async with opened(path) as journal:
        after = await all_of(journal)
        found = await journal.verify()
        assert [record.position for record in after] == [1, 2, 3, 4, 5, 6, 7]
        assert [isinstance(record, Archived) for record in after] == [False, True, True, False, True, True, False]
        for old, new in zip(before, after, strict=True):
            assert (old.stream, old.version, old.recorded_at, old.leaf) == (
                new.stream, new.version, new.recorded_at, new.leaf,
            )  # fmt: skip
        assert [record.position for record in await journal.read_page("a")] == [2, 3, 6]
        assert [record.position for record in await journal.read_page("a", after=1, limit=1)] == [3]
        assert [record.position async for record in journal.read_all(after=2)] == [3, 4, 5, 6, 7]
        assert not await journal.read_page("nothing")
        assert (found.ok, found.root, found.archived, found.records) == (True, root, 4, 7)
        head = await journal.head("a")
        assert head is not None
        assert (head.version, head.label) == (3, "ended")


async def test_every_page_of_every_size_is_what_the_journal_was(path: Path) -> None:
    await archived(path, path.with_suffix(".archive"))
    async with opened(path) as journal:
        for after in range(8):
            for limit in range(1, 9):
                page = await journal.store.read_all(after, limit)
                assert [record.position for record in page] == list(range(after + 1, 8))[:limit]


async def test_what_was_archived_is_not_folded_past_and_says_where_it_is(path: Path) -> None:
    await archived(path, path.with_name("2026.archive"))
    async with opened(path) as journal:
        marker = (await journal.read_page("c"))[0]
        with pytest.raises(RecordArchived, match=r"position 5: c was archived to 2026\.archive") as caught:
            journal.registry.decode(marker)
        assert (caught.value.position, caught.value.stream, caught.value.file) == (5, "c", "2026.archive")


async def test_command_keys_stay_for_ever(path: Path) -> None:
    await archived(path, path.with_suffix(".archive"))
    async with opened(path) as journal:
        again = await journal.append("c", [Note(4, "four")], key=Key("submit:2", b"d"))
        assert again.repeated
        assert [(record.stream, record.position) for record in again.records] == [("c", 5)]
        whole = await journal.find("submit:1")
        assert whole is not None
        assert [record.position for record in whole.records] == [1, 2, 3, 4]


async def test_appending_goes_on_and_the_tree_with_it(path: Path) -> None:
    await archived(path, path.with_suffix(".archive"))
    async with opened(path) as journal:
        await journal.append("b", [Note(8)], expected=2)
        await journal.append("c", [Note(9)], expected=1)
        assert [record.version for record in await journal.read_page("c")] == [1, 2]
        found = await journal.verify()
        assert (found.ok, found.records) == (True, 8 + 1)


async def test_with_the_archive_beside_it_the_journal_reads_as_before(path: Path) -> None:
    archive = path.with_suffix(".archive")
    async with opened(path) as journal:
        before, verified = await all_of(journal), await journal.verify()
    await archived(path, archive)
    async with opened(path, archive) as journal:
        assert await all_of(journal) == before
        assert journal.registry.decode((await journal.read_page("a"))[1]) == Note(2, BIG)
        assert await journal.verify() == verified
        assert await journal.find("submit:1") is not None


async def test_an_archive_is_read_and_checked_by_itself(path: Path) -> None:
    archive = path.with_suffix(".archive")
    async with opened(path) as journal:
        root = (await journal.verify()).root
    await archived(path, archive)
    assert is_archive(archive)
    found = await check_archive(archive)
    assert (found.records, found.streams, found.values, found.info.size) == (4, 2, 1, 7)
    assert found.info.root.hex() == root
    async with open_archive(archive) as store, Journal.over(store, registry=REGISTRY) as journal:
        assert [journal.registry.decode(record) for record in await journal.read_page("a")] == [
            Note(1, "what was said"),
            Note(2, BIG),
            Step(5),
        ]
        assert [head.stream async for head in journal.streams(label="ended")] == ["a", "c"]
        with pytest.raises(StorageReadOnly):
            await journal.append("a", [Note(1)])


def test_the_journal_shrinks_and_nothing_of_the_content_is_left(path: Path) -> None:
    before = path.stat().st_size
    trio.run(archived, path, path.with_suffix(".archive"))
    content = path.read_bytes()
    assert len(content) < before - 10_000
    for word in (b"state with content", b"what was said", b"four"):
        assert word not in content
    assert b"three" in content


async def test_a_second_archive_takes_what_the_first_left(path: Path) -> None:
    first, second = path.with_name("1.archive"), path.with_name("2.archive")
    await archived(path, first, [("a",)])
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("again"):
        await write_archive(journal, second, [("c",)], new_id=b"another's number", now=2)
        await move_to_archive(journal, second, at=7, allowed=lambda _: True)
    async with (
        open_archive(first) as one,
        open_archive(second) as two,
        Journal.open(path, registry=REGISTRY, wrap=beside(one, two)) as journal,
    ):
        assert not any(isinstance(record, Archived) for record in await all_of(journal))
        assert (await journal.verify()).ok


async def test_a_stream_that_is_not_there_is_refused_and_nothing_is_left_behind(path: Path) -> None:
    before = sorted(path.parent.iterdir())
    with pytest.raises(ArchiveRefused, match="no stream nothing"):
        await archived(path, path.with_suffix(".archive"), [("a", "nothing")])
    assert sorted(path.parent.iterdir()) == before


async def test_the_journals_last_record_stays(path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="last record, which stays"):
        await archived(path, path.with_suffix(".archive"), [("b",)])
    async with opened(path) as journal:
        assert not any(isinstance(record, Archived) for record in await all_of(journal))


async def test_what_is_there_is_not_overwritten_and_what_is_archived_is_not_archived_again(path: Path) -> None:
    archive = path.with_suffix(".archive")
    await archived(path, archive)
    content = archive.read_bytes()
    with pytest.raises(ArchiveRefused, match="is there already"):
        await archived(path, archive, [("shared",)])
    assert archive.read_bytes() == content
    with pytest.raises(ArchiveRefused, match="a has 3 records, of which 0 are here"):
        await archived(path, path.with_name("other.archive"), [("a",)])


async def test_a_unit_leaves_whole_or_not_at_all(path: Path) -> None:
    archive = path.with_suffix(".archive")
    moved = await archived(path, archive, [("a", "c")], keep="c")
    assert (moved.records, moved.kept) == (0, ("a", "c"))
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("later"):
        await journal.append("c", [Note(8)])
        await journal.append("b", [Note(9)])
        late = await move_to_archive(journal, archive, at=8, allowed=lambda _: True)
        assert late.stale
        assert late.records == 0
        moved = await move_to_archive(journal, archive, at=9, allowed=lambda _: True)
        assert (moved.records, moved.kept) == (0, ("a", "c"))
        assert not any(isinstance(record, Archived) for record in await all_of(journal))


async def test_an_archive_of_another_journal_is_refused(path: Path, tmp_path: Path) -> None:
    archive, other = path.with_suffix(".archive"), tmp_path / "other.db"
    await archived(path, archive)
    await fill(other)
    with pytest.raises(ArchiveRefused, match="another journal"):
        async with opened(other, archive):
            pass
    async with opened(other) as journal:
        with pytest.raises(ArchiveRefused, match="another journal"):
            await move_to_archive(journal, archive, at=7, allowed=lambda _: True)
        with pytest.raises(NotAJournal, match="not an archive"):
            async with open_archive(other):
                pass
    with pytest.raises(NotAJournal):
        async with opened(archive):
            pass


async def test_a_journal_that_does_not_agree_with_its_root_is_not_archived(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DROP TRIGGER events_update")
        database.execute("UPDATE events SET leaf = zeroblob(32) WHERE position = 1")
    with pytest.raises(JournalCorrupt):
        await archived(path, path.with_suffix(".archive"))
    assert not path.with_suffix(".archive").exists()


def test_every_flipped_byte_of_an_archives_records_is_found(path: Path) -> None:
    archive = path.with_suffix(".archive")
    trio.run(archived, path, archive)
    whole = archive.read_bytes()
    true = trio.run(read_archive, archive)
    missed = []
    used = [at for at, byte in enumerate(whole) if byte and byte != ord("b")]
    for at in used[::7]:
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            if trio.run(read_archive, archive) != true:
                missed.append(at)
        except JournalError:
            pass
    assert not missed


async def read_archive(archive: Path) -> list[object]:
    """All that there is to read in an archive, once it is checked."""
    found = await check_archive(archive)
    async with open_archive(archive) as store, Journal.over(store, registry=REGISTRY) as journal:
        records = await all_of(journal)
        return [
            (found.records, found.streams, found.info.root, found.info.size),
            records,
            [journal.registry.decode(record) for record in records],
            [record.leaf for name in ("a", "c") for record in await journal.read_page(name)],
        ]


async def test_tombstones_are_immutable_and_only_for_records(path: Path) -> None:
    await archived(path, path.with_suffix(".archive"))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in (
            "UPDATE archived SET leaf = zeroblob(32)",
            "DELETE FROM archived",
            "INSERT INTO archived VALUES (1, 1, 1, 0, zeroblob(32), 1)",
            "INSERT OR REPLACE INTO archived SELECT position, stream_id, version, 0, leaf, 1 FROM archived",
            "UPDATE archives SET file = 'x'",
            "DELETE FROM archives",
            "DELETE FROM events",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                database.execute(statement)


@pytest.mark.parametrize("statement", ["UPDATE archived SET leaf = zeroblob(32)", "DELETE FROM archived"])
async def test_tampered_tombstones_show(statement: str, path: Path) -> None:
    await archived(path, path.with_suffix(".archive"))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute(f"{statement} WHERE position = 3")
    async with opened(path) as journal:
        assert not (await journal.verify()).ok
    async with opened(path, path.with_suffix(".archive")) as journal:
        assert not (await journal.verify()).ok


def runs_of(chosen: Collection[int], leaves: Sequence[bytes]) -> Iterator[Node]:
    gap = Gap()
    for position, leaf in enumerate(leaves, 1):
        if position in chosen:
            yield from gap.close()
            yield Node(position, 0, leaf)
        else:
            gap.add(position, leaf)
    yield from gap.close()


@given(st.integers(0, 70).flatmap(lambda size: st.tuples(st.just(size), st.sets(st.integers(1, max(1, size))))))
def test_the_proof_leads_to_the_root_whichever_records_leave(case: tuple[int, set[int]]) -> None:
    size, chosen = case
    leaves = [bytes([number]) * 32 for number in range(size)]
    tree: CompactRange = EMPTY_RANGE.extend(leaves)
    nodes = list(runs_of(chosen, leaves))
    assert root_over(nodes, size) == tree.root()
    for at in range(len(nodes)):
        with pytest.raises(JournalCorrupt):
            root_over([*nodes[:at], *nodes[at + 1 :]], size)
        wrong = Node(nodes[at].first, nodes[at].level, b"\xff" * 32)
        assert root_over([*nodes[:at], wrong, *nodes[at + 1 :]], size) != tree.root()


@given(st.sets(st.integers(1, 1000), max_size=5))
def test_a_gap_takes_few_nodes(chosen: set[int]) -> None:
    nodes = list(runs_of(chosen, [b"x" * 32] * 1000))
    assert len(nodes) <= len(chosen) + 20 * (len(chosen) + 1)


def test_killed_at_any_step_nothing_is_lost_and_the_same_command_goes_on(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    program = [sys.executable, "-m", "tests.journal.kill_archiver", str(path), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


async def test_sealed_content_is_archived_as_it_is_and_opens_with_its_keys(tmp_path: Path) -> None:
    path, target = tmp_path / "a.db", tmp_path / "a.archive"
    keys = MemoryKeyStore()
    async with Journal.open(path, registry=REGISTRY, keys=keys) as journal, journal.drive("archiving"):
        await journal.commit([Write("a", [Note(1, "said"), Note(2, BIG)], domain=Domain("a", b"s" * 32))])
        await journal.append("b", [Note(3)])
        await write_archive(journal, target, [("a",)], new_id=ID, now=1)
        assert (await move_to_archive(journal, target, at=3, allowed=lambda _: True)).records == 2
        await shrink(journal)
    assert (await check_archive(target)).values == 1
    async with (
        open_archive(target) as archive,
        Journal.open(path, registry=REGISTRY, keys=keys, wrap=beside(archive)) as journal,
    ):
        assert [journal.registry.decode(record) async for record in journal.read("a")] == [
            Note(1, "said"),
            Note(2, BIG),
        ]
        assert (await journal.verify()).ok
    async with opened(path, target) as journal:
        note = journal.registry.decode((await journal.read_page("a"))[0])
        assert isinstance(note, Note)
        assert note.text is ERASED
