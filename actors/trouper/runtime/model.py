"""The model actor: one for each model; calls it, within its limit, and holds each reply until it is durable."""

from __future__ import annotations

from contextlib import aclosing

import trio
from attrs import define

from trouper.core.conversation import AI, ToolCall, Usage
from trouper.core.exchange import Finished, ModelReply
from trouper.errors import ModelError
from trouper.kit import Actor
from trouper.models import Model, astream
from trouper.runtime.broadcast import Broadcast, piece_of
from trouper.runtime.protocol import (
    Abandon,
    AbandonAll,
    Calling,
    Deliver,
    Generate,
    Held,
    ModelMessage,
    Replied,
    ReplySettled,
)
from trouper.tools._outcomes import is_fatal, our_cancellation, outcome_types
from trouper_journal import Printable


@define(eq=False, repr=False)
class _Call(Printable):
    index: int
    attempt: int
    deliver: Deliver
    scope: trio.CancelScope | None = None
    replied: Replied | None = None


class ModelActor(Actor[ModelMessage]):
    """Makes the calls of one model.

    Args:
        model: The model.
        broadcast: Tells whoever listens what comes.
        concurrency: How many calls may be out at once; None for no limit.
    """

    def __init__(self, model: Model, broadcast: Broadcast, concurrency: int | None = None) -> None:
        self._model = model
        self._broadcast = broadcast
        self._limiter = None if concurrency is None else trio.CapacityLimiter(concurrency)
        self._calls: dict[str, _Call] = {}

    async def receive(self, message: ModelMessage) -> Held | None:
        """Start a call, end one, forget one, or tell what is held of one."""
        match message:
            case Generate():
                call = self._calls[message.run] = _Call(message.index, message.attempt, message.deliver)
                call.scope = self.context.start_task(self._generate, message, call)
            case Abandon(run):
                self._end(self._calls.pop(run, None))
            case AbandonAll():
                for call in self._calls.values():
                    if call.replied is None:
                        self._end(call)
                        self._deliver(call, Replied(call.index, call.attempt, None))
            case ReplySettled(run, index, attempt):
                if self._find(run, index, attempt) is not None:
                    del self._calls[run]
            case Calling(run, index, attempt, deliver):
                return self._hand_over(self._find(run, index, attempt), deliver)
        return None

    def _find(self, run: str, index: int, attempt: int) -> _Call | None:
        call = self._calls.get(run)
        return call if call is not None and (call.index, call.attempt) == (index, attempt) else None

    def _end(self, call: _Call | None) -> None:
        if call is not None and call.scope is not None:
            call.scope.cancel()

    def _hand_over(self, call: _Call | None, deliver: Deliver) -> Held:
        if call is None:
            return Held()
        call.deliver = deliver
        return Held("under_way") if call.replied is None else Held("over", call.replied)

    def _deliver(self, call: _Call, replied: Replied) -> None:
        call.replied = replied
        call.deliver(replied)

    async def _generate(self, message: Generate, call: _Call) -> None:
        self._deliver(call, await self._attempt(message))

    async def _attempt(self, message: Generate) -> Replied:
        try:
            if self._limiter is None:
                reply = await self._ask(message)
            else:
                async with self._limiter:
                    reply = await self._ask(message)
        except Exception as error:  # noqa: BLE001 -- whatever a model raises is an outcome of its call
            return Replied(message.index, message.attempt, None, error)
        except outcome_types() as error:
            if is_fatal(error):
                raise
            if (ours := our_cancellation(error)) is not None:
                raise ours from None
            told = f"model {self._model.name}: it let {type(error).__name__} escape, of a cancellation of its own"
            return Replied(message.index, message.attempt, None, ModelError(told))
        wrong = _misfit(reply)
        if wrong:
            return Replied(message.index, message.attempt, None, ModelError(f"model {self._model.name}: {wrong}"))
        return Replied(message.index, message.attempt, reply)

    async def _ask(self, message: Generate) -> ModelReply:
        """Ask for the whole reply, or, where somebody listens, for its pieces as they come."""
        if not self._broadcast.listened(message.run):
            return await self._model.agenerate(message.messages, message.tools, message.config)
        async with aclosing(astream(self._model, message.messages, message.tools, message.config)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Finished):
                    return chunk.reply
                piece = piece_of(message.run, message.index, message.attempt, chunk)
                if piece is not None:
                    self._broadcast.tell(piece)
        raise ModelError(f"model {self._model.name}: its stream ended before its reply was complete", retryable=True)


def _misfit(reply: object) -> str:
    """What is wrong with a reply, if anything: models are others' code, and asking one again may cost."""
    if not isinstance(reply, ModelReply):
        return f"it answered with {type(reply).__name__}, which is no ModelReply"
    message: object = reply.message
    usage: object = reply.usage
    if not isinstance(message, AI) or not all(isinstance(each, ToolCall) for each in message.tool_calls):
        return f"its reply holds {type(message).__name__}, which is no AI message with tool calls"
    return "" if isinstance(usage, Usage) else f"its reply holds {type(usage).__name__}, which is no Usage"
