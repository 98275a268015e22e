"""What is wrong is refused at the door, by name, and harms nobody: the journal verifies and goes on."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.journal.notes import REGISTRY, Note, Step, numbers

from trouper_journal import (
    Domain,
    InvalidValue,
    InvalidWrite,
    Journal,
    JournalOptions,
    Key,
    NotAJournal,
    UnregisteredEvent,
    Write,
)
from trouper_journal.testing import NewStorage

BIG = "x" * 40_000

WRONG: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "writes that are none": (r"^writes: int", 1, {}),  # type: ignore[dict-item]
    "a write that is none": (r"^writes: str", ["a"], {}),
    "events that are none": (r"^stream 'a': int", [Write("a", 1)], {}),  # type: ignore[arg-type]
    "an event that is none": (r"^str is not an event", [Write("a", ["x"])], {}),
    "a name with a surrogate": (r"^stream: ", [Write("\ud800", [Note(1)])], {}),
    "a name that is no text": (r"^stream: 5", [Write(5, [Note(1)]), Write("a", [Note(1)])], {}),  # type: ignore[arg-type]
    "a version that is none": (r"^expected: True", [Write("a", [Note(1)], expected=True)], {}),
    "a domain that is none": (r"^domain: str", [Write("a", [Note(1)], domain="a")], {}),  # type: ignore[arg-type]
    "a domain with a surrogate": (r"^domain: ", [Write("a", [Note(1, BIG)], domain=Domain("\ud800", b"s"))], {}),
    "a domain without a salt": (r"^domain a: ", [Write("a", [Note(1)], domain=Domain("a", b""))], {}),
    "a salt of text": (r"^domain a: ", [Write("a", [Note(1)], domain=Domain("a", "s"))], {}),  # type: ignore[arg-type]
    "meta that is a list": (r"^meta: list", [Write("a", [Note(1)])], {"meta": [1]}),
    "meta that is text": (r"^meta: str", [Write("a", [Note(1)])], {"meta": ""}),
    "meta with another key": (r"^meta: the key 1", [Write("a", [Note(1)])], {"meta": {1: 2}}),
    "requirements that are a list": (r"^require: list", [Write("a", [Note(1)])], {"require": ["b"]}),
    "a key that is none": (r"^key: str", [Write("a", [Note(1)])], {"key": "k"}),
    "a key of text": (r"^key k: the digest", [Write("a", [Note(1)])], {"key": Key("k", "d")}),  # type: ignore[arg-type]
    "a fence that nobody was given": (r"^fence: 0", [Write("a", [Step(1)])], {"fence": 0}),
}


@pytest.mark.parametrize(("message", "writes", "more"), list(WRONG.values()), ids=list(WRONG))
async def test_a_malformed_commit(
    message: str, writes: list[Any], more: dict[str, Any], new_storage: NewStorage
) -> None:
    async with new_storage()(REGISTRY) as journal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.append, "b", [Note(1)])
            with pytest.raises((InvalidWrite, InvalidValue, UnregisteredEvent), match=message):
                await journal.commit(writes, **more)
        await journal.append("b", [Note(2)], expected=1)
        found = await journal.verify()
        assert found.ok, found.problems
        assert found.records == 2


class Names(StrEnum):
    """Texts whose hash is another than that of the text."""

    FIRST = "run/1"


async def test_a_name_is_its_text_whatever_it_was_made_of(new_storage: NewStorage) -> None:
    async with new_storage()(REGISTRY) as journal:
        async with trio.open_nursery() as nursery:
            for name in (Names.FIRST, "run/1", Names.FIRST):
                nursery.start_soon(journal.append, name, [Note(1)])
        assert await numbers(journal, Names.FIRST) == [1, 1, 1]
        head = await journal.head(Names.FIRST)
        assert head is not None
        assert type(head.stream) is str
        with pytest.raises(InvalidWrite, match="once"):
            await journal.commit([Write(Names.FIRST, [Note(1)]), Write("run/1", [Note(1)])])


async def test_a_question_about_what_is_no_number_names_it(new_storage: NewStorage) -> None:
    wrong: Any = "1"
    async with new_storage()(REGISTRY) as journal:
        for ask in (
            partial(journal.read, "a", after=wrong),
            partial(journal.read_all, after=wrong),
            partial(journal.tail, after=wrong),
        ):
            with pytest.raises(TypeError, match="after: '1'"):
                ask()
        with pytest.raises(TypeError, match="limit: '1'"):
            await journal.read_page("a", 0, wrong)


async def test_numbers_beyond_all_that_is_stored_ask_for_the_nearest(new_storage: NewStorage) -> None:
    async with new_storage()(REGISTRY) as journal:
        await journal.append("a", [Note(1), Note(2)])
        assert len(await journal.read_page("a", -(2**70), 2**70)) == 2
        assert len(await journal.read_page("a", 0, -1)) == 1
        assert await journal.read_page("a", 2**70) == []
        assert await journal.next_wake(after=2**70) is None
        assert await journal.next_wake(after=-(2**70)) is not None
        await journal.save_snapshot("a", 2**70, "code", b"state")
        assert await journal.load_snapshot("a", "code") is None


async def test_a_snapshot_that_is_no_bytes_is_refused(new_storage: NewStorage) -> None:
    text: Any = "state"
    async with new_storage()(REGISTRY) as journal:
        await journal.append("a", [Note(1)])
        with pytest.raises(InvalidWrite, match="str, not bytes"):
            await journal.save_snapshot("a", 1, "code", text)
        with pytest.raises(InvalidWrite, match="fingerprint"):
            await journal.save_snapshot("a", 1, "\ud800", b"state")


async def test_a_prefix_finds_every_name_that_begins_so(new_storage: NewStorage) -> None:
    async with new_storage()(REGISTRY) as journal:
        for name in ("a", "a\U0010ffff", "a/b", "b"):
            await journal.append(name, [Note(1)])
        assert [head.stream async for head in journal.streams(prefix="a")] == ["a", "a\U0010ffff", "a/b"]


async def test_a_path_of_bytes_and_one_that_is_none(tmp_path: Path) -> None:
    raw: Any = bytes(tmp_path / "a.db")
    async with Journal.open(raw, registry=REGISTRY) as journal, journal.drive("me"):
        assert journal.path == str((tmp_path / "a.db").resolve())
    for wrong in ("a\0b", 5):
        with pytest.raises(NotAJournal, match="cannot name a file"):
            Journal.open(wrong)  # type: ignore[arg-type]


def test_a_wait_that_sqlite_cannot_count_is_refused() -> None:
    for wrong in (-1.0, 1e9, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="busy_timeout"):
            JournalOptions(busy_timeout=wrong)
