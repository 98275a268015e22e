"""Journals of released formats stay readable; the tampered one must fail."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs
import pytest
from tests.golden.events import EVENTS, REGISTRY, Opened
from tests.golden.make_golden import TAMPERED, TAMPERED_POSITION, write_golden

from trouper_journal import ERASED, IdempotencyConflict, Journal, Key, pack, unpack_map

FOLDER = Path(__file__).parent
GOLDEN = sorted(path.stem for path in FOLDER.glob("journal-*.json"))


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, because opening a file may write to it."""
    return Path(shutil.copy(FOLDER / f"{request.param}.db", tmp_path))


def described(golden: Path) -> dict[str, object]:
    description: dict[str, object] = json.loads((FOLDER / f"{golden.stem}.json").read_text("utf-8"))
    return description


async def test_golden_journals_verify(golden: Path) -> None:
    expected = described(golden)
    async with Journal.open(golden) as journal:
        found = await journal.verify()
        leaves = [record.leaf.hex() async for record in journal.read_all()]
        streams = {
            head.stream: [head.version, head.position, head.label, head.wake_at] async for head in journal.streams()
        }
    assert found.ok, found.problems
    assert found.grade == "self-consistent"
    assert (found.journal_id, found.records, found.root) == (
        expected["journal_id"],
        expected["records"],
        expected["root"],
    )
    assert leaves == expected["leaves"]
    assert streams == expected["streams"]


async def test_golden_journals_replay(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY) as journal:
        for stream, written in EVENTS.items():
            read = [REGISTRY.decode(record) async for record in journal.read(stream)]
            *plain, last = written
            if isinstance(last, Opened) and last.subject == "sealed":
                last = attrs.evolve(last, text=ERASED, parts=ERASED, extra=ERASED)
            assert read == [*plain, last]
            for left, right in zip(read, written, strict=True):
                # Equality alone takes True for 1, and 0.0 for -0.0.
                if isinstance(left, Opened) and isinstance(right, Opened) and left.extra is not ERASED:
                    assert right.extra is not ERASED
                    assert pack(left.extra) == pack(right.extra)


async def test_golden_keys_still_stand_for_their_commits(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY) as journal:
        again = await journal.append("ticket/1", [Opened("again", "")], key=Key("submit:1", b"d" * 32))
        assert again.repeated
        assert [record.position for record in again.records] == [1, 2]
        with pytest.raises(IdempotencyConflict):
            await journal.append("ticket/1", [Opened("again", "")], key=Key("submit:1", b"e" * 32))


async def test_unknown_keys_of_meta_are_kept(golden: Path) -> None:
    async with Journal.open(golden) as journal:
        [record] = [record async for record in journal.read_all() if record.position == 3]
    assert unpack_map(record.meta) == {
        "cause": 2,
        "principal": {"id": "maria", "kind": "person"},
        "unknown key": [None],
    }


async def test_golden_journals_can_be_appended_to(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY) as journal:
        await journal.append("ticket/1", [Opened("new", "text")])
        found = await journal.verify()
    assert found.ok, found.problems
    assert found.records == described(golden)["records"] + 1  # type: ignore[operator]


async def test_this_release_writes_the_newest_golden_journal_byte_for_byte(tmp_path: Path) -> None:
    await write_golden(tmp_path / "again.db")
    async with Journal.open(tmp_path / "again.db") as journal:
        leaves = [record.leaf.hex() async for record in journal.read_all()]
    assert leaves == described(FOLDER / f"{GOLDEN[-1]}.db")["leaves"]


async def test_the_tampered_journal_fails(tmp_path: Path) -> None:
    path = shutil.copy(FOLDER / f"{TAMPERED}.db", tmp_path)
    async with Journal.open(path) as journal:
        found = await journal.verify()
    assert not found.ok
    assert found.grade == "inconsistent"
    assert [(problem.kind, problem.position) for problem in found.problems] == [
        ("leaf", TAMPERED_POSITION),
        ("head", None),
    ]
