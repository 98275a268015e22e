"""Models are others' code: whatever one gives back is an outcome of its call, told once and never asked for again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import attrs
import pytest

from trouper import AI, Agent, Message, ModelConfig, ModelReply, RunFailed, Runtime, ToolSpec
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
