"""The company: the system of actors that a runtime keeps, in a task of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import final

import trio

from trouper.agent import Agent
from trouper.errors import ActorError
from trouper.kit import ActorSystem, Ref, open_system
from trouper.models import Model
from trouper.runtime.agent import AgentActor
from trouper.runtime.approver import Approver
from trouper.runtime.desk import Desk, further_model
from trouper.runtime.executor import Executor
from trouper.runtime.model import ModelActor
from trouper.runtime.overseer import Overseer
from trouper.runtime.protocol import AbandonAll, AbortAll, AgentMessage, ModelMessage
from trouper.sub_agents import SubAgent

_MAILBOX = 1000


@final
class Company:
    """Keeps the actor system, where outer cancellation does not reach it.

    What is under way when the block is cancelled is first brought to a recorded end, in bounded time.

    Args:
        desk: What the actors share.
        drain: Seconds that stopping the actors may take.
        grace: Seconds that a cancelled tool has to clean up.
        model_concurrency: How many calls of one model may be out at once; None for no limit.
    """

    def __init__(self, desk: Desk, *, drain: float, grace: float, model_concurrency: int | None) -> None:
        self._desk = desk
        self._drain = drain
        self._grace = grace
        self._model_concurrency = model_concurrency
        self._overseer = Overseer(desk.audience.stuck)
        self._system: ActorSystem | None = None
        self._ready = trio.Event()
        self._stop = trio.Event()
        self._gone = trio.Event()

    @property
    def system(self) -> ActorSystem:
        """The living system."""
        assert self._system is not None
        return self._system

    def begin(self, run: str, make: Callable[[], AgentActor]) -> Ref[AgentMessage]:
        """Start a run's agent; ``make`` makes it, again for each restart."""
        return self._overseer.begin(self.system, run, make)

    @property
    def gone(self) -> trio.Event:
        """Set when no actor is left, in order or by a crash."""
        return self._gone

    @asynccontextmanager
    async def open(
        self,
        watchers: Sequence[Callable[[], Awaitable[None]]],
        bring_to_end: Callable[[], Awaitable[None]],
        when_gone: Callable[[], None],
    ) -> AsyncIterator[None]:
        """Keep the actors for the length of a block.

        Args:
            watchers: Tasks that run beside the actors.
            bring_to_end: Called, shielded, when the block is left, to let what is under way come to its end.
            when_gone: Called when no actor is left.
        """
        manager = trio.open_nursery()
        nursery = await manager.__aenter__()
        # Not by `nursery.start`: cancelled, that would wait for the host, and the host for the end of the block.
        nursery.start_soon(self._host, watchers, when_gone)
        try:
            await self._ready.wait()
            yield
        except BaseException as error:
            await self._leave(manager, nursery, bring_to_end)
            if nursery.cancel_scope.cancel_called:
                # One of our own tasks has crashed, which is a defect: its error must come out, in the nursery's way.
                if await manager.__aexit__(type(error), error, error.__traceback__):
                    return
                raise
            # What the block raised is the caller's: it leaves as it is, not in a group.
            await manager.__aexit__(None, None, None)
            raise
        await self._leave(manager, nursery, bring_to_end)
        await manager.__aexit__(None, None, None)

    async def _leave(
        self,
        manager: AbstractAsyncContextManager[trio.Nursery],
        nursery: trio.Nursery,
        bring_to_end: Callable[[], Awaitable[None]],
    ) -> None:
        try:
            await self._close(nursery, bring_to_end)
        except BaseException:
            # Ctrl-C again, or a defect: do not wait for what is under way; but the nursery must be left in order.
            self._stop.set()
            nursery.cancel_scope.cancel()
            await manager.__aexit__(None, None, None)
            raise

    async def _close(self, nursery: trio.Nursery, bring_to_end: Callable[[], Awaitable[None]]) -> None:
        """Empty the nursery, so that leaving it waits for nothing that an outer cancel could come between."""
        with trio.CancelScope(shield=True):
            try:
                await bring_to_end()
            finally:
                self._stop.set()
            await self._gone.wait()
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()

    @trio.lowlevel.enable_ki_protection
    async def _host(self, watchers: Sequence[Callable[[], Awaitable[None]]], when_gone: Callable[[], None]) -> None:
        with trio.CancelScope(shield=True):
            try:
                await self._keep(watchers)
            finally:
                try:
                    await self._close_models()
                finally:
                    self._gone.set()
                    when_gone()

    async def _keep(self, watchers: Sequence[Callable[[], Awaitable[None]]]) -> None:
        async with open_system(name="trouper", clock=self._desk.clock) as system:
            self._system = system
            await self._hire(system)
            async with trio.open_nursery() as nursery:
                for watcher in watchers:
                    nursery.start_soon(watcher)
                self._ready.set()
                await self._stop.wait()
                nursery.cancel_scope.cancel()
            with self._desk.clock.timeout(self._drain) as limit:
                await system.stop()
            if limit.cancelled_caught:
                system.cancel()

    async def _close_models(self) -> None:
        """Close what connections the models keep: not their actors' part, for those may have been cancelled."""
        models = {id(model): model for agent in self._desk.agents.values() for model in _models(agent)}
        for model in models.values():
            close = getattr(model, "aclose", None)
            if close is not None:
                with self._desk.clock.timeout(self._drain):
                    await close()

    async def _hire(self, system: ActorSystem) -> None:
        desk = self._desk
        await system.spawn(self._overseer, name="overseer")
        desk.approver = await system.spawn(Approver(desk.agents, desk.policies), name="approver")
        hired: dict[int, Ref[ModelMessage]] = {}
        for agent in desk.agents.values():
            for model in _models(agent):
                if id(model) not in hired:
                    actor = ModelActor(model, desk.broadcast, self._model_concurrency)
                    hired[id(model)] = await system.spawn(actor, name=f"model:{len(hired) + 1}", mailbox=_MAILBOX)
            for further, model in {"": agent.model, **agent.cast}.items():
                desk.models[further_model(agent.name, further)] = hired[id(model)]
            if agent.history is not None and agent.history.summarise is not None:
                desk.summarisers[agent.name] = hired[id(agent.history.summarise)]
            for tool in agent.tools:
                if isinstance(tool, SubAgent):
                    continue
                executor = Executor(tool, desk, self._grace)
                # Neither name can hold a colon, so that two pairs never meet in one name.
                name = f"executor:{agent.name}:{tool.name}"
                desk.executors[agent.name, tool.name] = await system.spawn(executor, name=name, mailbox=_MAILBOX)

    async def cancel_work(self) -> None:
        """Cancel what tools and models have under way; each outcome is delivered as ever."""
        for executor in self._desk.executors.values():
            await _tell(executor.tell(AbortAll()))
        for model in {*self._desk.models.values(), *self._desk.summarisers.values()}:
            await _tell(model.tell(AbandonAll()))


def _models(agent: Agent) -> tuple[Model, ...]:
    """The models that an agent asks."""
    summarises = agent.history.summarise if agent.history is not None else None
    return (agent.model, *agent.cast.values(), *(() if summarises is None else (summarises,)))


async def _tell(telling: Awaitable[None]) -> None:
    try:
        await telling
    except ActorError:
        # An actor that is gone has nothing under way.
        return
