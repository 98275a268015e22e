"""Lives of a process that holds a session: ``python -m tests.recovery.session_lives DIRECTORY`` kills it everywhere.

Each life sends the same three messages, as a client does that does not know how far an earlier one came, is the person
who approves, and stays until all is answered.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import attrs
import trio
from tests.recovery.lives import LONGEST, in_fork, unanswered
from tests.recovery.scenario import Fate, Job, Kill, Kind, Ledger, LedgerModel, Stage, fateful, make_tool

from trouper.agent import Agent
from trouper.core.conversation import AI, Human, Message, ToolMessage
from trouper.core.events import REGISTRY, RunStarted
from trouper.core.replay import check
from trouper.history import History
from trouper.runtime import Runtime, Session
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._scripted import ModelRequest
from trouper_journal import Journal

KIND = Kind("queryable_write", sync=False, gated=True)
MESSAGES = ("first", "second", "third", "fourth")


@attrs.frozen
class Told:
    """How a session stands after its last life.

    Attributes:
        lives: The signals that ended the lives; 0 where one came to its own end.
        said: What went wrong in a life that was not killed, if anything did.
        turns: Status of each turn.
        events: Types in the session's stream.
        runs: Types in each run's stream, in order of turns.
        history: What was said, in order.
        bases: How many messages each run started from.
        effects: How often the tool took effect.
        requests: How often each request was sent, and each summary.
        problems: What must not be.
    """

    lives: list[int]
    said: str
    turns: list[str] = attrs.Factory(list)
    events: list[str] = attrs.Factory(list)
    runs: list[list[str]] = attrs.Factory(list)
    history: list[str] = attrs.Factory(list)
    bases: list[int] = attrs.Factory(list)
    effects: int = 0
    requests: dict[str, int] = attrs.Factory(dict)
    problems: list[str] = attrs.Factory(list)
    commits: int = 0


def ten(_: Message) -> int:
    return 10


def answer(request: ModelRequest) -> AI | str:
    """The first message wants the tool; the others are answered by their own words."""
    last = request.messages[-1]
    if isinstance(last, Human):
        return calls(call(KIND.name, n=1)) if last.content == "first" else f"to {last.content}"
    return "did it"


def summary(request: ModelRequest) -> str:
    return "in short"


def agent(stage: Stage) -> Agent:
    """It is handed four messages at most."""
    steps = [answer] * 50
    model = LedgerModel(ScriptedModel(steps), stage.requests, stage.fate)
    small = LedgerModel(ScriptedModel([summary] * 50, name="small"), Ledger(stage.directory / "summaries"), stage.fate)
    history = History(45, count=ten, keep_last=2, summarise=small)
    return Agent("desk", tools=[make_tool(KIND, stage.effects, stage.fate)], model=model, history=history)


async def live(stage: Stage, say: Callable[[str], None]) -> None:
    """Send, approve, stay to the end."""
    with trio.fail_after(LONGEST):
        async with (
            Journal.open(stage.journal, registry=REGISTRY, wrap=fateful(stage.fate)) as journal,
            Runtime.over(journal, [agent(stage)]) as runtime,
        ):
            session = runtime.session("desk", "s")
            for text in MESSAGES:
                await session.send(text, command_id=text)
            await attend(runtime, session)
        say(json.dumps(stage.fate.passed["after"]))


async def attend(runtime: Runtime, session: Session) -> None:
    """Approve what is asked until nobody has the turn."""
    async with runtime.journal.news() as news:
        while True:
            for pending in await runtime.approvals():
                await runtime.approve(pending.action, by="maria")
            if (await session.state()).active is None:
                return
            await news.wait()


async def look(stage: Stage, say: Callable[[str], None]) -> None:
    """How it all stands."""
    async with (
        Journal.open(stage.journal, registry=REGISTRY) as journal,
        Runtime.over(journal, [agent(stage)]) as runtime,
    ):
        session = runtime.session("desk", "s")
        view = await session.state()
        verified = await journal.verify()
        problems = [str(problem) for problem in verified.problems]
        runs, bases = [], []
        for run in await session.runs():
            events = [event for _, event in await run.events()]
            state, difference = check(run.id, events)
            problems += [] if difference is None else [str(difference)]
            problems += unanswered(await run.history())
            runs.append([record.type for record, _ in await run.events()])
            bases += [event.base.messages if event.base else 0 for event in events if isinstance(event, RunStarted)]
            problems += [] if state.base is None else await _changed(runtime, run.id)
        entries = stage.requests.lines()
        problems += [str(entry) for entry in entries if entry["violations"]]
        told = Told(
            [],
            "",
            [turn.status for turn in view.turns],
            [record.type async for record in journal.read("session/s")],
            runs,
            [_said(message) for message in await session.history()],
            bases,
            len(stage.effects.lines()),
            {"asked": len(entries), "summaries": len(Ledger(stage.directory / "summaries").lines())},
            problems,
        )
        say(json.dumps(attrs.asdict(told)))


async def _changed(runtime: Runtime, run: str) -> list[str]:
    """Whether what a run started from is still what it was."""
    state = await runtime.commands.state(run)
    assert state.base is not None
    lead = state.turn.compaction.summary if state.turn is not None and state.turn.compaction is not None else None
    pinned = await runtime.commands.histories.pin(state.base, lead, state.salt)
    return [] if pinned == state.base else [f"{run} started from something else"]


def _said(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"{message.name} says {message.content}"
    return str(message.content or "")


def play(directory: Path, kills: Sequence[Kill]) -> Told:
    """Die as told, live once more, and look."""
    directory.mkdir()
    job = Job(directory.name)
    lives, said = [], ""
    for number, kill in enumerate([*kills, None]):
        ended, lines = in_fork(partial(live, Stage(job, directory, Fate(kill), number)))
        lives.append(ended)
        said = "" if ended or (lines and lines[-1].isdecimal()) else "\n".join(lines)
        if said:
            return Told(lives, said)
    commits = int(lines[-1])
    _, lines = in_fork(partial(look, Stage(job, directory, Fate(), len(lives))))
    if not lines or not lines[-1].startswith("{"):
        return Told(lives, "\n".join(lines))
    seen = Told(**cast("dict[str, object]", json.loads(lines[-1])))  # type: ignore[arg-type]  # as it was written
    return attrs.evolve(seen, lives=lives, said=said, commits=commits)


def main(directory: Path) -> None:
    """Kill it at each commit, before it and after it; and at each point between."""
    make_tool(KIND, Ledger(directory / "none"), Fate())
    gc.freeze()
    played = {"undisturbed": play(directory / "undisturbed", [])}
    points: list[Kill] = [Kill("after", nth) for nth in range(1, played["undisturbed"].commits + 1)]
    points += [Kill("before", nth) for nth in range(2, played["undisturbed"].commits + 1, 4)]
    points += [Kill("replied", nth) for nth in range(1, 6)]
    points += [Kill("entered", 1), Kill("applied", 1)]
    for kill in points:
        name = f"{kill.point}-{kill.nth}"
        played[name] = play(directory / name, [kill])
    played["again and again"] = play(directory / "again", [Kill("after", nth) for nth in (3, 5, 4, 3, 6)])
    (directory / "told.json").write_text(json.dumps({name: attrs.asdict(told) for name, told in played.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
