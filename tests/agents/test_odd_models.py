"""Models are others' code: whatever one gives back is an outcome of its call, told once and never asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio.testing

from trouper import AI, Agent, Message, ModelConfig, ModelReply, RunCancelled, RunFailed, Runtime, ToolSpec
from trouper.core.conversation import ToolCall, Usage


@attrs.define
class Odd:
    """A model that answers with anything, and counts how often it is asked."""

    answer: object
    name: str = "odd"
    asked: int = 0

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> ModelReply:
        self.asked += 1
        return cast("ModelReply", self.answer)


WRONG: dict[str, tuple[object, str]] = {
    "nothing": (None, "NoneType, which is no ModelReply"),
    "a text": ("Hello.", "str, which is no ModelReply"),
    "a bare message": (AI("", "Hello."), "AI, which is no ModelReply"),
    "a reply of a text": (ModelReply(cast("AI", "Hello.")), "str, which is no AI message"),
    "calls that are none": (
        ModelReply(AI("", None, (cast("ToolCall", "add"),))),
        "which is no AI message with tool calls",
    ),
    "no usage": (ModelReply(AI("", "Hello."), usage=cast("Usage", None)), "NoneType, which is no Usage"),
    "a finish reason of another type": (ModelReply(AI("", "Hello."), cast("str", 5)), "finish: int is not text"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_reply_that_is_none_fails_the_run_by_its_model_and_costs_one_call(tmp_path: Path, what: str) -> None:
    answer, told = WRONG[what]
    model = Odd(answer)
    async with Runtime.open(tmp_path / "j.db", [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Hello?")
        with pytest.raises(RunFailed, match=told):
            await run.wait()
        assert model.asked == 1
        model.answer = ModelReply(AI("", "Hello."))
        await runtime.resume(run.id, by="maria", reason="the adapter is mended")
        assert (await run.wait()).output == "Hello."


@attrs.define
class Wild:
    """A model that does anything, until it is told to behave."""

    does: Callable[[], Awaitable[None]] | None
    name: str = "wild"
    asked: trio.Event = attrs.field(factory=trio.Event)

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> ModelReply:
        self.asked.set()
        if self.does is not None:
            await self.does()
        return ModelReply(AI("", "Hello."))


async def leak_a_cancelled() -> None:
    kept: BaseException | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept = error
    assert kept is not None
    raise kept


async def raise_what_asyncio_raises() -> None:
    await trio.lowlevel.checkpoint()
    raise asyncio.CancelledError


@pytest.mark.parametrize("does", [leak_a_cancelled, raise_what_asyncio_raises])
async def test_a_cancellation_that_is_not_ours_is_a_failed_call(
    tmp_path: Path, does: Callable[[], Awaitable[None]]
) -> None:
    model = Wild(does)
    async with Runtime.open(tmp_path / "j.db", [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Hello?")
        with pytest.raises(RunFailed, match=r"model wild: it let Cancelled.* escape"):
            await run.wait()
        model.does = None
        assert (await (await runtime.submit("desk", "Hello?")).wait()).output == "Hello."


async def fail_while_being_cancelled() -> None:
    async def breaking() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("the connection broke off")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaking)
        nursery.start_soon(trio.sleep_forever)


async def test_a_call_that_fails_while_it_is_cancelled_ends_its_run_alone(tmp_path: Path) -> None:
    model = Wild(fail_while_being_cancelled)
    async with Runtime.open(tmp_path / "j.db", [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Hello?")
        await model.asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        await run.cancel(by="maria")
        with pytest.raises(RunCancelled):
            await run.wait()
        model.does = None
        assert (await (await runtime.submit("desk", "Hello?")).wait()).output == "Hello."
