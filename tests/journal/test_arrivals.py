"""Arrivals: what others than the driver append, and nothing else, wakes who looks after a journal."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from attrs import frozen
from trio.testing import wait_all_tasks_blocked

from trouper_journal import Arrival, EventRegistry, Journal, VersionConflict, event


@event("test.noted")
@frozen
class Noted:
    number: int


@event("test.driven", driver=True)
@frozen
class Driven:
    number: int


REGISTRY = EventRegistry([Noted, Driven])


async def test_only_appends_without_a_fence_arrive_with_their_versions(tmp_path: Path) -> None:
    seen: list[Arrival | None] = []

    async def follow(journal: Journal) -> None:
        async with journal.arrivals() as arrivals:
            ready.set()
            while (arrival := await arrivals.wait()) is not None:
                seen.append(arrival)

    ready = trio.Event()
    async with (
        Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal,
        journal.drive("me") as fence,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(follow, journal)
        await ready.wait()
        await journal.append("a", [Driven(1)], fence=fence)
        await wait_all_tasks_blocked()
        assert seen == []
        await journal.append("a", [Noted(2), Noted(3)])
        await wait_all_tasks_blocked()
        assert seen == [Arrival({"a": 3}, elsewhere=False)]
        await journal.append("b", [Driven(4)], fence=fence)
        await wait_all_tasks_blocked()
        assert len(seen) == 1
        nursery.cancel_scope.cancel()


async def test_several_appends_make_one_arrival_and_a_cancelled_wait_loses_none() -> None:
    async with Journal.open(registry=REGISTRY) as journal, journal.arrivals() as arrivals:
        await journal.append("a", [Noted(1)])
        await journal.append("b", [Noted(2)])
        with trio.CancelScope() as scope:
            scope.cancel()
            await arrivals.wait()
        await journal.append("a", [Noted(3)])
        assert await arrivals.wait() == Arrival({"a": 2, "b": 1}, elsewhere=False)


async def test_the_commit_of_another_process_arrives_without_its_streams(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with trio.fail_after(30):
        async with (
            Journal.open(path, registry=REGISTRY) as journal,
            Journal.open(path, registry=REGISTRY) as other,
            journal.arrivals() as arrivals,
        ):
            await other.append("a", [Noted(1)])
            assert await arrivals.wait() == Arrival({}, elsewhere=True)


async def test_a_foreign_commit_between_two_own_ones_is_found_by_the_second(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with trio.fail_after(30):
        async with (
            Journal.open(path, registry=REGISTRY) as journal,
            Journal.open(path, registry=REGISTRY) as other,
            journal.arrivals() as arrivals,
        ):
            await journal.append("mine", [Noted(1)])
            assert await arrivals.wait() == Arrival({"mine": 1}, elsewhere=False)
            await other.append("theirs", [Noted(1)])
            await journal.append("mine", [Noted(2)])
            # Nobody waited meanwhile: only the write itself can have noticed.
            assert await arrivals.wait() == Arrival({"mine": 2}, elsewhere=True)


async def test_a_refused_commit_tells_of_the_foreign_one_that_stood_against_it(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with trio.fail_after(30):
        async with (
            Journal.open(path, registry=REGISTRY) as journal,
            Journal.open(path, registry=REGISTRY) as other,
            journal.arrivals() as arrivals,
        ):
            await journal.append("a", [Noted(1)])
            assert await arrivals.wait() is not None
            await other.append("a", [Noted(2)])
            with pytest.raises(VersionConflict):
                await journal.append("a", [Noted(3)], expected=1)
            assert await arrivals.wait() == Arrival({}, elsewhere=True)


async def test_leaving_the_journal_ends_the_wait() -> None:
    ended = trio.Event()

    async def follow(journal: Journal) -> None:
        async with journal.arrivals() as arrivals:
            assert await arrivals.wait() is None
        ended.set()

    async with trio.open_nursery() as nursery:
        async with Journal.open(registry=REGISTRY) as journal:
            nursery.start_soon(follow, journal)
            await wait_all_tasks_blocked()
        await ended.wait()
