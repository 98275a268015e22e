"""Runs with limits that die and live on: ``python -m tests.recovery.budgets JOBS RESULTS`` plays each job life by life.

As in `lives`, each life is a fork of a process that has imported everything.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import attrs
import cattrs
import trio
from tests.recovery.lives import in_fork, unanswered
from tests.recovery.scenario import Fate, Kill, Ledger, LedgerModel, fateful

from trouper import Agent, BudgetExceeded, Limits, Raise, Runtime, ToolContext, tool
from trouper.core import events as ev
from trouper.core.events import REGISTRY
from trouper.core.replay import check
from trouper.core.status import OVER_BUDGET
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._scripted import Step
from trouper.tools import Tool
from trouper_journal import Journal

ROOT = Path(__file__).parents[2]
LONGEST = 30  # seconds, so that a life that hangs fails instead
MOST_LIVES = 12


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
    """What came of a job.

    Attributes:
        lives: How each life ended: its signal, or what it said.
        commits: How many commits the last life made.
        problems: What does not hold of the journal.
        counts: How many events of each class there are, in all streams.
        asked: Numbers of model calls of the root that were asked for, once each.
        sent: How many requests went out.
        effects: Keys of effects outside, in order.
        spent: Model calls that the root has spent, and all below it.
    """

    job: BudgetJob
    lives: list[str]
    commits: int = 0
    problems: list[str] = attrs.Factory(list)
    counts: dict[str, int] = attrs.Factory(dict)
    asked: list[int] = attrs.Factory(list)
    sent: int = 0
    effects: list[str] = attrs.Factory(list)
    spent: int = 0


@attrs.frozen
class Place:
    """Where a life is played."""

    directory: Path
    fate: Fate

    @property
    def effects(self) -> Ledger:
        return Ledger(self.directory / "effects")

    @property
    def requests(self) -> Ledger:
        return Ledger(self.directory / "requests")

    def agent(self, name: str, steps: Sequence[Step], *tools: Tool[..., object], limits: Limits | None = None) -> Agent:
        model = LedgerModel(ScriptedModel(steps, by_turn=True, name=name), self.requests, self.fate)
        return Agent(name, f"You are {name}.", tools=tools, model=model, limits=limits or Limits())

    def root(self, play: str) -> Agent:
        @tool(effect="idempotent_write")
        def pay(n: int, ctx: ToolContext) -> str:
            """Pay."""
            self.effects.add(key=ctx.effect_key)
            return f"paid {n}"

        paying = [call("pay", n=turn) for turn in range(12)]
        if play == "alone":
            return self.agent("top", paying, pay, limits=Limits(max_model_calls=4))
        if play == "three":
            children = [self.agent(name, [*paying[:3], "done"], pay).as_tool() for name in ("ann", "bob")]
            both = calls(call("ann", input="go"), call("bob", input="go"))
            return self.agent("top", [both, "Fine."], *children, limits=Limits(tool_calls={"pay": 3}))
        turns: list[Step] = [*paying] if play == "shared" else [*paying[:1], "done"]
        both = calls(call("ann", input="go"), call("bob", input="go"))
        children = [self.agent(name, turns, pay).as_tool() for name in ("ann", "bob")]
        limits = Limits(max_model_calls=5) if play == "shared" else Limits(max_model_calls=3, on_limit="wait")
        return self.agent("top", [both, "Fine."], *children, limits=limits)


# ---- one life


async def live(job: BudgetJob, place: Place, say: Callable[[str], None]) -> None:
    """Submit the run as if for the first time, stay until it has ended, and allow it more as the play says."""
    with trio.fail_after(LONGEST):
        async with Journal.open(place.directory / "journal.db", registry=REGISTRY, wrap=fateful(place.fate)) as journal:
            async with Runtime.over(journal, [place.root(job.play)]) as runtime, trio.open_nursery() as nursery:
                run = await runtime.submit("top", "go", command_id="job")
                nursery.start_soon(allow, job, runtime, run.id)
                said = "over budget"
                try:
                    said = str((await run.wait()).output)
                except BudgetExceeded as error:
                    if job.play == "alone" and error.limit == 4:
                        await run.raise_limit(Raise(model_calls=3), by="maria", reason="worth it")
                        try:
                            await run.wait()
                        except BudgetExceeded as last:
                            said = f"over budget at {last.limit}"
                    elif job.play == "alone":
                        said = f"over budget at {error.limit}"
                nursery.cancel_scope.cancel()
            say(json.dumps([said, place.fate.passed["after"]]))


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


async def look(journal: Journal) -> Outcome:
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
    return Outcome(BudgetJob("", "alone"), [], 0, problems, dict(counts), asked, spent=spent)


def play(job: BudgetJob, directory: Path) -> Outcome:
    """Live until the run has ended and nobody allows it more."""
    lives: list[str] = []
    while len(lives) < MOST_LIVES:
        kill = job.kills[len(lives)] if len(lives) < len(job.kills) else None
        place = Place(directory, Fate(kill))

        async def life(say: Callable[[str], None], place: Place = place) -> None:
            await live(job, place, say)

        killed, said = in_fork(life)
        if killed:
            lives.append(f"signal {killed}")
            continue
        if len(said) != 1:
            return Outcome(job, [*lives, *said])
        answer, commits = json.loads(said[0])

        async def report(say: Callable[[str], None]) -> None:
            async with Journal.open(directory / "journal.db", registry=REGISTRY) as journal:
                say(json.dumps(cattrs.unstructure(await look(journal))))

        _, told = in_fork(report)
        found = cattrs.structure(json.loads(told[0]), Outcome)
        keys = (str(line["key"]) for line in place.effects.lines())
        effects = [key.partition("~")[2] or key.partition("/")[2] for key in keys]
        return attrs.evolve(
            found,
            job=job,
            lives=[*lives, answer],
            commits=commits,
            sent=len(place.requests.lines()),
            effects=effects,
        )
    return Outcome(job, lives)


def play_all(jobs: Sequence[BudgetJob], directory: Path) -> list[Outcome]:
    """Play jobs in two processes; results in the order of the jobs."""
    directory.mkdir(exist_ok=True)
    workers = []
    for number in range(min(2, len(jobs))):
        asked, told = directory / f"jobs-{number}.json", directory / f"played-{number}.json"
        asked.write_text(json.dumps(cattrs.unstructure(list(jobs[number::2]))))
        command = [sys.executable, "-m", "tests.recovery.budgets", str(asked), str(told)]
        workers.append((subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True), told))
    by_name: dict[str, Outcome] = {}
    for process, told in workers:
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint
        by_name |= {each.job.name: each for each in cattrs.structure(json.loads(told.read_text()), list[Outcome])}
    return [by_name[job.name] for job in jobs]


def main(jobs: Path, results: Path) -> None:
    """Play the jobs of a file, and write what came of them."""
    # Have done once what each life would do again: pydantic is imported where it is first needed.
    Place(results.parent, Fate()).root("shared")
    gc.freeze()
    played = []
    for job in cattrs.structure(json.loads(jobs.read_text()), list[BudgetJob]):
        directory = results.parent / f"{results.stem}-{job.name}"
        directory.mkdir()
        played.append(play(job, directory))
    results.write_text(json.dumps(cattrs.unstructure(played)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
