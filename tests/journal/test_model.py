"""A journal does what a list does: any sequence of commits, by two processes in turn, against a plain model."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.conftest import new_memory, new_sqlite
from tests.journal.notes import REGISTRY, Note, Step

from trouper_journal import (
    IdempotencyConflict,
    Journal,
    JournalError,
    Key,
    StaleFence,
    VersionConflict,
    Write,
)
from trouper_journal.testing import NewStorage

STREAMS = ("a", "b", "c")
Expect = Literal["right", "wrong", "any"]


@attrs.frozen
class Part:
    """A write of a commit."""

    stream: str
    size: int
    expect: Expect
    label: str | None
    wake_at: int | None


@attrs.frozen
class Commit:
    """A commit, by one of two processes."""

    who: int
    parts: tuple[Part, ...]
    require: tuple[str, Expect] | None
    key: tuple[str, bytes] | None
    fence: Literal["none", "current", "stale"]


parts = st.builds(
    Part,
    stream=st.sampled_from(STREAMS),
    size=st.integers(1, 3),
    expect=st.sampled_from(["right", "right", "wrong", "any"]),
    label=st.sampled_from([None, "open", "done"]),
    wake_at=st.sampled_from([None, 1, 5]),
)
commits = st.builds(
    Commit,
    who=st.integers(0, 1),
    parts=st.lists(parts, min_size=1, max_size=3, unique_by=lambda part: part.stream).map(tuple),
    require=st.none() | st.tuples(st.sampled_from(STREAMS), st.sampled_from(["right", "wrong"])),
    key=st.none() | st.tuples(st.sampled_from(["k1", "k2"]), st.sampled_from([b"d1", b"d2"])),
    fence=st.sampled_from(["none", "current", "stale"]),
)
actions = st.lists(commits | st.sampled_from(["drive", "reopen"]), max_size=20)


@attrs.define
class Model:
    """What a journal is: a list of events, and what follows from it."""

    events: list[tuple[str, int]] = attrs.Factory(list)
    labels: dict[str, str | None] = attrs.Factory(dict)
    due: dict[str, int | None] = attrs.Factory(dict)
    keys: dict[str, tuple[bytes, int, int]] = attrs.Factory(dict)
    epoch: int = 0

    def version(self, stream: str) -> int:
        return sum(1 for name, _ in self.events if name == stream)

    def expected(self, stream: str, expect: Expect) -> int | None:
        return {"right": self.version(stream), "wrong": self.version(stream) + 1, "any": None}[expect]

    def fence(self, commit: Commit) -> int | None:
        return {"none": None, "current": self.epoch or None, "stale": self.epoch + 1}[commit.fence]

    def commit(self, commit: Commit) -> type[JournalError] | tuple[int, int]:
        """What must come of it: an error, or the first and last position."""
        if commit.key is not None and commit.key[0] in self.keys:
            digest, first, last = self.keys[commit.key[0]]
            return (first, last) if digest == commit.key[1] else IdempotencyConflict
        if commit.fence == "stale":
            return StaleFence
        if (commit.require is not None and commit.require[1] == "wrong") or any(
            part.expect == "wrong" for part in commit.parts
        ):
            return VersionConflict
        first = len(self.events) + 1
        for part in commit.parts:
            for _ in range(part.size):
                self.events.append((part.stream, self.version(part.stream) + 1))
            self.labels[part.stream] = part.label or self.labels.get(part.stream)
            self.due[part.stream] = part.wake_at
        if commit.key is not None:
            self.keys[commit.key[0]] = (commit.key[1], first, len(self.events))
        return first, len(self.events)


async def attempt(journal: Journal, commit: Commit, model: Model) -> type[JournalError] | tuple[int, int]:
    fence = model.fence(commit)
    kind = Note if fence is None else Step
    writes = [
        Write(
            part.stream,
            [kind(number) for number in range(part.size)],
            expected=model.expected(part.stream, part.expect),
            label=part.label,
            wake_at=part.wake_at,
        )
        for part in commit.parts
    ]
    required = {} if commit.require is None else {commit.require[0]: model.expected(*commit.require) or 0}
    key = None if commit.key is None else Key(*commit.key)
    try:
        committed = await journal.commit(writes, require=required, key=key, fence=fence)
    except JournalError as error:
        return type(error)
    return committed.records[0].position, committed.records[-1].position


async def check(journal: Journal, model: Model) -> None:
    records = [record async for record in journal.read_all()]
    assert [(record.stream, record.version) for record in records] == model.events
    assert [record.position for record in records] == list(range(1, len(model.events) + 1))
    heads = {head.stream: head async for head in journal.streams()}
    assert list(heads) == list(dict.fromkeys(stream for stream, _ in model.events))
    for stream, head in heads.items():
        assert (head.version, head.label) == (model.version(stream), model.labels[stream])
        newest = next(record for record in reversed(records) if record.stream == stream)
        assert head.wake_at in {model.due[stream], newest.recorded_at}
        assert [record.version async for record in journal.read(stream)] == list(range(1, head.version + 1))
    for name, (_, first, last) in model.keys.items():
        found = await journal.find(name)
        assert found is not None
        assert [record.position for record in found.records] == list(range(first, last + 1))
    assert (await journal.verify()).ok


async def play(new_storage: NewStorage, script: list[Commit | str]) -> None:
    model = Model()
    open_journal = new_storage()
    async with AsyncExitStack() as stack:
        journals = [await stack.enter_async_context(open_journal(REGISTRY)) for _ in range(2)]
        for action in script:
            if action == "drive":
                async with journals[0].drive("driver") as fence:
                    model.epoch += 1
                    assert fence == model.epoch
            elif action == "reopen":
                journals[1] = await stack.enter_async_context(open_journal(REGISTRY))
            elif isinstance(action, Commit):
                outcome = await attempt(journals[action.who], action, model)
                assert outcome == model.commit(action)
        await check(journals[0], model)


@given(actions)
@settings(deadline=None, max_examples=150)
def test_in_memory(script: list[Commit | str]) -> None:
    trio.run(play, new_memory(Path()), script)


@given(actions)
@settings(deadline=None, max_examples=40)
def test_in_a_file(script: list[Commit | str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trio.run(play, new_sqlite(Path(folder)), script)
