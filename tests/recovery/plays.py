"""The agents that jobs name."""

from __future__ import annotations

from collections.abc import Callable

from tests.recovery.scenario import Stage, model, turns_agent

from trouper.agent import Agent
from trouper.core.conversation import AI
from trouper.testing import calls, raw_call
from trouper.tools import ToolContext, tool


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


PLAYS: dict[str, Callable[[Stage], Agent]] = {
    "turns": turns_agent,
    "id_of_earlier_turn": id_of_earlier_turn,
    "id_twice_in_one_reply": id_twice_in_one_reply,
    "empty_ids": empty_ids,
    "no_ids": no_ids,
}
