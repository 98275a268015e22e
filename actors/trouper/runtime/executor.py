"""The executor actor: one for each tool of an agent; runs attempts and holds each outcome until it is durable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    NOT_BEGUN,
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
    shown,
    tool_attempt,
)
from trouper_journal import Printable, Value

# A query that hangs must not keep a cancelled run from its end.
_QUERY_LIMIT = 30.0

# Threads of one tool; those that hang then starve no other tool.
_THREADS = 40


def _nothing() -> None:
    pass


@define(eq=False, repr=False)
class _Attempt(Printable):
    """An attempt that is under way, or whose outcome is not durable yet, or that goes on though it was given up."""

    attempt: int
    deliver: Deliver
    abort: Callable[[], None] = _nothing
    outcome: Acted | Answered | None = None
    lingering: bool = False


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
        self._held: dict[str, _Attempt] = {}
        self._host: ToolHost | None = None

    async def started(self) -> None:
        """Open the nursery that tools work in."""
        ready = trio.Event()
        self.context.start_task(self._keep_nursery, ready)
        await ready.wait()

    async def _keep_nursery(self, ready: trio.Event) -> None:
        limit = self._tool.options.concurrency
        places = None if limit is None else trio.CapacityLimiter(limit)
        threads = trio.CapacityLimiter(_THREADS)
        async with trio.open_nursery() as nursery:
            self._host = ToolHost(nursery, self._clock, threads, self._grace, self._late, places)
            ready.set()
            try:
                await trio.sleep_forever()
            finally:
                # Tools are shielded: nobody but we can tell them that all of this ends.
                self._abort_all()

    async def receive(self, message: ExecutorMessage) -> Held | None:
        """Begin, end, forget or look up an attempt; never waits for one."""
        match message:
            case Execute():
                self._begin(message)
            case Query():
                self._begin_query(message)
            case Abort(run, action):
                held = self._held.get(_key(run, action))
                if held is not None:
                    held.abort()
            case AbortAll():
                self._abort_all()
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

    def _abort_all(self) -> None:
        for held in self._held.values():
            held.abort()

    def _hold(self, message: Execute | Query) -> _Attempt:
        held = self._held[_key(message.run, message.action)] = _Attempt(message.attempt, message.deliver)
        return held

    def _begin(self, message: Execute) -> None:
        assert self._host is not None

        held = self._hold(message)
        attempt = tool_attempt(
            self._tool,
            message.arguments,
            context=self._describe(message),
            secrets=self._resolve(),
            host=self._host,
            done=partial(self._ended, message, held),
        )
        held.abort = attempt.abort
        self._host.nursery.start_soon(attempt.run, name=f"tool {self._tool.name} {message.run}/{message.action}")

    def _begin_query(self, message: Query) -> None:
        assert self._host is not None
        scope = trio.CancelScope()
        held = self._hold(message)
        held.abort = scope.cancel
        self._host.nursery.start_soon(self._ask, message, held, scope)

    @trio.lowlevel.enable_ki_protection
    async def _ask(self, message: Query, held: _Attempt, scope: trio.CancelScope) -> None:
        with scope:
            held.outcome = await self._query(message, self._describe(message), self._resolve())
        if held.outcome is None:
            held.outcome = Answered(message.action, message.attempt, "unknown", NOT_BEGUN)
        self._tell(held, held.outcome)

    def _ended(self, message: Execute, held: _Attempt, outcome: ToolReturn | None) -> None:
        # Of a call that was ended by an exit nothing is known; this executor goes with it.
        if outcome is not None:
            held.lingering = isinstance(outcome, Failed) and outcome.left
            self._tell(held, self._acted(message.action, message.attempt, outcome, lingering=held.lingering))

    def _tell(self, held: _Attempt, outcome: Acted | Answered) -> None:
        held.outcome = outcome
        # There is nothing more to abort, and the call would refer to itself by that.
        held.abort = _nothing
        held.deliver(outcome)

    def _describe(self, message: Execute | Query) -> ToolContext:
        return ToolContext(
            run=message.run,
            action=f"{message.run}/{message.action}",
            effect_key=f"{message.run}/{message.action}",
            attempt=message.attempt,
            agent=message.agent,
            principal=message.principal,
            state=message.state,
            report=partial(self._progress, message),
        )

    async def _progress(self, message: Execute | Query, value: Value) -> None:
        await trio.lowlevel.checkpoint()
        self._broadcast.tell(ToolProgress(message.run, message.action, message.attempt, value))

    def _resolve(self) -> Mapping[str, str]:
        """The secrets that can be had; the call itself refuses to run without one that it needs."""
        found: dict[str, str] = {}
        for parameter, name in self._tool.options.secrets.items():
            try:
                secret: object = self._secrets(name)
            except Exception:  # noqa: BLE001, S112 -- the source is the user's code; what it raised may quote the secret
                continue
            if isinstance(secret, str):
                found[parameter] = secret
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
            held.lingering = False
            action = context.action.removeprefix(f"{context.run}/")
            held.outcome = self._acted(action, context.attempt, result, late=True)
            held.deliver(held.outcome)


def _key(run: str, action: str) -> str:
    return f"{run}/{action}"


def _more(told: Shown) -> Shown | None:
    """What is told, where it is more than a text and a value."""
    return told if told.parts or told.cut or told.artifact is not None else None
