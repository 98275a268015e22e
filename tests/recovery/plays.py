"""The agents that jobs name."""

from __future__ import annotations

from collections.abc import Callable

from tests.recovery.guarded import guarded
from tests.recovery.scenario import Stage, model, turns_agent

from trouper.agent import Agent
from trouper.core.conversation import AI
from trouper.testing import calls, raw_call
from trouper.tools import Absent, Found, Tool, ToolContext, tool
from trouper_adapters.openai import OpenAIModel


def adding(stage: Stage, *replies: AI) -> Agent:
    """An agent with a tool ``add`` that declares no effect, and works on one call at a time."""

    @tool(concurrency=1)
    def add(n: int, ctx: ToolContext) -> str:
        """Add a line."""
        stage.fate.reach("entered")
        stage.effects.add(key=ctx.effect_key, attempt=ctx.attempt, n=n)
        stage.fate.reach("applied")
        return f"added {n}"

    return Agent("desk", tools=[add], model=model(stage, *replies, "done"))


def id_of_earlier_turn(stage: Stage) -> Agent:
    """The provider gives one id to calls of two turns."""
    first, second = (raw_call("add", f'{{"n":{n}}}', provider_id="functions.add:0") for n in (1, 2))
    return adding(stage, first, second)


def id_twice_in_one_reply(stage: Stage) -> Agent:
    """The provider gives one id to two calls of one reply."""
    return adding(stage, calls(*(raw_call("add", f'{{"n":{n}}}', provider_id="x") for n in (1, 2))))


def empty_ids(stage: Stage) -> Agent:
    """The provider gives empty ids."""
    return adding(stage, calls(*(raw_call("add", f'{{"n":{n}}}', provider_id="") for n in (1, 2))))


def no_ids(stage: Stage) -> Agent:
    """The provider gives no ids."""
    return adding(stage, calls(*(raw_call("add", f'{{"n":{n}}}') for n in (1, 2))))


LETTERS = ("a", "b", "c")


def three_at_once(stage: Stage) -> Agent:
    """Three calls in one reply, which end in an order of their own; after a restart, in another.

    Each ends when what ends before it has its receipt; what took effect in an earlier life is not called again.
    """
    order = ("b", "c", "a") if stage.life == 0 else ("a", "c", "b")
    over = {line["name"] for line in stage.effects.lines()}
    ended: dict[str, int] = {}
    commits = stage.fate.passed

    async def in_order(name: str) -> None:
        before = [other for other in order[: order.index(name)] if other not in over]
        while any(other not in ended or commits["after"] <= ended[other] for other in before):
            await stage.fate.committed.wait()

    def make(name: str) -> Tool[..., object]:
        def query(ctx: ToolContext) -> Found | Absent:
            done = [line for line in stage.effects.lines() if line["key"] == ctx.effect_key]
            return Found(f"{name} done") if done else Absent()

        @tool(name=name, effect="queryable_write", query=query)
        async def work(ctx: ToolContext) -> str:
            """Work."""
            await in_order(name)
            stage.fate.reach("entered")
            stage.effects.add(key=ctx.effect_key, attempt=ctx.attempt, name=name)
            stage.fate.reach("applied")
            ended[name] = commits["after"]
            return f"{name} done"

        return work

    model = OpenAIModel("m", base_url=stage.job.url, api_key=stage.job.name)
    return Agent("desk", tools=[make(name) for name in LETTERS], model=model)


PLAYS: dict[str, Callable[[Stage], Agent]] = {
    "turns": turns_agent,
    "id_of_earlier_turn": id_of_earlier_turn,
    "id_twice_in_one_reply": id_twice_in_one_reply,
    "empty_ids": empty_ids,
    "no_ids": no_ids,
    "three_at_once": three_at_once,
    "guarded": guarded,
}
