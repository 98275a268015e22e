"""One attempt at a call: whatever happens in the tool is an outcome."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.core.conversation import Value
from trouper.errors import ToolError, TransientError
from trouper.tools import Failed, Returned, Tool, ToolContext, ToolHost, ToolReturn, call_tool, tool

Call = Callable[..., Awaitable[ToolReturn]]

TOKEN = "tok-3f9c!"


@tool(effect="read_only")
def add(a: int, b: int, /, *, times: int = 1) -> int:
    return (a + b) * times


@tool(effect="read_only")
async def add_async(a: int, b: int = 2) -> dict[str, int]:
    await trio.lowlevel.checkpoint()
    return {"sum": a + b}


async def test_sync_and_async_tools_return(call: Call) -> None:
    assert await call(add, '{"a": 1, "b": 2, "times": 3}') == Returned(9)
    assert await call(add_async, '{"a": 1}') == Returned({"sum": 3})


async def test_a_sync_tool_does_not_run_in_the_loops_thread(call: Call) -> None:
    @tool
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await call(where) == Returned(False)


async def test_secrets_and_context_are_injected(call: Call) -> None:
    seen: list[object] = []

    @tool(secrets={"token": "crm/api-token"})
    def close(ticket: str, token: str, /, *, ctx: ToolContext) -> str:
        seen.extend([ticket, token, ctx.run, ctx.action, ctx.effect_key, ctx.attempt, ctx.agent, ctx.principal])
        return "closed"

    assert await call(close, '{"ticket": "INC-1"}', secrets={"token": TOKEN}) == Returned("closed")
    assert seen == ["INC-1", TOKEN, "r1", "r1/0.0", "r1/0.0", 2, "desk", "maria"]


async def test_without_its_secret_nothing_runs(call: Call) -> None:
    @tool(secrets={"token": "crm/api-token"})
    def close(token: str) -> None:
        raise AssertionError(token)

    assert await call(close) == Failed("tool_error", "secret crm/api-token is not available; nothing was run")


class CardDeclined(Exception):
    pass


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def leak_cancelled() -> None:
    saved: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            saved = error
    assert saved is not None
    raise saved


FAILURES: list[tuple[BaseException, Failed]] = [
    (ToolError("no such ticket"), Failed("tool_error", "no such ticket")),
    (ToolError(), Failed("tool_error", "ToolError")),
    (TransientError("try later"), Failed("transient", "try later")),
    (CardDeclined("no funds"), Failed("exception", "CardDeclined: no funds")),
    (CardDeclined(), Failed("exception", "CardDeclined")),
    (TimeoutError("connect"), Failed("exception", "TimeoutError: connect")),
    (trio.TooSlowError(), Failed("exception", "TooSlowError")),
    (asyncio.CancelledError("loop"), Failed("exception", "CancelledError: loop")),
    (Broken(), Failed("exception", "Broken: (its message cannot be shown: RuntimeError)")),
    (ExceptionGroup("two", [CardDeclined("a"), KeyError("b")]), Failed("exception", "CardDeclined: a; KeyError: 'b'")),
    (ExceptionGroup("known", [ToolError("not found")]), Failed("tool_error", "not found")),
    (ExceptionGroup("known", [TransientError("a"), TransientError("b")]), Failed("transient", "a; b")),
    (
        ExceptionGroup("mixed", [ToolError("a"), CardDeclined("b")]),
        Failed("exception", "ToolError: a; CardDeclined: b"),
    ),
    (
        BaseExceptionGroup("foreign", [asyncio.CancelledError(), ValueError("x")]),
        Failed("exception", "CancelledError; ValueError: x"),
    ),
    (CardDeclined("x" * 5000), Failed("exception", f"CardDeclined: {'x' * 1985}…")),
]


@pytest.mark.parametrize(("error", "outcome"), FAILURES, ids=lambda case: type(case).__name__)
async def test_whatever_a_tool_raises_is_its_outcome(call: Call, error: BaseException, outcome: Failed) -> None:
    @tool
    def sync() -> None:
        raise error

    @tool
    async def in_loop() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    assert await call(sync) == outcome
    assert await call(in_loop) == outcome


async def test_a_cancelled_from_a_tools_own_scope_is_its_outcome(call: Call) -> None:
    @tool
    def sync() -> None:
        trio.from_thread.run(leak_cancelled)

    @tool
    async def grouped() -> None:
        try:
            await leak_cancelled()
        except trio.Cancelled as error:
            raise BaseExceptionGroup("two", [error, ValueError("b")]) from None

    told = "it let the Cancelled of a scope of its own escape"
    for made in (tool(leak_cancelled), sync):
        assert await call(made) == Failed("exception", told)
    assert await call(grouped) == Failed("exception", f"{told}; ValueError: b")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("grouped", [False, True])
async def test_what_must_end_the_process_does(
    context: ToolContext, host: ToolHost, error: type[BaseException], grouped: bool
) -> None:
    raised: BaseException = BaseExceptionGroup("g", [error(), ValueError()]) if grouped else error()

    @tool
    def sync() -> None:
        raise raised

    @tool
    async def in_loop() -> None:
        raise raised

    for made in (sync, in_loop):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with trio.open_nursery() as nursery:
                await call_tool(made, {}, context=context, secrets={}, host=attrs.evolve(host, nursery=nursery))
        assert caught.value.subgroup(error) is not None


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("raises", [None, CardDeclined, lambda: ExceptionGroup("one", [KeyError("a")])])
async def test_what_a_call_held_is_free_when_it_is_over(
    context: ToolContext, host: ToolHost, sync: bool, raises: Callable[[], Exception] | None
) -> None:
    def in_thread(_kept: object) -> None:
        if raises is not None:
            raise raises()

    async def in_loop(_kept: object) -> None:
        if raises is not None:
            raise raises()

    class Kept:
        pass

    made = tool(in_thread if sync else in_loop)
    kept = Kept()
    alive = weakref.ref(kept)
    gc.collect()
    gc.disable()
    try:
        await call_tool(made, {"_kept": kept}, context=context, secrets={}, host=host)
        del kept
        await wait_all_tasks_blocked()
        assert alive() is None
    finally:
        gc.enable()


async def test_a_failing_tool_leaves_its_siblings_alone(context: ToolContext, host: ToolHost) -> None:
    effects: list[str] = []
    boomed = trio.Event()

    @tool
    def fast() -> str:
        effects.append("fast")
        return "fast"

    @tool
    async def boom() -> None:
        boomed.set()
        raise ExceptionGroup("two", [TimeoutError(), ValueError("boom")])

    @tool
    async def slow() -> str:
        effects.append("slow")
        await boomed.wait()
        await wait_all_tasks_blocked()
        return "slow"

    outcomes: dict[str, ToolReturn] = {}

    async def run(made: Tool[..., object]) -> None:
        outcomes[made.name] = await call_tool(made, {}, context=context, secrets={}, host=host)

    async with trio.open_nursery() as batch:
        for made in (slow, boom, fast):
            batch.start_soon(run, made)
    assert outcomes == {
        "fast": Returned("fast"),
        "boom": Failed("exception", "TimeoutError; ValueError: boom"),
        "slow": Returned("slow"),
    }
    assert sorted(effects) == ["fast", "slow"]
    await wait_all_tasks_blocked()
    assert not host.nursery.child_tasks


async def test_secrets_do_not_get_out_by_results_errors_or_progress(host: ToolHost, context: ToolContext) -> None:
    told: list[object] = []

    async def listen(value: object) -> None:
        told.append(value)

    @tool(secrets={"token": "crm/api-token"})
    async def echo(how: str, *, token: str, ctx: ToolContext) -> object:
        await ctx.progress({"with": token})
        if how == "return":
            return {token: [token, token.encode(), ("x", f"-{token}-")]}
        error = ToolError if how == "tell" else ValueError
        raise error("x" * 1990 + token)

    async def outcome(how: str) -> ToolReturn:
        heard = attrs.evolve(context, report=listen)
        return await call_tool(echo, {"how": how}, context=heard, secrets={"token": TOKEN}, host=host)

    returned: Value = {"[secret]": ["[secret]", b"[secret]", ["x", "-[secret]-"]]}
    assert await outcome("return") == Returned(returned)
    for how in ("tell", "fail"):
        failed = await outcome(how)
        assert isinstance(failed, Failed)
        assert TOKEN[:3] not in failed.message
        assert len(failed.message) <= 2000
    assert told == [{"with": "[secret]"}] * 3


async def test_a_result_that_cannot_be_journaled_is_an_outcome(call: Call) -> None:
    @tool(secrets={"token": "crm/api-token"})
    def give(token: str) -> object:
        return {token: object()}

    outcome = await call(give, secrets={"token": TOKEN})
    assert isinstance(outcome, Failed)
    assert outcome.kind == "exception"
    assert "[secret]: object is neither JSON nor" in outcome.message


def traced(function: Callable[..., Coroutine[Any, Any, str]]) -> Callable[..., object]:
    """A decorator that does not know of async functions, as many do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> object:
        return function(*args, **kwargs)

    return wrapper


async def test_an_async_function_in_a_sync_wrapper_is_awaited_in_the_loop(call: Call) -> None:
    @tool
    @traced
    async def hidden(city: str) -> str:
        await trio.lowlevel.checkpoint()
        return city

    assert await call(hidden, '{"city": "Oslo"}') == Returned("Oslo")


async def test_the_deadline_is_the_nearest_one(host: ToolHost, context: ToolContext) -> None:
    @tool(timeout=60)
    async def until(ctx: ToolContext) -> int | None:
        return ctx.deadline

    async def told(moment: int | None) -> object:
        given = attrs.evolve(context, deadline=moment)
        outcome = await call_tool(until, {}, context=given, secrets={}, host=host)
        assert isinstance(outcome, Returned)
        return outcome.value

    now = host.clock.now()
    assert await told(now + 10) == now + 10
    for far in (None, now + 3600 * 10**9):
        own = await told(far)
        assert isinstance(own, int)
        assert now + 60 * 10**9 <= own < now + 3600 * 10**9


async def test_a_full_limiter_holds_back_threads_and_not_the_loop(host: ToolHost, context: ToolContext) -> None:
    narrow = attrs.evolve(host, limiter=trio.CapacityLimiter(1))
    gate = threading.Event()
    started = trio.Event()

    @tool
    def hold() -> str:
        trio.from_thread.run_sync(started.set)
        gate.wait()
        return "held"

    outcomes: list[ToolReturn] = []

    async def run(made: Tool[..., object], **arguments: object) -> None:
        outcomes.append(await call_tool(made, arguments, context=context, secrets={}, host=narrow))

    async with trio.open_nursery() as batch:
        batch.start_soon(run, hold)
        await started.wait()
        batch.start_soon(partial(run, add, a=1, b=2))
        batch.start_soon(partial(run, add_async, a=1))
        await wait_all_tasks_blocked()
        assert outcomes == [Returned({"sum": 3})]
        gate.set()
    assert outcomes[1:] == [Returned("held"), Returned(3)]
    assert narrow.limiter is not None
    assert narrow.limiter.borrowed_tokens == 0
