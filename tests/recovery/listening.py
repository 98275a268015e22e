"""A run that somebody listens to, in a process that dies; the listener comes back with what it heard last.

What is heard is noted in a file. Each life begins as if for the first time, asks for what came after the last version
in that file, and listens until the run's stream ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs
import trio
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Ledger
from tests.recovery.fork_lives import approve
from tests.recovery.lifetimes import Scenario
from tests.recovery.scenario import Job, Stage, turns_agent

from trouper import Runtime
from trouper.core.events import ModelFailed, ModelLost
from trouper.core.replay import check
from trouper.streaming import CallPiece, Ended, Recorded, RunStream, Superseded, TextPiece
from trouper_journal import Journal, Value

Line: TypeAlias = dict[str, object]


@attrs.frozen
class Heard:
    """What was heard, and what is in the journal.

    Attributes:
        lines: What was heard, in order, over all lives.
        stored: The types of the run's events.
        lost: Index and attempt of each request that brought no reply.
        messages: Ids of the conversation's messages.
        problems: What must not be.
    """

    lines: list[Line] = attrs.Factory(list)
    stored: list[str] = attrs.Factory(list)
    lost: list[tuple[int, int]] = attrs.Factory(list)
    messages: list[str] = attrs.Factory(list)
    problems: list[str] = attrs.Factory(list)


Played: TypeAlias = lifetimes.Played[Job, Heard]


def heard(stage: Stage) -> Ledger:
    """What was heard."""
    return Ledger(stage.directory / "heard")


async def live(stage: Stage, journal: Journal) -> str:
    """Submit, be the person who approves, and listen to the end."""
    versions = [line["version"] for line in heard(stage).lines() if line["what"] == "recorded"]
    last = versions[-1] if versions else 0
    assert isinstance(last, int)
    async with Runtime.over(journal, [turns_agent(stage)]) as runtime, trio.open_nursery() as nursery:
        run = await runtime.submit("desk", "go", command_id="job")
        nursery.start_soon(approve, runtime)
        async with run.stream(after=last) as stream:
            await listen(stage, stream)
        nursery.cancel_scope.cancel()
    return "heard"


async def listen(stage: Stage, stream: RunStream) -> None:
    """Note what comes."""

    def note(what: str, **fields: Value) -> None:
        heard(stage).add(what=what, life=stage.life, **fields)

    async for event in stream:
        match event:
            case Recorded(version=version, event=stored, messages=messages):
                index, attempt = getattr(stored, "index", None), getattr(stored, "attempt", None)
                ids: list[Value] = [message.id for message in messages]
                note("recorded", version=version, type=type(stored).__name__, ids=ids, index=index, attempt=attempt)
            case Superseded(index=index, attempt=attempt):
                note("superseded", index=index, attempt=attempt)
            case TextPiece(index=index, attempt=attempt) | CallPiece(index=index, attempt=attempt):
                note("piece", index=index, attempt=attempt)
            case Ended(status=status):
                note("ended", status=status)
            case _:
                note("other", text=str(event))


async def look(stage: Stage, journal: Journal) -> Heard:
    """What was heard, and what is there."""
    lines: list[Line] = [*map(dict[str, object], heard(stage).lines())]
    heads = [head async for head in journal.streams(prefix="run/")]
    if not heads:
        return Heard(lines)
    (head,) = heads
    events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
    state, difference = check(head.stream.removeprefix("run/"), events)
    return Heard(
        lines,
        [type(event).__name__ for event in events],
        [(event.index, event.attempt) for event in events if isinstance(event, ModelFailed | ModelLost)],
        [message.id for message in state.messages],
        ([] if difference is None else [str(difference)]) + [str(each) for each in (await journal.verify()).problems],
    )


def make(directory: Path) -> None:
    """What each life would make again."""
    turns_agent(Stage(Job("warm-up", (("queryable_write-sync",),)), directory, Fate()))


SCENARIO = Scenario("tests.recovery.listening", Job, Heard, live=live, look=look, make=make)
