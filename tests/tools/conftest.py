from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import pytest
import trio

from trouper._clock import SystemClock
from trouper.tools import Tool, ToolContext, ToolHost, ToolReturn, call_tool


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(run="r1", action="r1/0.0", effect_key="r1/0.0", attempt=2, agent="desk", principal="maria")


@pytest.fixture
def host(nursery: trio.Nursery) -> ToolHost:
    return ToolHost(nursery=nursery, clock=SystemClock(), limiter=trio.CapacityLimiter(4), grace=5)


@pytest.fixture
def call(host: ToolHost, context: ToolContext) -> Callable[..., Awaitable[ToolReturn]]:
    """Bind a model's argument text and make one attempt."""

    async def make(tool: Tool[..., object], raw: str = "{}", *, secrets: Mapping[str, str] | None = None) -> ToolReturn:
        bound = tool.bind(raw)
        return await call_tool(tool, bound.values, context=context, secrets=secrets or {}, host=host)

    return make
