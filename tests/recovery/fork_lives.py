"""Lives of a process that forks a run.

Each life submits the run and its fork as if for the first time, is the person who approves, and stays to the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import attrs
import trio
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Kill
from tests.recovery.lifetimes import Scenario, Scene
from tests.recovery.lives import unanswered
from tests.recovery.scenario import LedgerModel

from trouper import AI, Agent, Commands, EditMessage, Human, Runtime, ToolContext, WhatIf, tool
from trouper.core.events import ActionPlanned, ActionReceipted, ActionStarted
from trouper.core.fork import Writes
from trouper.core.replay import check
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper_journal import Journal


@attrs.frozen
class ForkJob:
    """A run to be forked.

    Attributes:
        writes: What becomes of new writes in the fork.
        kills: Where its lives end.
    """

    name: str
    writes: Writes = "ask"
    kills: tuple[Kill | None, ...] = ()


@attrs.frozen
class Told:
    """How it all stands; empty as long as the run has not ended.

    Attributes:
        outputs: What the run and the fork answered.
        runs: How many runs there are, sub-agents' included.
        effects: Keys of effects outside, without the runs' ids: ``origin`` or ``fork``, and what follows.
        recorded: The calls of the fork that were answered by the record.
        receipts: What each receipt of the fork and below it rests on, by call.
        started: The calls of the fork and below it that were begun.
        problems: What must not be.
    """

    outputs: list[str] = attrs.Factory(list)
    runs: int = 0
    effects: list[str] = attrs.Factory(list)
    recorded: list[str] = attrs.Factory(list)
    receipts: list[tuple[str, str]] = attrs.Factory(list)
    started: list[str] = attrs.Factory(list)
    problems: list[str] = attrs.Factory(list)


Place: TypeAlias = Scene[ForkJob]
Played: TypeAlias = lifetimes.Played[ForkJob, Told]


def agent(place: Place) -> Agent:
    """It adds, and has a helper add; in the fork it does the first again, and more."""

    @tool(effect="idempotent_write")
    async def add(n: int, ctx: ToolContext) -> str:
        """Add."""
        place.effects.add(key=ctx.effect_key, n=n)
        return f"added {n}"

    def model(name: str, *steps: Callable[[ModelRequest], AI | str]) -> LedgerModel:
        return LedgerModel(ScriptedModel(steps, by_turn=True, name=name), place.requests, place.fate)

    def forked(request: ModelRequest) -> bool:
        return any(isinstance(each, Human) and each.content == "Again." for each in request.messages)

    helping = model("h", lambda r: call("add", n=int(str(r.messages[1].content))), lambda _: "helped")
    helper = Agent("helper", "Help.", tools=[add], model=helping)
    top = model(
        "m",
        lambda r: calls(call("add", n=1), call("add", n=2)) if forked(r) else call("add", n=1),
        lambda r: call("helper", input="4" if forked(r) else "3"),
        lambda r: "differently" if forked(r) else "done",
    )
    return Agent("desk", "Add.", tools=[add, helper.as_tool()], model=top)


async def stored(journal: Journal, run: str) -> list[list[object]]:
    """The records of a run and of what is below it, as they are."""
    found: list[list[object]] = []
    async for head in journal.streams(prefix=f"run/{run}"):
        async for record in journal.read(head.stream):
            values = sorted((name, value.hex()) for name, value in record.values.items())
            found.append([head.stream, record.version, record.type, record.content.hex(), str(values)])
    return found


def first_seen(place: Place) -> Path:
    """The run as it stood before anything was made of it."""
    return place.directory / "before.json"


async def live(place: Place, journal: Journal) -> str:
    """Run, fork, approve, stay."""
    async with Runtime.over(journal, [agent(place)]) as runtime, trio.open_nursery() as nursery:
        run = await runtime.submit("desk", "Go.", command_id="run")
        await run.wait()
        if not first_seen(place).exists():
            first_seen(place).write_text(json.dumps([run.id, await stored(journal, run.id)]))
        what_if = WhatIf([EditMessage(f"{run.id}/input", "Again.")], writes=place.job.writes)
        fork = await run.fork(what_if, command_id="fork", by="maria")
        nursery.start_soon(approve, runtime)
        said = str((await fork.wait()).output)
        nursery.cancel_scope.cancel()
    return said


async def approve(runtime: Runtime) -> None:
    """Approve whatever is asked."""
    async with runtime.journal.news() as news:
        while True:
            for each in await runtime.approvals():
                await runtime.approve(each.action, by="otto")
            await news.wait()


async def look(place: Place, journal: Journal) -> Told:
    """How it all stands, checked."""
    if not first_seen(place).exists():
        return Told()
    origin, before = json.loads(first_seen(place).read_text())
    problems = [str(problem) for problem in (await journal.verify()).problems]
    problems += [] if await stored(journal, origin) == before else ["the run that was forked has changed"]
    names = [head.stream.removeprefix("run/") async for head in journal.streams(prefix="run/")]
    forks, outputs = list[str](), list[str]()
    told = Told(runs=len(names), problems=problems, outputs=outputs)
    for name in names:
        events = [journal.registry.decode(record) async for record in journal.read(f"run/{name}")]
        state, difference = check(name, events)
        problems += [] if difference is None else [f"{name}: {difference}"]
        problems += unanswered(await Commands(journal).history(name))
        if "~" not in name:
            outputs.append(str(state.output))
        if state.forked is None:
            continue
        if state.forked.of.run == origin:
            forks.append(name)
        tail = name.partition("~")[2]
        for event in events:
            match event:
                case ActionPlanned(action=action, recorded=str()):
                    told.recorded.append(f"{tail}/{action}")
                case ActionReceipted(action=action, evidence=evidence):
                    told.receipts.append((f"{tail}/{action}", evidence))
                case ActionStarted(action=action):
                    told.started.append(f"{tail}/{action}")
                case _:
                    pass
    problems += [] if len(forks) <= 1 else [f"there are forks {forks}"]
    keys = [str(line["key"]).replace(origin, "origin") for line in place.effects.lines()]
    return attrs.evolve(told, effects=[key.replace(fork, "fork") for key in keys for fork in forks or ["-"]])


def make(directory: Path) -> None:
    """What each life would make again."""
    agent(Place(ForkJob("warm-up"), directory, Fate()))


SCENARIO = Scenario("tests.recovery.fork_lives", ForkJob, Told, live=live, look=look, make=make)
