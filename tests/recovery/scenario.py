"""What is played: agents whose tools and model leave marks outside of the journal."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias, cast

import attrs
from tests.recovery.fate import Fate, Kill, Ledger
from tests.recovery.lifetimes import Scene

from trouper._clock import SystemClock
from trouper.agent import Agent
from trouper.core.chat_request import request_body
from trouper.core.conversation import AI, Message, ToolSpec, Value
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.testing import ScriptedModel, call, calls, violations
from trouper.testing._scripted import Step
from trouper.tools import Absent, Found, Tool, ToolContext, tool

EffectName: TypeAlias = Literal["read_only", "idempotent_write", "queryable_write", "unqueryable_write"]
EFFECTS: tuple[EffectName, ...] = ("read_only", "idempotent_write", "queryable_write", "unqueryable_write")


class LedgerModel:
    """A scripted model that notes each request, with what a strict provider would say to it."""

    def __init__(self, script: ScriptedModel, ledger: Ledger, fate: Fate) -> None:
        self._script = script
        self._ledger = ledger
        self._fate = fate
        self.name = script.name

    def identity(self) -> dict[str, Value]:
        return dict(self._script.identity())

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
    ) -> ModelReply:
        body = json.dumps(request_body(self.name, messages, tools, config=config)).encode()
        index = sum(isinstance(message, AI) for message in messages)
        broken: list[Value] = [*violations(body)]
        self._ledger.add(index=index, body=hashlib.sha256(body).hexdigest(), violations=broken)
        reply = await self._script.agenerate(messages, tools, config)
        self._fate.reach("replied")
        return reply


@attrs.frozen
class Kind:
    """A kind of tool."""

    effect: EffectName
    sync: bool
    gated: bool

    @property
    def name(self) -> str:
        return f"{self.effect}-{'sync' if self.sync else 'async'}{'-gated' if self.gated else ''}"

    @classmethod
    def of(cls, name: str) -> Kind:
        effect, way, *gated = name.split("-")
        return cls(cast("EffectName", effect), way == "sync", bool(gated))


KINDS = tuple(Kind(effect, sync, gated) for effect in EFFECTS for sync in (True, False) for gated in (False, True))


def make_tool(kind: Kind, effects: Ledger, fate: Fate) -> Tool[..., object]:
    """A tool whose effect is a line in the ledger."""

    def apply(n: int, context: ToolContext) -> str:
        fate.reach("entered")
        effects.add(key=context.effect_key, attempt=context.attempt, tool=kind.name, n=n)
        fate.reach("applied")
        return f"did {n}"

    def in_thread(n: int, context: ToolContext) -> str:
        return apply(n, context)

    async def in_loop(n: int, context: ToolContext) -> str:
        return apply(n, context)

    def query(context: ToolContext) -> Found | Absent:
        found = [line for line in effects.lines() if line["key"] == context.effect_key]
        return Found(f"did {found[0]['n']!s}") if found else Absent()

    fn = cast("Callable[[int, ToolContext], str | Awaitable[str]]", in_thread if kind.sync else in_loop)
    declare = tool(
        name=kind.name,
        effect=kind.effect,
        requires_approval=kind.gated,
        query=query if kind.effect == "queryable_write" else None,
    )
    return cast("Tool[..., object]", declare(fn))


Turns: TypeAlias = tuple[tuple[str, ...], ...]
"""The kinds of tools that the model calls, by reply; after the last batch it answers ``done``."""


@attrs.frozen
class Job:
    """A run to be played, and where its lives end; lives after those are left alone.

    Attributes:
        play: Which agent plays, by its name in `tests.recovery.plays`.
        turns: What its model calls, for those agents that take it from here.
        url: Address of a model server, for those that have one.
        approving: Whether there is a person to approve.
        approvers: Who approves then.
        remember: For how many further calls each of them approves what is like it; 0 for none.
        seed: Makes ids and salts the same for all jobs that have it.
    """

    name: str
    turns: Turns = ()
    kills: tuple[Kill | None, ...] = ()
    play: str = "turns"
    url: str = ""
    approving: bool = True
    approvers: tuple[str, ...] = ("maria",)
    remember: int = 0
    seed: int | None = None


class SeededEntropy:
    """The same ids and salts each time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def fraction(self) -> float:
        return self._random.random()


class StandingClock(SystemClock):
    """A wall clock that stands still; it enters ids."""

    def now(self) -> int:
        return 1_767_225_600_000_000_000


Stage: TypeAlias = Scene[Job]
"""Where a life of a job is played."""


def model(stage: Stage, *replies: Step) -> LedgerModel:
    """A model with a script."""
    return LedgerModel(ScriptedModel(replies, by_turn=True), stage.requests, stage.fate)


def turns_agent(stage: Stage) -> Agent:
    """An agent that plays a job's turns."""
    numbers = iter(range(1000))
    turns = stage.job.turns
    replies = [calls(*(call(name, n=next(numbers)) for name in turn)) for turn in turns]
    kinds = {name: Kind.of(name) for turn in turns for name in turn}
    tools = [make_tool(kind, stage.effects, stage.fate) for kind in kinds.values()]
    return Agent("desk", "Do it.", tools=tools, model=model(stage, *replies, "done"))
