"""Asking a queryable write whether an interrupted call took place: a clear answer, or none."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from trouper.errors import SchemaError, ToolError
from trouper.tools import Absent, Found, QueryReturn, ToolContext, ToolHost, Unsure, call_query, tool

TOKEN = "tok-3f9c!"


async def ask(query: object, context: ToolContext, host: ToolHost, seconds: float | None = None) -> QueryReturn:
    assert callable(query)

    @tool(effect="queryable_write", query=query, secrets={"token": "bank/token"}, timeout=seconds)
    def transfer(account: str, amount: int, *, token: str) -> str:
        raise AssertionError(account, amount, token)

    bound = transfer.bind('{"account": "a", "amount": 5}')
    return await call_query(transfer, bound.values, context=context, secrets={"token": TOKEN}, host=host)


async def test_it_gets_what_it_declares_of_the_call(context: ToolContext, host: ToolHost) -> None:
    async def by_key(account: str, *, token: str, ctx: ToolContext) -> Found:
        return Found({"account": account, "key": ctx.effect_key, "token": token})

    def by_anything(**call: object) -> Found:
        return Found(sorted(call))

    def absent() -> Absent:
        return Absent()

    assert await ask(by_key, context, host) == Found({"account": "a", "key": "r1/0.0", "token": "[secret]"})
    assert await ask(by_anything, context, host) == Found(["account", "amount"])
    assert await ask(absent, context, host) == Absent()


async def test_whatever_is_no_clear_answer_is_unsure(context: ToolContext, host: ToolHost) -> None:
    def shrug(token: str) -> Unsure:
        return Unsure(f"the bank does not know {token}")

    def plain() -> bool:
        return True

    def down(token: str) -> Found:
        raise ToolError(f"503 for {token}")

    def odd() -> Found:
        return Found(object())

    assert await ask(shrug, context, host) == Unsure("the bank does not know [secret]")
    assert await ask(plain, context, host) == Unsure("the query returned bool, not Found, Absent or Unsure")
    assert await ask(down, context, host) == Unsure("503 for [secret]")
    answer = await ask(odd, context, host)
    assert isinstance(answer, Unsure)
    assert "cannot be journaled" in answer.reason


async def test_it_runs_under_the_tools_time_limit(
    autojump_clock: MockClock, context: ToolContext, host: ToolHost
) -> None:
    async def hang() -> Found:
        await trio.Event().wait()
        return Found()

    answer = await ask(hang, context, attrs.evolve(host, grace=1), seconds=3)
    assert answer == Unsure("it timed out while it was working; whether it took effect is unknown")
    assert trio.current_time() == pytest.approx(3)


def test_a_query_that_asks_for_more_than_the_call_has_is_refused() -> None:
    def by_amount(total: int) -> Found:
        return Found(total)

    with pytest.raises(SchemaError, match="tool transfer, parameter total: its query asks for it"):

        @tool(effect="queryable_write", query=by_amount)
        def transfer(amount: int) -> int:
            return amount


async def test_a_tool_without_a_query_has_no_answer(context: ToolContext, host: ToolHost) -> None:
    @tool
    def send() -> None: ...

    with pytest.raises(ValueError, match="tool send has no query"):
        await call_query(send, {}, context=context, secrets={}, host=host)
