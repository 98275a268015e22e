"""A call that fails is the failure of that call, and of nothing beside it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.office import AnyTool, Office, World, asks, happened, of, office, until

from trouper import Run, Runtime, ToolMessage, tool
from trouper.core.events import ActionReceipted, ActionUnresolved
from trouper.errors import ToolError

BATCH = asks(("fast", {}), ("boom", {}), ("slow", {}))


async def raise_value_error() -> None:
    raise ValueError("boom")


async def raise_timeout_error() -> None:
    raise TimeoutError("boom")


async def raise_group() -> None:
    raise ExceptionGroup("boom", [ValueError("one"), TimeoutError("two")])


async def raise_base_group() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_value_error)
        nursery.start_soon(raise_timeout_error)


async def raise_tool_error() -> None:
    raise ToolError("boom")


async def leak_cancelled() -> None:
    """End by the Cancelled of a scope of its own that is long closed."""
    leaked: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            leaked = error
            raise
    assert leaked is not None
    raise leaked


BOOMS = (raise_value_error, raise_timeout_error, raise_group, raise_base_group, raise_tool_error, leak_cancelled)


@attrs.define
class Batch:
    """Three tools: ``slow`` returns only when the test has seen what became of ``boom``."""

    boom: Callable[[], object]
    effect: str = "read_only"
    release: trio.Event = attrs.Factory(trio.Event)

    def tools(self, world: World) -> Sequence[AnyTool]:
        @tool
        async def fast() -> str:
            """Do, and return."""
            world.do("fast")
            return "fast done"

        async def boom() -> str:
            """Fail."""
            await self.boom()  # type: ignore[misc]  # all of them are async
            raise AssertionError

        @tool
        async def slow() -> str:
            """Do at once, and return late."""
            world.do("slow")
            await self.release.wait()
            return "slow done"

        failing: AnyTool = tool(effect=self.effect)(boom)  # type: ignore[call-overload]  # one of the classes
        return [fast, failing, slow]


@asynccontextmanager
async def batch(tmp_path: Path, made: Batch) -> AsyncIterator[tuple[Office, Runtime, Run]]:
    async with office(tmp_path, [BATCH, "done"], made.tools) as desk, desk.open() as runtime:
        yield desk, runtime, await runtime.submit("desk", "go")


def alive() -> list[str]:
    """Tasks of tools that are still there."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    found, tasks = [], [root]
    while tasks:
        task = tasks.pop()
        found += [task.name] if task.name.startswith("tool ") else []
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def answers(messages: Sequence[object]) -> list[tuple[str, str]]:
    return [(m.name, m.status) for m in messages if isinstance(m, ToolMessage) and m.name is not None]


@pytest.mark.parametrize("boom", BOOMS, ids=lambda boom: boom.__name__)
async def test_case_03_a_tool_that_fails_leaves_its_siblings_alone(boom: Callable[[], object], tmp_path: Path) -> None:
    made = Batch(boom)
    async with batch(tmp_path, made) as (desk, runtime, run):
        receipts = await happened(runtime, run, ActionReceipted, 2)
        assert {(receipt.action, receipt.outcome) for receipt in receipts} == {("0.0", "ok"), ("0.1", "error")}
        made.release.set()
        result = await run.wait()
        assert sorted(desk.world.effects) == ["fast", "slow"]
        receipts = await of(run, ActionReceipted)
        assert sorted(receipt.outcome for receipt in receipts) == ["error", "ok", "ok"]
        assert answers(result.messages) == [("fast", "ok"), ("boom", "error"), ("slow", "ok")]
        assert alive() == []


@pytest.mark.parametrize("boom", [raise_value_error, raise_group, leak_cancelled], ids=lambda boom: boom.__name__)
async def test_case_03_a_write_that_fails_unexpectedly_is_in_doubt_and_its_siblings_are_done(
    boom: Callable[[], object], tmp_path: Path
) -> None:
    made = Batch(boom, "unqueryable_write")
    async with batch(tmp_path, made) as (desk, runtime, run):
        await happened(runtime, run, ActionUnresolved)
        made.release.set()
        state = await until(runtime, run.id, "in_doubt")
        assert [action.action for action in state.in_doubt] == ["0.1"]
        assert sorted(receipt.action for receipt in await of(run, ActionReceipted)) == ["0.0", "0.2"]
        # Nothing is told to the model before all three are known.
        assert len(desk.stub.requests) == 1
        await runtime.resolve(f"{run.id}/0.1", "not_applied", by="maria")
        result = await run.wait()
        assert answers(result.messages) == [("fast", "ok"), ("boom", "error"), ("slow", "ok")]
        assert alive() == []


async def test_case_03_a_thread_that_fails_leaves_its_siblings_alone(tmp_path: Path) -> None:
    release = threading.Event()

    def tools(world: World) -> Sequence[AnyTool]:
        @tool
        def fast() -> str:
            """Do, and return."""
            world.do("fast")
            return "fast done"

        @tool(effect="read_only")
        def boom() -> str:
            """Fail."""
            raise TimeoutError("boom")

        @tool
        def slow() -> str:
            """Do at once, and return late."""
            world.do("slow")
            release.wait()
            return "slow done"

        return [fast, boom, slow]

    async with office(tmp_path, [BATCH, "done"], tools) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await happened(runtime, run, ActionReceipted, 2)
        release.set()
        result = await run.wait()
        assert sorted(desk.world.effects) == ["fast", "slow"]
        assert answers(result.messages) == [("fast", "ok"), ("boom", "error"), ("slow", "ok")]
        assert alive() == []
