"""The agents that jobs name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from tests.recovery.guarded import guarded
from tests.recovery.hooked import hooked
from tests.recovery.scenario import Kind, Stage, make_tool, model, turns_agent

from trouper.agent import Agent
from trouper.approvals import People
from trouper.core.conversation import AI, Value
from trouper.output import Output, requires_receipt
from trouper.testing import Step, call, calls, raw_call
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


NUMBER: Mapping[str, Value] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answering(stage: Stage, *replies: Step) -> Agent:
    """An agent that must hand in a number, having put one away and signed for it."""
    put = make_tool(Kind("idempotent_write", sync=False, gated=False), stage.effects, stage.fate)
    sign = make_tool(Kind("idempotent_write", sync=False, gated=True), stage.effects, stage.fate)
    return Agent(
        "desk",
        tools=[put, sign],
        model=model(stage, *replies),
        output=Output(NUMBER, mode="tool", rounds=3),
        completion=[requires_receipt(put.name)],
    )


def output_with_calls(stage: Stage) -> Agent:
    """It claims to be done too early, hands in what does not fit, says it in words, and hands it in beside a call."""
    return answering(
        stage,
        "Done.",
        calls(call("idempotent_write-async", n=0), call("final_result", n="none")),
        "The number is one.",
        calls(call("final_result", n=1), call("idempotent_write-async-gated", n=1), call("final_result", n=2)),
    )


def refusal_with_calls(stage: Stage) -> Agent:
    """The model refuses beside a call of one that would do."""
    beside = calls(call("idempotent_write-async", n=0), call("final_result", n=1))
    return answering(stage, attrs.evolve(beside, refusal="I will not."))


def committee(stage: Stage) -> Agent:
    """An agent whose calls two people must approve."""
    return attrs.evolve(turns_agent(stage), approvals=[People(quorum=2, from_=("maria", "otto"))])


PLAYS: dict[str, Callable[[Stage], Agent]] = {
    "turns": turns_agent,
    "id_of_earlier_turn": id_of_earlier_turn,
    "id_twice_in_one_reply": id_twice_in_one_reply,
    "empty_ids": empty_ids,
    "no_ids": no_ids,
    "three_at_once": three_at_once,
    "guarded": guarded,
    "hooked": hooked,
    "output_with_calls": output_with_calls,
    "refusal_with_calls": refusal_with_calls,
    "committee": committee,
}
