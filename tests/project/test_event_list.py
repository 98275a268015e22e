"""The page for readers lists all events that there are, by whom they may be appended, and where they stand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.golden.found import FOLDER, GOLDEN

from trouper import REGISTRY
from trouper_journal import Journal

PAGE = (Path(__file__).parents[2] / "docs" / "reading-a-journal.md").read_text("utf-8")


def sections() -> dict[str, list[tuple[str, str]]]:
    """Events and who may append them, by the line above their table."""
    (listed,) = re.findall(r"^## All types of events\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^(In .*?:)\n\n((?:\|.*\n)+)", listed, re.MULTILINE)
    return {above: re.findall(r"^\| `([a-z._]+)` \| (\w+) \| .+ \|$", table, re.MULTILINE) for above, table in found}


def test_every_event_is_listed_once_with_who_may_append_it() -> None:
    listed = [row for rows in sections().values() for row in rows]
    assert sorted(listed) == sorted((spec.type, "driver" if spec.driver else "anyone") for spec in REGISTRY)


@pytest.mark.parametrize("name", GOLDEN)
async def test_events_stand_in_the_streams_that_the_list_says(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(FOLDER / f"{name}.db", tmp_path))
    async with Journal.open(path, registry=REGISTRY) as journal:
        stand = {(record.type, record.stream.partition("/")[0]) async for record in journal.read_all()}
    listed = sections()
    for type_, place in stand:
        (above,) = [above for above, rows in listed.items() if type_ in {row[0] for row in rows}]
        assert f"`{place}/" in above, type_
