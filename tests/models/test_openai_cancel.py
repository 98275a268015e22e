"""A call that is cancelled at any of its steps leaves nothing open, and the model still works."""

from __future__ import annotations

import gc
from contextlib import aclosing

import pytest
import trio

from trouper.core.conversation import Human
from trouper.testing import Chunks, strict_stub
from trouper_adapters.openai import OpenAIModel

HELLO = [Human("1", "hello")]


class _CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when the task that made it is about to take its n-th step."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self._task = trio.lowlevel.current_task()
        self._left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def _call(model: OpenAIModel, *, stream: bool) -> None:
    if not stream:
        await model.agenerate(HELLO)
        return
    async with aclosing(model.astream(HELLO)) as chunks:
        async for _ in chunks:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_may_be_cancelled_at_every_step(*, stream: bool) -> None:
    cancelled = 0
    with trio.fail_after(60):
        async with strict_stub(lambda _: Chunks([{"content": "a"}] * 3) if stream else "hi") as stub:
            for step in range(1, 200):
                async with OpenAIModel("m", base_url=stub.url, api_key="k") as model:
                    with trio.CancelScope() as scope:
                        instrument = _CancelAtStep(scope, step)
                        trio.lowlevel.add_instrument(instrument)
                        await _call(model, stream=stream)
                    trio.lowlevel.remove_instrument(instrument)
                    await _call(model, stream=stream)
                await stub.wait_until(lambda stub: stub.connections == 0)
                if not scope.cancelled_caught:
                    break
                cancelled += 1
            stub.assert_clean()
    # Nothing was left for the collector to complain about (warnings are errors here).
    gc.collect()
    assert cancelled > 5
    assert step < 199
