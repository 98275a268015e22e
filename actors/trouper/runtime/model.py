"""The model actor: one for each model; calls it, within its limit, and keeps each call until its reply is delivered."""

from __future__ import annotations

import trio
from attrs import define

from trouper.kit import Actor
from trouper.models import Model
from trouper.runtime.protocol import Abandon, AbandonAll, Calling, Deliver, Generate, ModelMessage, Replied


@define(eq=False)
class _Call:
    index: int
    attempt: int
    deliver: Deliver
    scope: trio.CancelScope | None = None


class ModelActor(Actor[ModelMessage]):
    """Makes the calls of one model.

    Args:
        model: The model.
        concurrency: How many calls may be out at once; None for no limit.
    """

    def __init__(self, model: Model, concurrency: int | None = None) -> None:
        self._model = model
        self._limiter = None if concurrency is None else trio.CapacityLimiter(concurrency)
        self._calls: dict[str, _Call] = {}

    async def stopped(self) -> None:
        """Close the model's connections, if it keeps any."""
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()

    async def receive(self, message: ModelMessage) -> bool | None:
        """Start a call, end one, or tell whether one is out."""
        match message:
            case Generate():
                call = self._calls[message.run] = _Call(message.index, message.attempt, message.deliver)
                call.scope = self.context.start_task(self._generate, message, call)
                return None
            case Abandon(run):
                call_out = self._calls.pop(run, None)
                if call_out is not None and call_out.scope is not None:
                    call_out.scope.cancel()
                return None
            case AbandonAll():
                for held in list(self._calls.values()):
                    if held.scope is not None:
                        held.scope.cancel()
                    held.deliver(Replied(held.index, held.attempt, None))
                self._calls.clear()
                return None
            case Calling(run, index, attempt, deliver):
                asked = self._calls.get(run)
                if asked is None or (asked.index, asked.attempt) != (index, attempt):
                    return False
                asked.deliver = deliver
                return True

    async def _generate(self, message: Generate, call: _Call) -> None:
        try:
            replied = await self._attempt(message)
        finally:
            if self._calls.get(message.run) is call:
                del self._calls[message.run]
        call.deliver(replied)

    async def _attempt(self, message: Generate) -> Replied:
        try:
            if self._limiter is None:
                reply = await self._model.agenerate(message.messages, message.tools, message.config)
            else:
                async with self._limiter:
                    reply = await self._model.agenerate(message.messages, message.tools, message.config)
        except Exception as error:  # noqa: BLE001 -- whatever a model raises is an outcome of its call
            return Replied(message.index, message.attempt, None, error)
        return Replied(message.index, message.attempt, reply)
