"""What is played: agents whose tools and model leave marks outside of the journal, and the points where they die."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast

import attrs
import trio

from trouper._clock import SystemClock
from trouper.agent import Agent
from trouper.core.chat_request import request_body
from trouper.core.conversation import AI, Message, ToolSpec, Value
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.testing import ScriptedModel, call, calls, violations
from trouper.testing._scripted import Step
from trouper.tools import Absent, Found, Tool, ToolContext, tool
from trouper_journal import Store
from trouper_journal.testing import FaultyStore

EffectName: TypeAlias = Literal["read_only", "idempotent_write", "queryable_write", "unqueryable_write"]
EFFECTS: tuple[EffectName, ...] = ("read_only", "idempotent_write", "queryable_write", "unqueryable_write")

Point: TypeAlias = Literal["before", "after", "replied", "entered", "applied", "hooked"]
"""Where a process can die: before or after a commit; with a reply that is not journaled (K2); in a tool before its
effect (K4); in a tool after its effect (K5); in a hook, whose outcome is not journaled."""


@attrs.frozen
class Kill:
    """Where a life ends: at the nth time that it comes to a point, from 1.

    Attributes:
        times: At how many times in a row the signal is sent, where the process can survive it for a while.
    """

    point: Point
    nth: int
    signal: int = signal.SIGKILL
    times: int = 1


@attrs.define
class Fate:
    """Ends the process, really, where it is told to."""

    kill: Kill | None = None
    passed: Counter[str] = attrs.Factory(Counter)
    committed: trio.Event = attrs.Factory(trio.Event)

    def reach(self, point: Point) -> None:
        """Come to a point, and maybe no further."""
        self.passed[point] += 1
        if self.kill is None or self.kill.point != point:
            return
        if self.kill.nth <= self.passed[point] < self.kill.nth + self.kill.times:
            os.kill(os.getpid(), self.kill.signal)


def fateful(fate: Fate) -> Callable[[Store], Store]:
    """What makes a store end the process before or after a transaction."""

    async def before(_: object) -> None:
        fate.reach("before")

    async def after(_: object) -> None:
        fate.reach("after")
        fate.committed.set()
        fate.committed = trio.Event()

    return lambda store: FaultyStore(store, before_write=before, after_write=after)


@attrs.frozen
class Ledger:
    """A file outside of the journal, to which each effect, or each request, adds a line."""

    path: Path

    def add(self, **entry: Value) -> None:
        # One write to a file opened for appending: whole lines only, and a killed process takes none back.
        line = json.dumps(entry, sort_keys=True).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)

    def lines(self) -> list[dict[str, Value]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]


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


@attrs.frozen
class Stage:
    """Where a life of a job is played."""

    job: Job
    directory: Path
    fate: Fate
    life: int = 0

    @property
    def journal(self) -> Path:
        return self.directory / "journal.db"

    @property
    def effects(self) -> Ledger:
        return Ledger(self.directory / "effects")

    @property
    def requests(self) -> Ledger:
        return Ledger(self.directory / "requests")


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
