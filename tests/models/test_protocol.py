"""Anyone can write a model, and stream it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
import trio

from trouper.core.conversation import AI, Human, Message, ToolCall, ToolSpec, Usage
from trouper.errors import ModelError
from trouper.models import (
    Chunk,
    Finished,
    Model,
    ModelConfig,
    ModelReply,
    ReasoningDelta,
    RefusalDelta,
    StreamingModel,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
    astream,
    collect,
    identity,
)


class Echo:
    name = "echo"

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> ModelReply:
        await trio.lowlevel.checkpoint()
        return ModelReply(AI("", f"{messages[-1].content} {len(tools)} {config.max_tokens}"))


class Streaming(Echo):
    def __init__(self) -> None:
        self.closed = False

    async def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> AsyncGenerator[Chunk, None]:
        try:
            yield TextDelta("a")
            yield Finished(await self.agenerate(messages, tools, config))
        finally:
            self.closed = True


async def test_a_model_in_ten_lines_answers_and_streams() -> None:
    model: Model = Echo()
    assert not isinstance(model, StreamingModel)
    async with aclosing(astream(model, [Human("1", "hi")])) as chunks:
        told = [chunk async for chunk in chunks]
    assert told == [TextDelta("hi 0 None"), UsageDelta(Usage()), Finished(ModelReply(AI("", "hi 0 None")))]
    assert identity(model) == {"provider": "Echo", "model": "echo"}


async def test_a_whole_reply_streams_in_pieces_of_each_kind() -> None:
    call = ToolCall("", "add", "{}", "x")
    reply = ModelReply(AI("", "text", (call,), "why", "no"), usage=Usage(1, 2))

    class Fixed(Echo):
        async def agenerate(self, *_: object) -> ModelReply:
            await trio.lowlevel.checkpoint()
            return reply

    async with aclosing(astream(Fixed(), [])) as chunks:
        assert [chunk async for chunk in chunks] == [
            ReasoningDelta("why"),
            TextDelta("text"),
            RefusalDelta("no"),
            ToolCallDelta(0, "x", "add", "{}"),
            UsageDelta(Usage(1, 2)),
            Finished(reply),
        ]


async def test_a_streaming_model_streams_by_itself() -> None:
    model = Streaming()
    reply = await collect(astream(model, [Human("1", "hi")], config=ModelConfig(max_tokens=3)))
    assert reply.message.content == "hi 0 3"
    assert model.closed


async def test_leaving_a_stream_closes_the_models_own() -> None:
    model = Streaming()
    async with aclosing(astream(model, [Human("1", "hi")])) as chunks:
        assert await anext(chunks) == TextDelta("a")
    assert model.closed


async def test_a_stream_without_its_end_is_an_error() -> None:
    async def cut() -> AsyncGenerator[Chunk, None]:
        await trio.lowlevel.checkpoint()
        yield TextDelta("hal")

    with pytest.raises(ModelError, match="before its reply was complete") as caught:
        await collect(cut())
    assert caught.value.retryable


async def test_a_models_own_stream_without_its_end_is_an_error_too() -> None:
    class Broken(Echo):
        async def astream(self, *_: object) -> AsyncGenerator[Chunk, None]:
            await trio.lowlevel.checkpoint()
            yield TextDelta("hal")

    async with aclosing(astream(Broken(), [])) as chunks:
        assert await anext(chunks) == TextDelta("hal")
        with pytest.raises(ModelError, match="before its reply was complete"):
            await anext(chunks)
