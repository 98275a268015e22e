"""What is told of a journal whose content cannot be read is told of it with its content, too, or is marked erased."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.audit.sealed_twin import write_sealed_twin

from trouper.core.events import REGISTRY
from trouper.narration.narrate import Narrator
from trouper_journal import Journal
from trouper_journal.sealing import FileKeyStore

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "runs-1.db"

MARKED: Final = re.compile(r"[ :,(“\"]*(?:of )?\[erased(?:, if there was one)?\][ )”\",;.]*")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every event of the release, sealed, with the keys beside it."""
    target = tmp_path_factory.mktemp("twin") / "runs.db"

    async def write() -> None:
        await write_sealed_twin(GOLDEN, target)

    trio.run(write)
    return target


@pytest.fixture
def without_keys(twin: Path, tmp_path: Path) -> Path:
    """The same file, and no keys."""
    path = tmp_path / twin.name
    path.write_bytes(twin.read_bytes())
    return path


def pieces(line: str) -> list[str]:
    """What a line tells beside what it marks as erased."""
    return [piece for piece in MARKED.split(line) if piece]


def told_in(line: str, whole: str) -> bool:
    """Whether all that a line tells is told in another text, in the same order."""
    return re.search(".*".join(map(re.escape, pieces(line))), whole, re.DOTALL) is not None


async def test_no_sentence_says_more_than_with_the_content(twin: Path, without_keys: Path) -> None:
    kinds: set[str] = set()
    marked: set[str] = set()
    async with (
        Journal.open(twin, registry=REGISTRY, read_only=True, keys=FileKeyStore(f"{twin}.keys")) as full,
        Journal.open(without_keys, registry=REGISTRY, read_only=True) as bare,
    ):
        narrators: dict[str, tuple[Narrator, Narrator]] = {}
        async for record in bare.read_all():
            (opened,) = await full.read_page(record.stream, record.version - 1, 1)
            one, other = narrators.setdefault(record.stream, (Narrator(None), Narrator(None)))
            less, more = one.tell(record, REGISTRY.decode(record)), other.tell(opened, REGISTRY.decode(opened))
            assert less.who in {more.who, "[erased]"}, record.type
            assert told_in(less.text, more.text), f"{record.type}: {less.text!r} is not in {more.text!r}"
            assert '""' not in less.text
            kinds.add(record.type)
            marked |= {record.type} if "[erased" in less.text + less.who else set()
    assert {"approval.decided", "model.responded", "hook.applied"} <= marked
    assert len(kinds) > 40
