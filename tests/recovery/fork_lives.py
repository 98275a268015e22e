"""Lives of a process that forks a run: ``python -m tests.recovery.fork_lives DIRECTORY`` kills it at every commit.

Each life submits the run and its fork as if for the first time, is the person who approves, and stays to the end.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio
from tests.recovery.lives import LONGEST, in_fork, unanswered
from tests.recovery.scenario import Fate, Kill, Ledger, LedgerModel, fateful

from trouper import AI, Agent, EditMessage, Human, Run, Runtime, ToolContext, WhatIf, tool
from trouper.core.events import REGISTRY, ActionPlanned, ActionReceipted, ActionStarted
from trouper.core.replay import check
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper_journal import Journal


@attrs.frozen
class Told:
    """How it all stands after the last life.

    Attributes:
        lives: The signals that ended the lives; 0 where one came to its own end.
        said: What went wrong in a life that was not killed, if anything did.
        outputs: What the run and the fork answered.
        runs: How many runs there are, sub-agents' included.
        effects: Keys of effects outside, without the runs' ids: ``origin`` or ``fork``, and what follows.
        recorded: The calls of the fork that were answered by the record.
        started: The calls of the fork that were begun.
        problems: What must not be.
    """

    lives: list[int]
    said: str = ""
    outputs: list[str] = attrs.Factory(list)
    runs: int = 0
    effects: list[str] = attrs.Factory(list)
    recorded: list[str] = attrs.Factory(list)
    started: list[str] = attrs.Factory(list)
    problems: list[str] = attrs.Factory(list)
    commits: int = 0


def agent(directory: Path, fate: Fate) -> Agent:
    """It adds, and has a helper add; in the fork it does the first again, and more."""

    @tool(effect="idempotent_write")
    async def add(n: int, ctx: ToolContext) -> str:
        """Add."""
        Ledger(directory / "effects").add(key=ctx.effect_key, n=n)
        return f"added {n}"

    def model(name: str, *steps: Callable[[ModelRequest], AI | str]) -> LedgerModel:
        return LedgerModel(ScriptedModel(steps, by_turn=True, name=name), Ledger(directory / "requests"), fate)

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


async def live(directory: Path, fate: Fate, say: Callable[[str], None]) -> None:
    """Run, fork, approve, stay."""
    with trio.fail_after(LONGEST):
        async with (
            Journal.open(directory / "journal.db", registry=REGISTRY, wrap=fateful(fate)) as journal,
            Runtime.over(journal, [agent(directory, fate)]) as runtime,
            trio.open_nursery() as nursery,
        ):
            run = await runtime.submit("desk", "Go.", command_id="run")
            await run.wait()
            before = directory / "before.json"
            if not before.exists():
                before.write_text(json.dumps([run.id, await stored(journal, run.id)]))
            what_if = WhatIf([EditMessage(f"{run.id}/input", "Again.")], writes="ask")
            fork = await run.fork(what_if, command_id="fork", by="maria")
            nursery.start_soon(approve, runtime)
            await fork.wait()
            nursery.cancel_scope.cancel()
        say(json.dumps(fate.passed["after"]))


async def approve(runtime: Runtime) -> None:
    """Approve whatever is asked."""
    async with runtime.journal.news() as news:
        while True:
            for each in await runtime.approvals():
                await runtime.approve(each.action, by="otto")
            await news.wait()


async def look(directory: Path, say: Callable[[str], None]) -> None:
    """How it all stands, checked."""
    origin, before = json.loads((directory / "before.json").read_text())
    async with (
        Journal.open(directory / "journal.db", registry=REGISTRY) as journal,
        Runtime.over(journal, [agent(directory, Fate())]) as runtime,
    ):
        problems = [str(problem) for problem in (await journal.verify()).problems]
        problems += [] if await stored(journal, origin) == before else ["the run that was forked has changed"]
        names = [head.stream.removeprefix("run/") async for head in journal.streams(prefix="run/")]
        forks: list[Run] = []
        for name in names:
            run = runtime.run(name)
            state, difference = check(name, [event for _, event in await run.events()])
            problems += [] if difference is None else [f"{name}: {difference}"]
            problems += unanswered(await run.history())
            if state.forked is not None and state.forked.of.run == origin:
                forks.append(run)
        assert len(forks) == 1, forks
        (fork,) = forks
        events = [event for _, event in await fork.events()]
        planned = [event.action for event in events if isinstance(event, ActionPlanned) and event.recorded]
        receipts = [event for event in events if isinstance(event, ActionReceipted) and event.evidence == "recorded"]
        problems += [] if [each.action for each in receipts] == planned else [f"{planned} are not {receipts}"]
        keys = [str(line["key"]) for line in Ledger(directory / "effects").lines()]
        told = Told(
            [],
            "",
            [str((await runtime.run(name).result()).output) for name in (origin, fork.id)],
            len(names),
            [key.replace(origin, "origin").replace(fork.id, "fork") for key in keys],
            planned,
            [event.action for event in events if isinstance(event, ActionStarted)],
            problems,
        )
        say(json.dumps(attrs.asdict(told)))


def play(directory: Path, kills: Sequence[Kill]) -> Told:
    """Die as told, live once more, and look."""
    directory.mkdir()
    lives: list[int] = []
    lines: list[str] = []
    for kill in [*kills, None]:

        async def life(say: Callable[[str], None], kill: Kill | None = kill) -> None:
            await live(directory, Fate(kill), say)

        ended, lines = in_fork(life)
        lives.append(ended)
        if not ended and not (lines and lines[-1].isdecimal()):
            return Told(lives, "\n".join(lines))

    async def report(say: Callable[[str], None]) -> None:
        await look(directory, say)

    _, told = in_fork(report)
    if not told or not told[-1].startswith("{"):
        return Told(lives, "\n".join(told))
    return attrs.evolve(Told(**json.loads(told[-1])), lives=lives, commits=int(lines[-1]))


def main(directory: Path) -> None:
    """Kill it after each commit, and again soon after every third."""
    agent(directory, Fate())
    gc.freeze()
    played = {"undisturbed": play(directory / "undisturbed", [])}
    for nth in range(1, played["undisturbed"].commits + 1):
        again = [Kill("after", 2 + nth % 4)] if nth % 3 == 0 else []
        played[f"after-{nth}"] = play(directory / f"after-{nth}", [Kill("after", nth), *again])
    (directory / "told.json").write_text(json.dumps({name: attrs.asdict(told) for name, told in played.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
