"""Trees of agents that die and live on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import trio
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Kill
from tests.recovery.lifetimes import Scenario, Scene
from tests.recovery.lives import unanswered
from tests.recovery.scenario import LedgerModel

from trouper import AI, Agent, Output, RunCancelled, Runtime, ToolContext, requires_receipt, tool
from trouper.core import events as ev
from trouper.core.replay import check
from trouper.core.status import IN_DOUBT
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper.testing._scripted import Step
from trouper_journal import Journal, Value

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
    """The tree as it stands in the journal.

    Attributes:
        verified: Whether the journal verifies.
        runs: The runs, by what stands behind the root's id.
        effects: Lines in the outside ledger: tool and key.
        sent: How many requests went out.
        position: The journal's last position.
    """

    verified: bool = True
    runs: dict[str, Branch] = attrs.Factory(dict)
    effects: list[tuple[str, str]] = attrs.Factory(list)
    sent: int = 0
    position: int = 0


Place: TypeAlias = Scene[TreeJob]
Played: TypeAlias = lifetimes.Played[TreeJob, Tree]


# ---- the agents


def agent(place: Place, name: str, *steps: Step, tools: Sequence[object]) -> Agent:
    model = LedgerModel(ScriptedModel(steps, by_turn=True, name=name), place.requests, place.fate)
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

    helper = agent(
        place,
        "helper",
        call("add", n=1),
        lambda request: call("send_email", to=asked(request)),
        lambda request: f"helper: {request.messages[-1].content}",
        tools=[add, send_email],
    )
    researcher = agent(
        place,
        "researcher",
        lambda request: call("helper", input=asked(request)),
        lambda request: f"researcher: {request.messages[-1].content}",
        tools=[helper.as_tool()],
    )
    asking = calls(*(call("researcher", input=branch) for branch in BRANCHES))
    return agent(place, "top", asking, "done", tools=[researcher.as_tool()])


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
    counter = agent(place, "counter", answer("one"), calls(answer(1), call("add", n=1)), tools=[add])
    asking = calls(*(call("counter", input=branch) for branch in BRANCHES), answer(2))
    counting = attrs.evolve(counter, output=output)
    parent = agent(place, "top", answer(2), "2", asking, tools=[counting.as_tool()])
    return attrs.evolve(parent, output=output, completion=[requires_receipt("counter", count=2)])


# ---- one life


async def live(place: Place, journal: Journal) -> str:
    """Submit the run as if for the first time, and stay until it has ended; be the person."""
    async with Runtime.over(journal, [numbers(place) if place.job.outputs else top(place)]) as runtime:
        run = await runtime.submit("top", "go", command_id="job")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, place, runtime)
            try:
                said = str((await run.wait()).output)
            except RunCancelled:
                said = "cancelled"
            nursery.cancel_scope.cancel()
    return said


async def attend(place: Place, runtime: Runtime) -> None:
    """Approve the email to a and deny that to b, or cancel once both are asked for; settle doubts by the ledger."""
    async with runtime.journal.news() as news:
        while True:
            asked = await runtime.approvals()
            if place.job.cancels and len(asked) == len(BRANCHES):
                await runtime.cancel(asked[0].run.partition("~")[0], by="maria", reason="enough")
            for each in asked if not place.job.cancels else ():
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


async def look(place: Place, journal: Journal) -> Tree:
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
    effects = [(str(line["tool"]), str(line["key"]).partition("~")[2]) for line in place.effects.lines()]
    verified = await journal.verify()
    return Tree(verified.ok, runs, effects, len(place.requests.lines()), await journal.position())


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


def make(directory: Path) -> None:
    """What each life would make again."""
    top(Place(TreeJob("warm-up"), directory, Fate()))


SCENARIO = Scenario("tests.recovery.trees", TreeJob, Tree, live=live, look=look, make=make)


def play_all(jobs: Sequence[TreeJob], directory: Path) -> list[Played]:
    """Play jobs; results in the order of the jobs."""
    return lifetimes.play_all(SCENARIO, jobs, directory)
