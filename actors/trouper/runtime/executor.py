"""The executor actor: one for each tool of an agent; runs attempts and holds each outcome until it is durable."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import trio
from attrs import define

from trouper.kit import Actor
from trouper.runtime.broadcast import ToolProgress
from trouper.runtime.desk import Desk
from trouper.runtime.protocol import (
    Abort,
    AbortAll,
    Acted,
    Answered,
    Deliver,
    Execute,
    ExecutorMessage,
    Held,
    Holding,
    Query,
    Settled,
)
from trouper.tools import (
    Absent,
    Failed,
    Found,
    QueryReturn,
    Returned,
    Shown,
    Timer,
    Tool,
    ToolContext,
    ToolHost,
    ToolReturn,
    Unsure,
    call_query,
    call_tool,
    shown,
)
from trouper_journal import Printable, Value

# A query that hangs must not keep a cancelled run from its end.
_QUERY_LIMIT = 30.0

# Threads of one tool; those that hang then starve no other tool.
_THREADS = 40


@define(eq=False, repr=False)
class _Attempt(Printable):
    """An attempt that is under way, or whose outcome is not durable yet, or that goes on though it was given up."""

    attempt: int
    deliver: Deliver
    scope: trio.CancelScope
    outcome: Acted | Answered | None = None
    lingering: bool = False
    counted: bool = False


class Executor(Actor[ExecutorMessage]):
    """Runs the calls of one tool.

    Args:
        tool: The tool.
        desk: Where its secrets come from, the time, and who listens.
        grace: Seconds that a cancelled call has to end before it is left behind.
    """

    def __init__(self, tool: Tool, desk: Desk, grace: float) -> None:
        self._tool = tool
        self._secrets = desk.secrets
        self._clock = desk.clock
        self._broadcast = desk.broadcast
        self._grace = grace
        limit = tool.options.concurrency
        self._limiter = None if limit is None else trio.CapacityLimiter(limit)
        self._held: dict[str, _Attempt] = {}
        self._host: ToolHost | None = None

    async def started(self) -> None:
        """Open the nursery that tools work in."""
        ready = trio.Event()
        self.context.start_task(self._keep_nursery, ready)
        await ready.wait()

    async def _keep_nursery(self, ready: trio.Event) -> None:
        async with trio.open_nursery() as nursery:
            threads = trio.CapacityLimiter(_THREADS)
            self._host = ToolHost(nursery, self._clock, limiter=threads, grace=self._grace, on_late=self._late)
            ready.set()
            await trio.sleep_forever()

    async def receive(self, message: ExecutorMessage) -> Held | None:
        """Begin, end, forget or look up an attempt; never waits for one."""
        match message:
            case Execute() | Query():
                assert self._host is not None
                scope = trio.CancelScope()
                held = self._held[_key(message.run, message.action)] = _Attempt(message.attempt, message.deliver, scope)
                self._host.nursery.start_soon(self._attempt, message, held)
            case Abort(run, action):
                held_one = self._held.get(_key(run, action))
                if held_one is not None:
                    held_one.scope.cancel()
            case AbortAll():
                for held in self._held.values():
                    held.scope.cancel()
            case Settled(run, action, attempt):
                self._settle(_key(run, action), attempt)
            case Holding(run, action, attempt, deliver):
                return self._hand_over(_key(run, action), attempt, deliver)
        return None

    def _settle(self, key: str, attempt: int) -> None:
        held = self._held.get(key)
        if held is not None and held.attempt == attempt and not held.lingering:
            del self._held[key]

    def _hand_over(self, key: str, attempt: int, deliver: Deliver) -> Held:
        held = self._held.get(key)
        if held is None or held.attempt != attempt:
            return Held()
        held.deliver = deliver
        if held.lingering:
            return Held("lingering", held.outcome)
        return Held("under_way") if held.outcome is None else Held("over", held.outcome)

    # ---- one attempt

    @trio.lowlevel.enable_ki_protection
    async def _attempt(self, message: Execute | Query, held: _Attempt) -> None:
        try:
            with held.scope:
                await self._admitted(held)
                await self._work(message, held)
        finally:
            if not held.lingering:
                self._give_back(held)
        if held.outcome is None:
            held.outcome = _not_begun(message)
        held.deliver(held.outcome)

    async def _admitted(self, held: _Attempt) -> None:
        if self._limiter is not None:
            await self._limiter.acquire_on_behalf_of(held)
            held.counted = True

    def _give_back(self, held: _Attempt) -> None:
        """What goes on though it was given up still takes its place among the calls of the tool."""
        if self._limiter is not None and held.counted:
            held.counted = False
            self._limiter.release_on_behalf_of(held)

    async def _work(self, message: Execute | Query, held: _Attempt) -> None:
        assert self._host is not None
        context = ToolContext(
            run=message.run,
            action=f"{message.run}/{message.action}",
            effect_key=f"{message.run}/{message.action}",
            attempt=message.attempt,
            agent=message.agent,
            principal=message.principal,
            state=message.state,
            report=partial(self._progress, message),
        )
        secrets = self._resolve()
        if isinstance(message, Query):
            held.outcome = await self._query(message, context, secrets)
            return
        result = await call_tool(self._tool, message.arguments, context=context, secrets=secrets, host=self._host)
        held.lingering = isinstance(result, Failed) and result.left
        held.outcome = self._acted(message.action, message.attempt, result, lingering=held.lingering)

    async def _progress(self, message: Execute | Query, value: Value) -> None:
        await trio.lowlevel.checkpoint()
        self._broadcast.tell(ToolProgress(message.run, message.action, message.attempt, value))

    def _resolve(self) -> Mapping[str, str]:
        """The secrets that can be had; the call itself refuses to run without one that it needs."""
        found: dict[str, str] = {}
        for parameter, name in self._tool.options.secrets.items():
            try:
                found[parameter] = self._secrets(name)
            except Exception:  # noqa: BLE001, S112 -- the source is the user's code; what it raised may quote the secret
                continue
        return found

    async def _query(self, message: Query, context: ToolContext, secrets: Mapping[str, str]) -> Answered:
        assert self._host is not None
        # Cut off here, it says that it cannot tell; and where it had no thread yet, it says nothing.
        answer: QueryReturn = Unsure("it could not be asked in time")
        with self._clock.timeout(_QUERY_LIMIT):
            answer = await call_query(self._tool, message.arguments, context=context, secrets=secrets, host=self._host)
        match answer:
            case Found(value):
                plain: Value = value  # type: ignore[assignment]  # call_query gives journal values
                found = value if isinstance(value, Returned) else Returned(plain)
                told = shown(found, self._tool.options.max_result)
                action, attempt = message.action, message.attempt
                return Answered(action, attempt, "found", told.text, told.whole, found.update, _more(told))
            case Absent():
                return Answered(message.action, message.attempt, "absent", "")
            case _:
                return Answered(message.action, message.attempt, "unknown", answer.reason)

    def _acted(
        self, action: str, attempt: int, result: ToolReturn, *, lingering: bool = False, late: bool = False
    ) -> Acted:
        """A tool's outcome as an agent is told of it."""
        retry = self._tool.options.retry
        match result:
            case Returned(timer=Timer() as timer):
                # The text is for where it comes too late for the timer to be set.
                return Acted(
                    action, attempt, "returned", timer.text, None, lingering, late, result.update, retry, timer=timer
                )
            case Returned():
                told = shown(result, self._tool.options.max_result)
                more = _more(told)
                return Acted(
                    action, attempt, "returned", told.text, told.whole, lingering, late, result.update, retry, more
                )
            case Failed(kind, message):
                wait = result.retry_after
                return Acted(action, attempt, kind, message, None, lingering, late, retry=retry, retry_after=wait)

    def _late(self, context: ToolContext, result: ToolReturn, /) -> None:
        """What was left behind has come back after all."""
        held = self._held.get(context.action)
        if held is not None and held.attempt == context.attempt:
            self._give_back(held)
            held.lingering = False
            action = context.action.removeprefix(f"{context.run}/")
            held.outcome = self._acted(action, context.attempt, result, late=True)
            held.deliver(held.outcome)


def _key(run: str, action: str) -> str:
    return f"{run}/{action}"


def _not_begun(message: Execute | Query) -> Acted | Answered:
    text = "it was cancelled before it began"
    if isinstance(message, Query):
        return Answered(message.action, message.attempt, "unknown", text)
    return Acted(message.action, message.attempt, "not_begun", text)


def _more(told: Shown) -> Shown | None:
    """What is told, where it is more than a text and a value."""
    return told if told.parts or told.cut or told.artifact is not None else None
