"""An office for agents under test: a strict model server on loopback, a journal file, a world outside of both.

What must hold of every run is checked when the office closes: the server never had to say 400, the journal verifies,
replay finds no difference, and no call of an ended run is left without its answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

import attrs
import trio
import trio.testing
from tests.core.shell import unanswered

from trouper import REGISTRY, Agent, Commands, DriftPolicy, Limits, Run, Runtime, RuntimeOptions, ToolContext, tool
from trouper._clock import Clock, SystemClock
from trouper._ids import SystemEntropy
from trouper.core.conversation import Value
from trouper.core.events import RunSubmitted
from trouper.core.exchange import ModelConfig
from trouper.core.history import closed_history
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.runtime.commands import PendingApproval
from trouper.testing import Reply, StrictStub, strict_stub, tc
from trouper.testing._answers import Answer
from trouper.tools import Tool
from trouper_adapters.openai import OpenAIModel
from trouper_journal import Journal

LONGEST = 30  # seconds, so that a test that hangs fails instead

AnyTool: TypeAlias = "Tool[..., object]"
Script: TypeAlias = Sequence[Answer] | Callable[[dict[str, Value]], Answer | Awaitable[Answer]]
E = TypeVar("E")


def asks(*calls: tuple[str, Mapping[str, Value]], text: str | None = None) -> Reply:
    """A reply that calls tools: ``asks(("add", {"n": 1}), ("add", {"n": 2}))``."""
    made = [tc(f"call_{place}", name, json.dumps(arguments)) for place, (name, arguments) in enumerate(calls)]
    return Reply(text, calls=made)


@attrs.frozen
class World:
    """What is outside of the journal: a file to which each effect adds a line."""

    path: Path

    def do(self, line: str) -> None:
        """Have an effect."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    @property
    def effects(self) -> list[str]:
        """All effects, in order."""
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []

    def adder(self, **declared: object) -> AnyTool:
        """``add(n)``."""

        async def add(n: int) -> str:
            """Add a number."""
            self.do(f"add {n}")
            return f"added {n}"

        return _tool(add, effect="idempotent_write", **declared)

    def mailer(self, **declared: object) -> AnyTool:
        """``send_email(to)``, which needs an approval unless said otherwise."""

        async def send_email(to: str) -> str:
            """Send an email."""
            self.do(f"mail {to}")
            return f"sent to {to}"

        return _tool(send_email, **{"requires_approval": True, **declared})

    def writer(self, **declared: object) -> AnyTool:
        """``write_file(path, content)``."""

        def write_file(path: str, content: str = "") -> str:
            """Write a file."""
            self.do(f"write {path} {content}")
            return f"wrote {path}"

        return _tool(write_file, effect="idempotent_write", **declared)

    def keyed(self, **declared: object) -> AnyTool:
        """``pay(amount)``, which notes its effect key and attempt."""

        async def pay(amount: int, ctx: ToolContext) -> str:
            """Pay."""
            self.do(f"pay {amount} {ctx.effect_key.partition('/')[2]} {ctx.attempt}")
            return "paid"

        return _tool(pay, effect="idempotent_write", **declared)

    def hanger(self, **declared: object) -> AnyTool:
        """``hang(n)``, which has its effect and never ends."""

        async def hang(n: int) -> str:
            """Hang."""
            self.do(f"hang {n}")
            await trio.sleep_forever()
            raise AssertionError

        return _tool(hang, **declared)


def _tool(function: Callable[..., object], **declared: object) -> AnyTool:
    made = tool(**declared)(function)  # type: ignore[call-overload]  # declared by the test
    return cast("AnyTool", made)


@attrs.frozen
class Office:
    """What a test works with.

    Attributes:
        path: The journal's file.
        stub: The model server.
        world: What is outside.
        tools: The agent's tools, unless a test opens with others.
        clock: Source of time.
    """

    path: Path
    stub: StrictStub
    world: World
    tools: Sequence[AnyTool] = ()
    clock: Clock | None = None
    stream: bool = False
    secrets: Mapping[str, str] = attrs.field(factory=dict)
    settings: ModelConfig | None = None

    def model(self) -> OpenAIModel:
        """A model that asks the stub."""
        return OpenAIModel("m", base_url=self.stub.url, api_key="sk-test", stream=self.stream, settings=self.settings)

    def agent(
        self,
        name: str = "desk",
        instructions: str = "Do what is asked.",
        *,
        tools: Sequence[AnyTool] | None = None,
        limits: Limits | None = None,
    ) -> Agent:
        """The office's agent."""
        return Agent(
            name,
            instructions,
            tools=self.tools if tools is None else tools,
            model=self.model(),
            limits=limits or Limits(),
        )

    @asynccontextmanager
    async def open(
        self, *agents: Agent, drift: DriftPolicy | None = None, options: RuntimeOptions | None = None
    ) -> AsyncIterator[Runtime]:
        """A life of the runtime over the journal; leave it and open another, as a restart does."""
        # Whatever is under way when a life is left is under way for ever in these tests.
        options = options or RuntimeOptions(drain=0.5)
        if drift is not None:
            options = attrs.evolve(options, drift=drift)
        async with Runtime.open(
            self.path, agents or [self.agent()], secrets=self.secrets, clock=self.clock, options=options
        ) as runtime:
            yield runtime

    @asynccontextmanager
    async def journal(self) -> AsyncIterator[Journal]:
        """The journal, to look at."""
        async with Journal.open(self.path, registry=REGISTRY, clock=self.clock) as journal:
            yield journal

    @asynccontextmanager
    async def commands(self) -> AsyncIterator[Commands]:
        """Commands on the journal, as a process without the agent's code has them."""
        async with self.journal() as journal:
            yield Commands(journal, self.clock or SystemClock(), SystemEntropy())

    async def check(self) -> None:
        """What holds of every run."""
        if not self.path.exists():
            return
        async with self.journal() as journal:
            found = await journal.verify()
            assert found.ok, found.problems
            async for head in journal.streams(prefix="run/"):
                events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
                state, difference = check(head.stream.removeprefix("run/"), events)
                assert difference is None, difference
                if state.ended:
                    # What was handed in may be broken; what was added to it may not.
                    submitted = events[0]
                    assert isinstance(submitted, RunSubmitted)
                    assert isinstance(submitted.input, tuple)
                    given = 0 if submitted.fork is not None else len(submitted.input)
                    assert unanswered(closed_history(state)[given:]) == []


@asynccontextmanager
async def office(
    folder: Path,
    script: Script = (),
    tools: Callable[[World], Sequence[AnyTool]] | Sequence[AnyTool] = (),
    *,
    by_turn: bool = True,
    done: bool = True,
    clock: Clock | None = None,
    stream: bool = False,
    secrets: Mapping[str, str] | None = None,
    settings: ModelConfig | None = None,
    checked: bool = True,
) -> AsyncIterator[Office]:
    """Open an office.

    Args:
        folder: Where its files are.
        script: What the model answers, by turn.
        tools: The agent's tools, or what makes them of the world.
        by_turn: Whether the server answers by turn, or in order.
        done: Whether the script must have been used to its end.
        clock: Source of time.
        stream: Whether the model asks for streams.
        secrets: The runtime's secrets.
        settings: The model's settings.
        checked: Whether the journal's runs are checked at the end.
    """
    world = World(folder / "effects")
    with trio.fail_after(LONGEST):
        async with strict_stub(script, by_turn=by_turn) as stub:
            made = tools(world) if callable(tools) else tools
            place = Office(folder / "journal.db", stub, world, made, clock, stream, secrets or {}, settings)
            yield place
            if checked:
                await place.check()
            stub.assert_clean()
            if done:
                stub.assert_done()


# ---- looking and waiting


async def until(runtime: Runtime, run: str, *labels: str) -> RunState:
    """Wait until a run stands at one of these labels with nothing under way; its state then."""
    async with runtime.journal.news() as news:
        while True:
            head = await runtime.journal.head(f"run/{run}")
            if head is not None and head.label in labels and head.wake_at != 0:
                return await runtime.commands.state(run)
            await news.wait()


async def gone(runtime: Runtime) -> None:
    """Wait until no run is in memory: one is still there when its last commit can be read."""
    while runtime.active:
        await trio.testing.wait_all_tasks_blocked()


async def pending(runtime: Runtime, count: int = 1) -> list[PendingApproval]:
    """Wait until so many calls wait for a person."""
    async with runtime.journal.news() as news:
        while len(found := await runtime.approvals()) != count:
            await news.wait()
    return found


async def of(run: Run, kind: type[E]) -> list[E]:
    """A run's events of one class, in order."""
    return [event for _, event in await run.events() if isinstance(event, kind)]


async def happened(runtime: Runtime, run: Run, kind: type[E], count: int = 1) -> list[E]:
    """Wait until so many events of a class stand in a run's stream."""
    async with runtime.journal.news() as news:
        while len(found := await of(run, kind)) < count:
            await news.wait()
    return found


async def types(run: Run) -> list[str]:
    """Names of a run's events."""
    return [record.type for record, _ in await run.events()]


def told(messages: Sequence[Mapping[str, Value]]) -> list[object]:
    """What a request's tool messages say, in order; that they answer their calls in order is the strict stub's part."""
    return [message["content"] for message in messages if message["role"] == "tool"]
