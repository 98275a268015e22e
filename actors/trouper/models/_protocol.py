"""What a model is to Trouper: something with a name that answers messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from trouper.core.conversation import Message, ToolSpec, Value
from trouper.core.conversation import text as text_of
from trouper.core.exchange import (
    Chunk,
    Finished,
    ModelConfig,
    ModelReply,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from trouper.errors import ModelError


@runtime_checkable
class Model(Protocol):
    """A model: ``name`` and ``agenerate`` are all that it takes.

    A model may also have ``astream`` (see `StreamingModel`), ``identity() -> Mapping[str, Value]`` (see `identity`),
    ``output_support`` (see `output_support`) and ``aclose()``, which the runtime calls when it is done with the model.
    """

    @property
    def name(self) -> str:
        """The model's name; it enters the journal."""
        ...

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> ModelReply:
        """Answer a conversation: one attempt, without retries of its own.

        Args:
            messages: The conversation, standing instructions first.
            tools: The tools that the model may call.
            config: Settings of this call.

        Returns:
            The complete reply. Ids in its message may be left empty; the runtime sets them.

        Raises:
            ModelError: If there is no reply; its ``retryable`` says whether another attempt may help.
        """
        ...


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can give its reply piece by piece."""

    def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> AsyncIterator[Chunk]:
        """Answer as `Model.agenerate` does, in pieces; the last is `Finished`, with the complete reply.

        Close the iterator (``contextlib.aclosing``) if you leave it early: that ends the request.
        """
        ...


async def astream(
    model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
) -> AsyncGenerator[Chunk, None]:
    """Stream any model's reply; one that cannot stream gives its whole reply in a few pieces.

    Use it under ``contextlib.aclosing``. Cancelling it, or closing it early, ends the request.

    Raises:
        ModelError: If there is no reply, or the stream ended before it was complete.
    """
    config = config or ModelConfig()
    if not isinstance(model, StreamingModel):
        for chunk in pieces(await model.agenerate(messages, tools, config)):
            yield chunk
        return
    async with _closed(model.astream(messages, tools, config)) as chunks:
        async for chunk in chunks:
            yield chunk
            if isinstance(chunk, Finished):
                return
    raise _broken_off()


@asynccontextmanager
async def _closed(chunks: AsyncIterator[Chunk]) -> AsyncIterator[AsyncIterator[Chunk]]:
    """Close a model's stream at the end of the block, if it is of a kind that can be closed."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def pieces(reply: ModelReply) -> list[Chunk]:
    """A whole reply as the chunks of a stream, `Finished` last."""
    message = reply.message
    chunks: list[Chunk] = []
    if message.reasoning:
        chunks.append(ReasoningDelta(message.reasoning))
    if said := text_of(message.content):
        chunks.append(TextDelta(said))
    if message.refusal:
        chunks.append(RefusalDelta(message.refusal))
    chunks += [
        ToolCallDelta(index, call.provider_id, call.name, call.arguments)
        for index, call in enumerate(message.tool_calls)
    ]
    return [*chunks, UsageDelta(reply.usage), Finished(reply)]


async def collect(chunks: AsyncIterator[Chunk]) -> ModelReply:
    """Read a streamed reply to its end and close the stream, also when cancelled.

    Returns:
        The complete reply.

    Raises:
        ModelError: If the stream ended without `Finished`.
    """
    async with _closed(chunks):
        async for chunk in chunks:
            if isinstance(chunk, Finished):
                return chunk.reply
    raise _broken_off()


def _broken_off() -> ModelError:
    return ModelError("the model's stream ended before its reply was complete", retryable=True)


OutputSupport: TypeAlias = Literal["none", "without_tools", "with_tools"]
"""How far a model can be held to a schema (`ModelConfig.output`): not at all; only while it has no tools to call; or
also then, and calls them as ever."""


def output_support(model: Model) -> OutputSupport:
    """What a model says of itself in its attribute ``output_support``; ``none`` where it says nothing known."""
    told = getattr(model, "output_support", "none")
    return "with_tools" if told == "with_tools" else "without_tools" if told == "without_tools" else "none"


def identity(model: Model) -> Mapping[str, Value]:
    """What enters an agent's definition document about its model: never a secret.

    A model's own ``identity()`` if it has one, else its class and its name.
    """
    own = getattr(model, "identity", None)
    if callable(own):
        told = own()
        if isinstance(told, Mapping):
            return told
    return {"provider": type(model).__name__, "model": model.name}
