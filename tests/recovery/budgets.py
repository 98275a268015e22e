"""Runs with limits that die and live on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import trio
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Kill
from tests.recovery.lifetimes import Scenario, Scene
from tests.recovery.lives import unanswered
from tests.recovery.scenario import LedgerModel

from trouper import Agent, BudgetExceeded, Limits, Raise, Run, Runtime, ToolContext, tool
from trouper.core import events as ev
from trouper.core.replay import check
from trouper.core.status import OVER_BUDGET
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._scripted import Step
from trouper.tools import Tool
from trouper_journal import Journal


@attrs.frozen
class BudgetJob:
    """A run to be played.

    Attributes:
        play: ``alone``: a run that fails at 4 model calls and is allowed 3 more. ``shared``: two children that have 4
            calls together. ``topped_up``: two children that wait until more is allowed at the root. ``three``: two
            children that may pay three times together, and would each pay three times.
        kills: Where its lives end.
    """

    name: str
    play: Literal["alone", "shared", "topped_up", "three"]
    kills: tuple[Kill | None, ...] = ()


@attrs.frozen
class Outcome:
    """What is in the journal, and beside it.

    Attributes:
        problems: What does not hold of the journal.
        counts: How many events of each class there are, in all streams.
        asked: Numbers of model calls of the root that were asked for, once each.
        sent: How many requests went out.
        effects: Keys of effects outside, in order.
        spent: Model calls that the root has spent, and all below it.
    """

    problems: list[str] = attrs.Factory(list)
    counts: dict[str, int] = attrs.Factory(dict)
    asked: list[int] = attrs.Factory(list)
    sent: int = 0
    effects: list[str] = attrs.Factory(list)
    spent: int = 0


Place: TypeAlias = Scene[BudgetJob]
Played: TypeAlias = lifetimes.Played[BudgetJob, Outcome]


def agent(
    place: Place, name: str, steps: Sequence[Step], *tools: Tool[..., object], limits: Limits | None = None
) -> Agent:
    model = LedgerModel(ScriptedModel(steps, by_turn=True, name=name), place.requests, place.fate)
    return Agent(name, f"You are {name}.", tools=tools, model=model, limits=limits or Limits())


def root(place: Place) -> Agent:
    @tool(effect="idempotent_write")
    def pay(n: int, ctx: ToolContext) -> str:
        """Pay."""
        place.effects.add(key=ctx.effect_key)
        return f"paid {n}"

    play = place.job.play
    paying = [call("pay", n=turn) for turn in range(12)]
    if play == "alone":
        return agent(place, "top", paying, pay, limits=Limits(max_model_calls=4))
    if play == "three":
        children = [agent(place, name, [*paying[:3], "done"], pay).as_tool() for name in ("ann", "bob")]
        both = calls(call("ann", input="go"), call("bob", input="go"))
        return agent(place, "top", [both, "Fine."], *children, limits=Limits(tool_calls={"pay": 3}))
    turns: list[Step] = [*paying] if play == "shared" else [*paying[:1], "done"]
    both = calls(call("ann", input="go"), call("bob", input="go"))
    children = [agent(place, name, turns, pay).as_tool() for name in ("ann", "bob")]
    limits = Limits(max_model_calls=5, soft=0.5) if play == "shared" else Limits(max_model_calls=3, on_limit="wait")
    return agent(place, "top", [both, "Fine."], *children, limits=limits)


# ---- one life


async def live(place: Place, journal: Journal) -> str:
    """Submit the run as if for the first time, stay until it has ended, and allow it more as the play says."""
    async with Runtime.over(journal, [root(place)]) as runtime, trio.open_nursery() as nursery:
        run = await runtime.submit("top", "go", command_id="job")
        nursery.start_soon(allow, place.job, runtime, run.id)
        said = await (end_alone(run) if place.job.play == "alone" else end(run))
        nursery.cancel_scope.cancel()
    return said


async def end(run: Run) -> str:
    try:
        return str((await run.wait()).output)
    except BudgetExceeded:
        return "over budget"


async def end_alone(run: Run) -> str:
    """It fails at 4, is allowed 3 more, and fails at 7."""
    try:
        return str((await run.wait()).output)
    except BudgetExceeded as error:
        if error.limit != 4:
            return f"over budget at {error.limit}"
    await run.raise_limit(Raise(model_calls=3), by="maria", reason="worth it")
    return await end_alone(run)


async def allow(job: BudgetJob, runtime: Runtime, root: str) -> None:
    """Raise the root's limit: by 2 when both children wait for it, by 1 when the root does."""
    async with runtime.journal.news() as news:
        while job.play == "topped_up":
            waiting = [head.stream async for head in runtime.commands.runs(OVER_BUDGET)]
            limits = (await runtime.commands.state(root)).limits
            limit = limits.max_model_calls if limits is not None else None
            if len(waiting) == 2 and limit == 3:
                await runtime.raise_limit(root, Raise(model_calls=2), by="maria", reason="go on")
            elif waiting == [f"run/{root}"] and limit == 5:
                await runtime.raise_limit(root, Raise(model_calls=1), by="maria", reason="and end")
            else:
                await news.wait()


# ---- looking


async def look(place: Place, journal: Journal) -> Outcome:
    """The journal as it stands, checked."""
    problems = [] if (await journal.verify()).ok else ["the journal does not verify"]
    counts: Counter[str] = Counter()
    asked: list[int] = []
    spent = 0
    async for head in journal.streams(prefix="run/"):
        run = head.stream.removeprefix("run/")
        events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
        state, difference = check(run, events)
        problems += [str(difference)] if difference is not None else []
        problems += unanswered(state.messages) if state.ended else [f"{run} has not ended"]
        counts.update(type(event).__name__ for event in events)
        if "~" not in run:
            spent = state.spent.model_calls
            asked = [event.index for event in events if isinstance(event, ev.ModelRequested) and event.attempt == 1]
    keys = (str(line["key"]) for line in place.effects.lines())
    effects = [key.partition("~")[2] or key.partition("/")[2] for key in keys]
    return Outcome(problems, dict(counts), asked, len(place.requests.lines()), effects, spent)


def make(directory: Path) -> None:
    """What each life would make again."""
    root(Place(BudgetJob("warm-up", "shared"), directory, Fate()))


SCENARIO = Scenario("tests.recovery.budgets", BudgetJob, Outcome, live=live, look=look, make=make)


def play_all(jobs: Sequence[BudgetJob], directory: Path) -> list[Played]:
    """Play jobs; results in the order of the jobs."""
    return lifetimes.play_all(SCENARIO, jobs, directory)
