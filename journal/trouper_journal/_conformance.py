"""The promises of a journal, one function each, for whoever provides a store.

Each promise is checked on a storage of its own. A broken promise raises AssertionError with a message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias, TypeVar

import attrs
import trio

from trouper_journal._errors import (
    IdempotencyConflict,
    InvalidValue,
    InvalidWrite,
    JournalClosed,
    JournalError,
    StaleFence,
    UnregisteredEvent,
    VersionConflict,
)
from trouper_journal._journal import Journal
from trouper_journal._printable import Plain
from trouper_journal._records import Domain, Key, Record, StreamHead, Write
from trouper_journal._registry import EventRegistry, event
from trouper_journal._shapes import Content
from trouper_journal._values import Value, unpack_map

OpenJournal: TypeAlias = Callable[[EventRegistry], AbstractAsyncContextManager[Journal]]
"""Opens a journal over one storage; called again after the block was left, it opens the same storage again."""

NewStorage: TypeAlias = Callable[[], OpenJournal]
"""Makes an empty storage."""

Promise: TypeAlias = Callable[[OpenJournal], Awaitable[None]]

E = TypeVar("E", bound=JournalError)


@event("conformance.noted")
@attrs.frozen(slots=False, repr=False, eq=False)
class _Noted(Plain):
    number: int
    text: Content[Value] = None


@event("conformance.driven", driver=True)
@attrs.frozen(slots=False, repr=False, eq=False)
class _Driven(Plain):
    number: int


class _Unregistered:
    pass


_REGISTRY: Final = EventRegistry([_Noted, _Driven])


async def check_journal(new_storage: NewStorage) -> None:
    """Check every promise, each on a storage of its own.

    Args:
        new_storage: Makes an empty storage and gives what opens a journal over it.

    Raises:
        AssertionError: A promise is broken; its name is in the note.
    """
    for promise in PROMISES:
        try:
            await promise(new_storage())
        except AssertionError as error:
            error.add_note(f"promise: {promise.__name__}")
            raise


async def starts_empty(open_journal: OpenJournal) -> None:
    """A new storage holds nothing, and has an id."""
    async with open_journal(_REGISTRY) as journal:
        assert len(journal.id) == 16, "the id is 16 bytes"
        assert await _all(journal) == [], "there are no records"
        assert await journal.head("a") is None, "there is no stream"
        assert [head async for head in journal.streams()] == [], "there are no streams"
        assert await journal.find("key") is None


async def reads_what_it_wrote(open_journal: OpenJournal) -> None:
    """What a commit returns is what reading gives, field by field, and decodes to equal events."""
    events = [_Noted(1, "text"), _Noted(2), _Noted(3, {"deep": [1, 2.5, None, True, b"\0"]})]
    async with open_journal(_REGISTRY) as journal:
        committed = await journal.append("a", events, label="open", key=Key("k", b"d"), meta={"cause": 7})
        records = [record async for record in journal.read("a")]
        assert tuple(records) == committed.records, "reading gives what commit returned"
        assert [journal.registry.decode(record) for record in records] == events, "events are equal"
        assert all(record.key == "k" and record.label == "open" for record in records), "the envelope is kept"
        assert unpack_map(records[0].meta) == {"cause": 7}, "meta is kept"
        assert [record.version async for record in journal.read("a", after=1)] == [2, 3], "after is exclusive"
        assert await journal.read_page("a", 1, 1) == records[1:2], "pages are bounded"


async def numbers_without_gaps(open_journal: OpenJournal) -> None:
    """Positions and versions have no gaps; a commit's positions follow the order of its writes."""
    async with open_journal(_REGISTRY) as journal:
        await journal.append("a", [_Noted(1)])
        await journal.commit([Write("b", [_Noted(2), _Noted(3)]), Write("a", [_Noted(4)])])
        with_gap = await _refused(journal.append("a", [_Noted(5)], expected=9), VersionConflict)
        assert with_gap.actual == 2, "the conflict names the actual version"
        await journal.append("b", [_Noted(6)])
        found = [(record.position, record.stream, record.version) for record in await _all(journal)]
        assert found == [(1, "a", 1), (2, "b", 1), (3, "b", 2), (4, "a", 2), (5, "b", 3)], f"gapless, not {found}"


async def commits_all_or_nothing(open_journal: OpenJournal) -> None:
    """A conflict in one write of a commit leaves nothing of the others."""
    async with open_journal(_REGISTRY) as journal:
        await journal.append("a", [_Noted(1)], expected=0)
        both = [Write("new", [_Noted(2)], expected=0), Write("a", [_Noted(3)], expected=0)]
        await _refused(journal.commit(both, key=Key("k", b"d")), VersionConflict)
        assert await journal.head("new") is None, "the other stream is not there"
        assert await journal.find("k") is None, "the key is not there"
        assert len(await _all(journal)) == 1, "nothing was written"


async def holds_expected_and_required_versions(open_journal: OpenJournal) -> None:
    """``expected`` and ``require`` must stand, also for streams that do not exist."""
    async with open_journal(_REGISTRY) as journal:
        await journal.append("a", [_Noted(1)], expected=0)
        await _refused(journal.append("absent", [_Noted(2)], expected=1), VersionConflict)
        await _refused(journal.append("b", [_Noted(2)], require={"a": 0}), VersionConflict)
        await _refused(journal.append("b", [_Noted(2)], require={"absent": 1}), VersionConflict)
        await journal.append("b", [_Noted(2)], require={"a": 1, "absent": 0})
        assert len(await _all(journal)) == 2, "only what fitted was written"


async def repeats_by_key(open_journal: OpenJournal) -> None:
    """A known key with an equal digest gives the original records, before anything else is looked at."""
    async with open_journal(_REGISTRY) as journal:
        first = await journal.append("a", [_Noted(1), _Noted(2)], expected=0, key=Key("k", b"d"))
    async with open_journal(_REGISTRY) as journal:
        again = await journal.append("a", [_Noted(9)], expected=77, fence=99, key=Key("k", b"d"))
        assert (first.repeated, again.repeated) == (False, True), "it says so"
        assert again.records == first.records, "the records are the original ones"
        assert await journal.find("k") == again, "the key can be looked up"
        conflict = await _refused(journal.append("b", [_Noted(1)], key=Key("k", b"other")), IdempotencyConflict)
        assert conflict.position == 1, "the conflict names the first record"
        assert len(await _all(journal)) == 2, "nothing was written"


async def repeats_by_key_at_once(open_journal: OpenJournal) -> None:
    """Equal commits with one key at the same moment write once."""
    async with open_journal(_REGISTRY) as journal:
        repeated: list[bool] = []

        async def submit() -> None:
            committed = await journal.append("a", [_Noted(1)], expected=0, key=Key("k", b"d"))
            repeated.append(committed.repeated)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(submit)
        assert sorted(repeated) == [False, *[True] * 9], "one was the first"
        assert len(await _all(journal)) == 1, "one record"


async def fences_drivers(open_journal: OpenJournal) -> None:
    """Driver events need a fence; a fence that is over writes nothing."""
    async with open_journal(_REGISTRY) as journal:
        await _refused(journal.append("a", [_Driven(1)]), InvalidWrite)
        async with journal.drive("first") as old:
            await journal.append("a", [_Driven(1)], fence=old)
        async with journal.drive("second") as new:
            assert new > old, "the epoch rises"
            stale = await _refused(journal.append("a", [_Driven(2)], fence=old), StaleFence)
            assert (stale.fence, stale.epoch) == (old, new), "the error names both"
            await journal.append("a", [_Driven(2)], fence=new)
        assert len(await _all(journal)) == 2, "nothing stale was written"


async def indexes_streams(open_journal: OpenJournal) -> None:
    """Streams are found by label, prefix and due time, in order of creation; label None leaves the label."""
    async with open_journal(_REGISTRY) as journal, journal.drive("driver") as fence:
        for name, label, wake_at in (("run/2", "open", 5), ("run/1", "open", None), ("other", "open", 9)):
            await journal.append(name, [_Noted(1)], label=label, wake_at=wake_at, fence=fence)
        await journal.append("run/1", [_Noted(2)], label="done", fence=fence)
        await journal.append("run/2", [_Noted(2)], wake_at=6, fence=fence)
        assert [head.stream async for head in journal.streams()] == ["run/2", "run/1", "other"], "by creation"
        assert [head.stream async for head in journal.streams(label="open")] == ["run/2", "other"], "by label"
        assert [head.stream async for head in journal.streams(prefix="run/")] == ["run/2", "run/1"], "by prefix"
        assert [head.stream async for head in journal.streams(wake_before=6)] == ["run/2"], "by due time"
        assert [head.stream async for head in journal.streams(label="open", wake_before=9, prefix="o")] == ["other"]
        assert [await journal.next_wake(after=moment) for moment in (0, 6, 9)] == [6, 9, None], "the next due time"
        assert await journal.head("run/2") == StreamHead("run/2", 2, 5, "open", 6), "the head is kept"
        (record,) = (await journal.append("run/2", [_Noted(3)])).records
        assert record.wake_at == record.recorded_at, "a commit without a fence is due at once"


async def pages_through_many(open_journal: OpenJournal) -> None:
    """Reading goes on past one page, in order."""
    async with open_journal(_REGISTRY) as journal:
        await journal.append("long", [_Noted(number) for number in range(600)])
        await journal.commit([Write(f"s{number}", [_Noted(number)]) for number in range(600)])
        numbers = [journal.registry.decode(record) async for record in journal.read("long")]
        assert numbers == [_Noted(number) for number in range(600)], "all of a stream"
        assert [record.position for record in await _all(journal)] == list(range(1, 1201)), "all records"
        assert len([head async for head in journal.streams(prefix="s")]) == 600, "all streams"


async def survives_reopening(open_journal: OpenJournal) -> None:
    """What was committed is there when the storage is opened again, under the same id, and verifies."""
    async with open_journal(_REGISTRY) as journal:
        committed = await journal.append("a", [_Noted(1, "x"), _Noted(2)], label="open")
        identity = journal.id
    async with open_journal(_REGISTRY) as journal:
        assert journal.id == identity, "the id stays"
        assert tuple(await _all(journal)) == committed.records, "the records stay"
        await journal.append("a", [_Noted(3)], expected=2)
        checked = await journal.verify()
        assert (checked.problems, checked.records) == ((), 3), "it verifies"


async def stores_large_values_once(open_journal: OpenJournal) -> None:
    """A large value is stored once for each domain, and read back with every record that holds it."""
    big = "large " * 20_000
    domain = Domain("root", b"s" * 32)
    async with open_journal(_REGISTRY) as journal:
        for stream in ("a", "b"):
            await journal.commit([Write(stream, [_Noted(1, big)], domain=domain)])
        records = await _all(journal)
        assert [journal.registry.decode(record) for record in records] == [_Noted(1, big)] * 2, "whole again"
        assert all(len(record.content) < 200 for record in records), "the records only refer to it"
        assert records[0].values == records[1].values, "both refer to the same bytes"
        assert (await journal.verify()).ok, "it verifies"


async def keeps_snapshots_as_a_cache(open_journal: OpenJournal) -> None:
    """A snapshot is given back for its fingerprint alone, and only one is kept for each stream."""
    async with open_journal(_REGISTRY) as journal:
        await journal.append("a", [_Noted(1), _Noted(2)])
        await journal.save_snapshot("a", 1, "code 1", b"one")
        await journal.save_snapshot("a", 2, "code 1", b"two")
        await journal.save_snapshot("a", 3, "code 1", b"ahead of the stream")
    async with open_journal(_REGISTRY) as journal:
        assert await journal.load_snapshot("a", "code 1") == (2, b"two"), "the last one that fits"
        assert await journal.load_snapshot("a", "code 2") is None, "not for other code"
        assert await journal.load_snapshot("a", "code 1") is None, "and dropped then"
        assert await journal.load_snapshot("absent", "code 1") is None, "none for no stream"


async def isolates_callers(open_journal: OpenJournal) -> None:
    """One caller's conflict or bad value fails nobody else."""
    async with open_journal(_REGISTRY) as journal:
        outcomes: dict[int, str] = {}

        async def attempt(number: int, note: object, expected: int) -> None:
            try:
                await journal.append(f"s{number}", [note], expected=expected)
            except JournalError as error:
                outcomes[number] = type(error).__name__

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(attempt, number, _Noted(number), 7 if number % 4 == 1 else 0)
            nursery.start_soon(attempt, 40, _Noted(40, float("nan")), 0)
            nursery.start_soon(attempt, 41, _Unregistered(), 0)
        conflicts = dict.fromkeys(range(1, 40, 4), VersionConflict.__name__)
        assert outcomes == {**conflicts, 40: InvalidValue.__name__, 41: UnregisteredEvent.__name__}, f"{outcomes}"
        assert len(await _all(journal)) == 30, "all others are written"


async def refuses_malformed_commits(open_journal: OpenJournal) -> None:
    """Empty, doubled and badly named writes are refused at the door."""
    async with open_journal(_REGISTRY) as journal:
        one = [_Noted(1)]
        twice = [Write("a", one), Write("a", one)]
        for writes in ([], [Write("a", [])], twice, [Write("a", one), Write("b", [])]):
            await _refused(journal.commit(writes), InvalidWrite)
        for name in ("", "x" * 201, "a\nb", "a\0b", "\ud800"):
            await _refused(journal.append(name, one), InvalidWrite)
            await _refused(journal.append("a", one, label=name), InvalidWrite)
            await _refused(journal.append("a", one, key=Key(name, b"d")), InvalidWrite)
            assert [record async for record in journal.read(name)] == [], "and nothing is there to read"
        await _refused(journal.append("a", one, expected=-1), InvalidWrite)
        await _refused(journal.append("a", one, wake_at=2**63), InvalidWrite)
        await journal.append("x" * 200, one, label="Zürich ✓")
        assert len(await _all(journal)) == 1, "nothing else was written"


async def keeps_odd_content(open_journal: OpenJournal) -> None:
    """NUL, lone surrogates, big integers and emptiness come back as they were."""
    odd: list[Value] = ["\0", "\ud800 lone", "", 2**200, -(2**63), 2**64 - 1, [], {}, b"", {"": None}, "\U0001f600"]
    async with open_journal(_REGISTRY) as journal:
        await journal.append("a", [_Noted(1, value) for value in odd])
        decoded = [journal.registry.decode(record) async for record in journal.read("a")]
        assert decoded == [_Noted(1, value) for value in odd], "unchanged"


async def tails_without_loss(open_journal: OpenJournal) -> None:
    """A tail gives what is there, then what comes, each record once, in order; leaving it early is fine."""
    async with open_journal(_REGISTRY) as journal:
        await journal.append("a", [_Noted(number) for number in range(300)])
        seen: list[int] = []

        async def follow() -> None:
            async for record in journal.tail(after=100):
                seen.append(record.position)
                if record.position == 420:
                    break

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            for number in range(120):
                await journal.append("b" if number % 2 else "a", [_Noted(number)])
        assert seen == list(range(101, 421)), "each once, in order"


async def loses_no_news(open_journal: OpenJournal) -> None:
    """News of a commit that came between two waits is there at the next wait."""
    async with open_journal(_REGISTRY) as journal, journal.news() as news:
        await journal.append("a", [_Noted(1)])
        await journal.append("a", [_Noted(2)])
        assert await news.wait(), "several commits make one piece of news"
        with trio.CancelScope() as scope:
            scope.cancel()
            await news.wait()
        await journal.append("a", [_Noted(3)])
        assert await news.wait(), "a cancelled wait loses nothing"


async def closes_for_good(open_journal: OpenJournal) -> None:
    """After the block, every use is refused, and waiting readers are let go."""
    ended: list[str] = []

    async def follow(journal: Journal, ready: trio.Event) -> None:
        ready.set()
        async for _ in journal.tail():
            pass
        ended.append("tail")

    async with trio.open_nursery() as nursery:
        async with open_journal(_REGISTRY) as journal:
            ready = trio.Event()
            nursery.start_soon(follow, journal, ready)
            await ready.wait()
        await _refused(journal.append("a", [_Noted(1)]), JournalClosed)
        await _refused(journal.head("a"), JournalClosed)
        await _refused(anext(aiter(journal.read("a"))), JournalClosed)
        await _refused(anext(aiter(journal.streams())), JournalClosed)
    assert ended == ["tail"], "a tail ends with the block"


async def commits_whole_when_cancelled(open_journal: OpenJournal) -> None:
    """A cancelled commit is written whole or not at all, and the next one succeeds."""
    async with open_journal(_REGISTRY) as journal:
        with trio.CancelScope() as scope:
            scope.cancel()
            await journal.append("a", [_Noted(1), _Noted(2)])
        head = await journal.head("a")
        assert head is None or head.version == 2, "whole or not at all"
        await journal.append("a", [_Noted(3)])
        assert (await journal.verify()).ok, "it verifies"


PROMISES: Final[tuple[Promise, ...]] = (
    starts_empty,
    reads_what_it_wrote,
    numbers_without_gaps,
    commits_all_or_nothing,
    holds_expected_and_required_versions,
    repeats_by_key,
    repeats_by_key_at_once,
    fences_drivers,
    indexes_streams,
    pages_through_many,
    survives_reopening,
    stores_large_values_once,
    keeps_snapshots_as_a_cache,
    isolates_callers,
    refuses_malformed_commits,
    keeps_odd_content,
    tails_without_loss,
    loses_no_news,
    closes_for_good,
    commits_whole_when_cancelled,
)
"""Every promise, for a test runner that wants them one by one."""


async def _all(journal: Journal) -> list[Record]:
    return [record async for record in journal.read_all()]


async def _refused(attempt: Awaitable[object], kind: type[E]) -> E:
    try:
        await attempt
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
