"""Trees of agents that die and live on: ``python -m tests.recovery.trees JOBS RESULTS`` plays each job life by life.

As in `lives`, each life is a fork of a process that has imported everything.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import cattrs
import trio
from tests.recovery.lives import in_fork, unanswered
from tests.recovery.scenario import Fate, Kill, Ledger, LedgerModel, fateful

from trouper import AI, Agent, Output, RunCancelled, Runtime, ToolContext, requires_receipt, tool
from trouper.core import events as ev
from trouper.core.events import REGISTRY
from trouper.core.replay import check
from trouper.core.status import IN_DOUBT
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper.testing._scripted import Step
from trouper_journal import Journal, Value

ROOT = Path(__file__).parents[2]
LONGEST = 30  # seconds, so that a life that hangs fails instead
MOST_LIVES = 12
BRANCHES = ("a", "b")
Counts: TypeAlias = dict[str, int]


@attrs.frozen
class TreeJob:
    """A tree to be played.

    Attributes:
        cancels: Whether the person cancels the root once both branches wait, instead of deciding.
        kills: Where its lives end; lives after those are left alone.
        outputs: Whether it is the tree of agents with outputs.
    """

    name: str
    cancels: bool = False
    kills: tuple[Kill | None, ...] = ()
    outputs: bool = False


@attrs.frozen
class Branch:
    """One run of the tree as it stands at the end.

    Attributes:
        label: Its label.
        events: How many it has of each class.
        twice: What happened twice that must not.
        difference: The first difference that the replay check finds.
        unanswered: What is wrong with the answers to its calls.
        answers: What its model was told.
    """

    label: str
    events: Counts
    twice: list[str]
    difference: str
    unanswered: list[str]
    answers: list[str]


@attrs.frozen
class Tree:
    """What came of a job.

    Attributes:
        lives: How each life ended: its signal, or what it said.
        commits: How many commits the last life made.
        verified: Whether the journal verifies.
        runs: The runs, by what stands behind the root's id.
        effects: Lines in the outside ledger: tool and key.
        sent: How many requests went out.
        more: How much the same command added once all was over.
    """

    job: TreeJob
    lives: list[str]
    commits: int = 0
    verified: bool = True
    runs: dict[str, Branch] = attrs.Factory(dict)
    effects: list[tuple[str, str]] = attrs.Factory(list)
    sent: int = 0
    more: int = 0


# ---- the agents


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

    def agent(self, name: str, *steps: Step, tools: Sequence[object]) -> Agent:
        model = LedgerModel(ScriptedModel(steps, by_turn=True, name=name), self.requests, self.fate)
        return Agent(name, f"You are {name}.", tools=tools, model=model)  # type: ignore[arg-type]  # tools of any kind


def top(place: Place) -> Agent:
    """Parent, researcher, helper; the helper adds, then sends an email that needs an approval."""

    @tool(effect="idempotent_write")
    def add(n: int, ctx: ToolContext) -> str:
        """Add."""
        place.effects.add(tool="add", key=ctx.effect_key)
        return f"added {n}"

    @tool(requires_approval=True)
    async def send_email(to: str, ctx: ToolContext) -> str:
        """Send."""
        place.effects.add(tool="send_email", key=ctx.effect_key)
        place.fate.reach("applied")
        return f"sent to {to}"

    def asked(request: ModelRequest) -> str:
        return str(request.messages[1].content)

    helper = place.agent(
        "helper",
        call("add", n=1),
        lambda request: call("send_email", to=asked(request)),
        lambda request: f"helper: {request.messages[-1].content}",
        tools=[add, send_email],
    )
    researcher = place.agent(
        "researcher",
        lambda request: call("helper", input=asked(request)),
        lambda request: f"researcher: {request.messages[-1].content}",
        tools=[helper.as_tool()],
    )
    asking = calls(*(call("researcher", input=branch) for branch in BRANCHES))
    return place.agent("top", asking, "done", tools=[researcher.as_tool()])


NUMBER: Mapping[str, Value] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def numbers(place: Place) -> Agent:
    """Parent and counter, who must each hand in a number: the one not without the other, and both get it wrong once."""

    @tool(effect="idempotent_write")
    def add(n: int, ctx: ToolContext) -> str:
        """Add."""
        place.effects.add(tool="add", key=ctx.effect_key)
        return f"added {n}"

    def answer(n: Value) -> AI:
        return call("final_result", n=n)

    output = Output(NUMBER, mode="tool")
    counter = place.agent("counter", answer("one"), calls(answer(1), call("add", n=1)), tools=[add])
    asking = calls(*(call("counter", input=branch) for branch in BRANCHES), answer(2))
    counting = attrs.evolve(counter, output=output)
    parent = place.agent("top", answer(2), "2", asking, tools=[counting.as_tool()])
    return attrs.evolve(parent, output=output, completion=[requires_receipt("counter", count=2)])


# ---- one life


async def live(job: TreeJob, place: Place, say: Callable[[str], None]) -> None:
    """Submit the run as if for the first time, and stay until it has ended; be the person."""
    with trio.fail_after(LONGEST):
        async with Journal.open(place.directory / "journal.db", registry=REGISTRY, wrap=fateful(place.fate)) as journal:
            async with Runtime.over(journal, [numbers(place) if job.outputs else top(place)]) as runtime:
                run = await runtime.submit("top", "go", command_id="job")
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(attend, job, place, runtime)
                    try:
                        said = str((await run.wait()).output)
                    except RunCancelled:
                        said = "cancelled"
                    nursery.cancel_scope.cancel()
            say(json.dumps([said, place.fate.passed["after"]]))


async def attend(job: TreeJob, place: Place, runtime: Runtime) -> None:
    """Approve the email to a and deny that to b, or cancel once both are asked for; settle doubts by the ledger."""
    async with runtime.journal.news() as news:
        while True:
            asked = await runtime.approvals()
            if job.cancels and len(asked) == len(BRANCHES):
                await runtime.cancel(asked[0].run.partition("~")[0], by="maria", reason="enough")
            for each in asked if not job.cancels else ():
                if each.arguments["to"] == "a":
                    await runtime.approve(each.action, by="maria")
                else:
                    await runtime.deny(each.action, by="maria", reason="not b")
            done = {line["key"] for line in place.effects.lines()}
            async for head in runtime.commands.runs(IN_DOUBT):
                state = await runtime.commands.state(head.stream.removeprefix("run/"))
                for action in state.in_doubt:
                    key = f"{state.run}/{action.action}"
                    await runtime.resolve(key, "applied" if key in done else "run_again", by="maria")
            await news.wait()


# ---- looking


async def look(journal: Journal) -> tuple[bool, dict[str, Branch], int]:
    """The tree as it stands, checked."""
    runs: dict[str, Branch] = {}
    async for head in journal.streams(prefix="run/"):
        run = head.stream.removeprefix("run/")
        events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
        state, difference = check(run, events)
        runs["~".join(run.split("~")[1:])] = Branch(
            head.label or "",
            Counter(type(event).__name__ for event in events),
            list(twice(events)),
            str(difference or ""),
            unanswered(state.messages),
            [str(message.content) for message in state.messages if message.role == "tool"],
        )
    return (await journal.verify()).ok, runs, await journal.position()


def twice(events: Sequence[object]) -> Sequence[str]:
    """What happened twice that may happen once: a reply to one request, a receipt or a child of one call, the end."""
    once: Counter[str] = Counter()
    for event in events:
        match event:
            case ev.ModelResponded(index=index):
                once[f"reply {index}"] += 1
            case ev.ActionReceipted(action=action):
                once[f"receipt {action}"] += 1
            case ev.ChildStarted(action=action) | ev.ChildFinished(action=action):
                once[f"{type(event).__name__} {action}"] += 1
            case ev.RunSucceeded() | ev.RunFailed() | ev.RunCancelled():
                once["end"] += 1
            case ev.ModelRequested(index=index) if once[f"reply {index}"]:
                once[f"request {index} after its reply"] += 2
            case _:
                continue
    return [what for what, times in once.items() if times > 1]


async def tell(directory: Path, say: Callable[[str], None]) -> None:
    async with Journal.open(directory / "journal.db", registry=REGISTRY) as journal:
        say(json.dumps(cattrs.unstructure(await look(journal))))


# ---- a job


def play(job: TreeJob, directory: Path) -> Tree:
    """Live until the run has ended, and once more to see that nothing changes after that."""
    lives: list[str] = []
    commits = 0
    ended: list[tuple[bool, dict[str, Branch], int]] = []
    while len(ended) < 2 and len(lives) < MOST_LIVES:
        kill = job.kills[len(lives)] if len(lives) < len(job.kills) else None
        place = Place(directory, Fate(kill))

        async def life(say: Callable[[str], None], place: Place = place) -> None:
            await live(job, place, say)

        killed, said = in_fork(life)
        if killed:
            lives.append(f"signal {killed}")
            continue
        lives.append(os.linesep.join(said))
        if len(said) != 1:
            return Tree(job, lives)
        if not ended:
            commits = json.loads(said[0])[1]

        async def report(say: Callable[[str], None]) -> None:
            await tell(directory, say)

        _, told = in_fork(report)
        ended.append(cattrs.structure(json.loads(told[0]), tuple[bool, dict[str, Branch], int]))
    (verified, runs, position), (_, _, after) = ended
    effects = [(str(line["tool"]), str(line["key"]).partition("~")[2]) for line in place.effects.lines()]
    return Tree(job, lives, commits, verified, runs, effects, len(place.requests.lines()), after - position)


def play_all(jobs: Sequence[TreeJob], directory: Path) -> list[Tree]:
    """Play jobs in two processes; results in the order of the jobs."""
    workers = []
    for number in range(min(2, len(jobs))):
        asked, told = directory / f"jobs-{number}.json", directory / f"played-{number}.json"
        asked.write_text(json.dumps(cattrs.unstructure(list(jobs[number::2]))))
        command = [sys.executable, "-m", "tests.recovery.trees", str(asked), str(told)]
        workers.append((subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True), told))
    by_name: dict[str, Tree] = {}
    for process, told in workers:
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint
        by_name |= {tree.job.name: tree for tree in cattrs.structure(json.loads(told.read_text()), list[Tree])}
    return [by_name[job.name] for job in jobs]


def main(jobs: Path, results: Path) -> None:
    """Play the jobs of a file, and write what came of them."""
    # Have done once what each life would do again: pydantic is imported where it is first needed.
    top(Place(results.parent, Fate()))
    gc.freeze()
    played = []
    for job in cattrs.structure(json.loads(jobs.read_text()), list[TreeJob]):
        directory = results.parent / f"{results.stem}-{job.name}"
        directory.mkdir()
        played.append(play(job, directory))
    results.write_text(json.dumps(cattrs.unstructure(played)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
