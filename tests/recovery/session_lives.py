"""Lives of a process that holds a session.

Each life sends the same messages, as a client does that does not know how far an earlier one came, is the person who
approves, and stays until all is answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Ledger
from tests.recovery.lifetimes import Scenario
from tests.recovery.lives import unanswered
from tests.recovery.scenario import Job, Kind, LedgerModel, Stage, make_tool

from trouper import Commands
from trouper.agent import Agent
from trouper.core.conversation import AI, Human, Message, ToolMessage
from trouper.core.events import RunStarted
from trouper.core.replay import check
from trouper.history import History
from trouper.runtime import Runtime, Session, sessions
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._scripted import ModelRequest
from trouper_journal import Journal

KIND = Kind("queryable_write", sync=False, gated=True)
MESSAGES = ("first", "second", "third", "fourth")


@attrs.frozen
class Told:
    """How a session stands in the journal.

    Attributes:
        turns: Status of each turn.
        events: Types in the session's stream.
        runs: Types in each run's stream, in order of turns.
        history: What was said, in order.
        bases: How many messages each run started from.
        effects: How often the tool took effect.
        requests: How often each request was sent, and each summary.
        problems: What must not be.
    """

    turns: list[str] = attrs.Factory(list)
    events: list[str] = attrs.Factory(list)
    runs: list[list[str]] = attrs.Factory(list)
    history: list[str] = attrs.Factory(list)
    bases: list[int] = attrs.Factory(list)
    effects: int = 0
    requests: dict[str, int] = attrs.Factory(dict)
    problems: list[str] = attrs.Factory(list)


Played: TypeAlias = lifetimes.Played[Job, Told]


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


async def live(stage: Stage, journal: Journal) -> str:
    """Send, approve, stay to the end."""
    async with Runtime.over(journal, [agent(stage)]) as runtime:
        session = runtime.session("desk", "s")
        for text in MESSAGES:
            await session.send(text, command_id=text)
        await attend(runtime, session)
    return "answered"


async def attend(runtime: Runtime, session: Session) -> None:
    """Approve what is asked until nobody has the turn."""
    async with runtime.journal.news() as news:
        while True:
            for pending in await runtime.approvals():
                await runtime.approve(pending.action, by="maria")
            if (await session.state()).active is None:
                return
            await news.wait()


async def look(stage: Stage, journal: Journal) -> Told:
    """How it all stands."""
    if await sessions.standing_of(journal, "s") is None:
        return Told()
    commands = Commands(journal)
    view = await sessions.read(journal, "s")
    verified = await journal.verify()
    problems = [str(problem) for problem in verified.problems]
    runs, bases = [], []
    for turn in view.turns:
        records = [record async for record in journal.read(f"run/{turn.run}")]
        events = [journal.registry.decode(record) for record in records]
        state, difference = check(turn.run, events)
        problems += [] if difference is None else [str(difference)]
        problems += unanswered(await commands.history(turn.run))
        runs.append([record.type for record in records])
        bases += [event.base.messages if event.base else 0 for event in events if isinstance(event, RunStarted)]
        problems += [] if state.base is None else await _changed(commands, turn.run)
    entries = stage.requests.lines()
    problems += [str(entry) for entry in entries if entry["violations"]]
    return Told(
        [turn.status for turn in view.turns],
        [record.type async for record in journal.read("session/s")],
        runs,
        [_said(message) for message in await sessions.said(commands.histories, view)],
        bases,
        len(stage.effects.lines()),
        {"asked": len(entries), "summaries": len(Ledger(stage.directory / "summaries").lines())},
        problems,
    )


async def _changed(commands: Commands, run: str) -> list[str]:
    """Whether what a run started from is still what it was."""
    state = await commands.state(run)
    assert state.base is not None
    lead = state.turn.compaction.summary if state.turn is not None and state.turn.compaction is not None else None
    pinned = await commands.histories.pin(state.base, lead, state.salt)
    return [] if pinned == state.base else [f"{run} started from something else"]


def _said(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"{message.name} says {message.content}"
    return str(message.content or "")


def make(directory: Path) -> None:
    """What each life would make again."""
    agent(Stage(Job("warm-up"), directory, Fate()))


SCENARIO = Scenario("tests.recovery.session_lives", Job, Told, live=live, look=look, make=make)
