"""Cancelled anywhere: a commit is whole or absent, the next one succeeds, and what must still be written can be."""

from __future__ import annotations

import pytest
import trio
from tests.journal.notes import REGISTRY, Gate, Note, numbers
from trio.testing import wait_all_tasks_blocked

from trouper_journal import Journal, MemoryStore
from trouper_journal.testing import FaultyStore, NewStorage


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when any task is about to take the n-th step from now."""

    def __init__(self, step: int) -> None:
        self.scope = trio.CancelScope()
        self._left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self.scope.cancel()


async def test_an_append_cancelled_at_any_step_is_whole_or_absent(new_storage: NewStorage) -> None:
    async with new_storage()(REGISTRY) as journal:
        cancelled = 0
        for step in range(1, 200):
            instrument = CancelAtStep(step)
            trio.lowlevel.add_instrument(instrument)
            with instrument.scope:
                await journal.append(f"s{step}", [Note(1), Note(2)])
            trio.lowlevel.remove_instrument(instrument)
            with trio.fail_after(5):
                await journal.append("after", [Note(step)])
            head = await journal.head(f"s{step}")
            assert head is None or head.version == 2
            if not instrument.scope.cancelled_caught:
                break
            cancelled += 1
        assert cancelled >= 2
        assert head is not None
        assert await numbers(journal, "after") == list(range(1, cancelled + 2))
        assert (await journal.verify()).ok


async def test_what_was_taken_up_before_the_cancellation_is_still_written() -> None:
    gate = Gate()
    async with Journal.over(FaultyStore(MemoryStore(b"0" * 16), before_write=gate), registry=REGISTRY) as journal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.append, "a", [Note(1)])
            await gate.reached.wait()
            nursery.cancel_scope.cancel()
        gate.open.set()
        await journal.append("a", [Note(2)])
        assert await numbers(journal, "a") == [1, 2]


async def test_what_still_waited_at_the_cancellation_is_withdrawn() -> None:
    gate = Gate()
    async with (
        Journal.over(FaultyStore(MemoryStore(b"0" * 16), before_write=gate), registry=REGISTRY) as journal,
        trio.open_nursery() as others,
    ):
        others.start_soon(journal.append, "a", [Note(1)])
        await gate.reached.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.append, "a", [Note(2)])
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        gate.open.set()
        await journal.append("a", [Note(3)])
        assert await numbers(journal, "a") == [1, 3]


async def test_a_cancelled_program_can_still_write_what_it_must(new_storage: NewStorage) -> None:
    open_journal = new_storage()
    with trio.CancelScope() as scope:
        async with open_journal(REGISTRY) as journal:
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await journal.append("a", [Note(1)])
    assert scope.cancelled_caught
    async with open_journal(REGISTRY) as journal:
        assert await numbers(journal, "a") == [1]


async def test_opening_can_be_cancelled(new_storage: NewStorage) -> None:
    open_journal = new_storage()
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_journal(REGISTRY):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    async with open_journal(REGISTRY) as journal:
        await journal.append("a", [Note(1)])


async def test_what_waits_when_the_block_is_left_is_written() -> None:
    gate = Gate()
    store = MemoryStore(b"0" * 16)
    async with trio.open_nursery() as nursery:  # noqa: SIM117 -- the callers outlive the block
        async with Journal.over(FaultyStore(store, before_write=gate), registry=REGISTRY) as journal:
            for number in range(50):
                nursery.start_soon(journal.append, f"s{number}", [Note(number)])
            await gate.reached.wait()
            await wait_all_tasks_blocked()
            gate.open.set()
    async with Journal.over(store, registry=REGISTRY) as journal:
        assert len([head async for head in journal.streams()]) == 50


async def test_an_error_of_the_block_comes_out_as_it_is(new_storage: NewStorage) -> None:
    with pytest.raises(LookupError, match=r"^mine$"):
        async with new_storage()(REGISTRY):
            raise LookupError("mine")


async def test_a_cancelled_wait_in_a_tail_loses_no_record(new_storage: NewStorage) -> None:
    async with new_storage()(REGISTRY) as journal:
        tail = journal.tail()
        for number in range(1, 6):
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(tail)
            await journal.append("a", [Note(number)])
            assert (await anext(tail)).position == number
