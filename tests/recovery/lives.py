"""Runs of one agent that die and live on, with a person who approves and settles doubts."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Ledger
from tests.recovery.lifetimes import Scenario
from tests.recovery.plays import PLAYS
from tests.recovery.scenario import Job, SeededEntropy, Stage, StandingClock

from trouper.approvals import Scope
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.core.status import AWAITING, IN_DOUBT, RUNNING, status
from trouper.runtime import Run, Runtime
from trouper_journal import Journal

Entry: TypeAlias = dict[str, object]


@attrs.frozen
class Sight:
    """The run as it stands in the journal; all empty where it is not in there yet.

    Attributes:
        events: Name and telling fields of each.
        verified: Whether the journal verifies.
        difference: The first difference that the replay check finds.
        unanswered: What is wrong with the answers to calls.
        answers: What the model is told of its calls.
        chain: The digest over all messages.
        effects: Lines in the outside ledger.
        requests: Lines in the model's ledger.
    """

    run: str = ""
    label: str = ""
    events: list[Entry] = attrs.Factory(list)
    verified: bool = True
    difference: str = ""
    unanswered: list[str] = attrs.Factory(list)
    answers: list[str] = attrs.Factory(list)
    chain: str = ""
    output: str | None = None
    effects: list[Entry] = attrs.Factory(list)
    requests: list[Entry] = attrs.Factory(list)


Life: TypeAlias = lifetimes.Life[Sight]
Played: TypeAlias = lifetimes.Played[Job, Sight]


# ---- one life


OVER = {"succeeded", "failed", "cancelled", AWAITING}


def settles(earlier: tuple[str, ...]) -> bool:
    """Whether there is a person to settle doubts: they are left alone once, to see that they stay."""
    return earlier.count(IN_DOUBT) >= 2 or (bool(earlier) and earlier[-1] in OVER)


def clock(stage: Stage) -> StandingClock | None:
    return None if stage.job.seed is None else StandingClock()


async def live(stage: Stage, journal: Journal) -> str:
    """Submit the run as if for the first time, and stay until it has ended or nobody but a person can go on."""
    agent = PLAYS[stage.job.play](stage)
    entropy = None if stage.job.seed is None else SeededEntropy(stage.job.seed)
    async with Runtime.over(journal, [agent], clock=stage.clock, entropy=entropy) as runtime:
        run = await runtime.submit("desk", "go", command_id="job")
        return await attend(runtime, run, stage, settle=settles(stage.earlier))


async def attend(runtime: Runtime, run: Run, stage: Stage, *, settle: bool) -> str:
    """Be the person: approve what is asked, and settle doubts by what the ledger says, if at all."""
    async with runtime.journal.news() as news:
        while True:
            state = await run.state()
            told = status(state)
            if state.ended:
                return (await run.result()).status
            if stage.job.approving:
                for action in state.awaiting:
                    await approve(runtime, f"{run.id}/{action.action}", stage.job)
            if settle:
                await settle_doubts(runtime, state, stage.effects)
            if told.label != RUNNING and told.wake_at is None and _left_alone(state, stage, settle):
                return told.label
            await news.wait()


async def approve(runtime: Runtime, action: str, job: Job) -> None:
    """Approve a call, each of those who are there once, as after each restart again."""
    scope = None if job.remember == 0 else Scope(arguments={}, uses=job.remember)
    for who in job.approvers:
        await runtime.approve(action, by=who, remember=scope)


def _left_alone(state: RunState, stage: Stage, settle: bool) -> bool:
    return not (state.awaiting and stage.job.approving) and not (state.in_doubt and settle)


async def settle_doubts(runtime: Runtime, state: RunState, effects: Ledger) -> None:
    """A person looks whether it happened; if not, the call is to be run again."""
    done = {line["key"] for line in effects.lines()}
    for action in state.in_doubt:
        key = f"{state.run}/{action.action}"
        await runtime.resolve(key, "applied" if key in done else "run_again", by="maria", evidence="looked it up")


# ---- looking


_TOLD = (
    "index",
    "attempt",
    "action",
    "outcome",
    "evidence",
    "cause",
    "answer",
    "verdict",
    "reason",
    "request",
    "point",
    "subject",
)


async def look(stage: Stage, journal: Journal) -> Sight:
    """The run as it stands, checked."""
    heads = [head async for head in journal.streams(prefix="run/")]
    effects, requests = ([*map(dict[str, object], ledger.lines())] for ledger in (stage.effects, stage.requests))
    if not heads:
        return Sight(effects=effects, requests=requests)
    (head,) = heads
    events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
    verified = await journal.verify()
    run = head.stream.removeprefix("run/")
    state, difference = check(run, events)
    return Sight(
        run=run,
        label=head.label or "",
        events=[entry(event) for event in events],
        verified=verified.ok,
        difference=str(difference or ""),
        unanswered=unanswered(state.messages),
        answers=[str(message.content) for message in state.messages if isinstance(message, ToolMessage)],
        chain=state.chain.hex(),
        output=state.output,
        effects=effects,
        requests=requests,
    )


def entry(event: object) -> Entry:
    """An event, as far as a test asks."""
    return {"type": type(event).__name__, **{name: getattr(event, name) for name in _TOLD if hasattr(event, name)}}


def unanswered(messages: tuple[Message, ...]) -> list[str]:
    """Calls that are not answered by exactly one tool message, in their order, right after their reply."""
    wrong: list[str] = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if isinstance(message, ToolMessage):
            wrong.append(f"{message.id} answers nothing")
        if not isinstance(message, AI):
            continue
        for asked in message.tool_calls:
            answer = rest.pop(0) if rest else None
            if not isinstance(answer, ToolMessage) or answer.call_id != asked.id:
                wrong.append(f"{asked.id} is answered by {answer}")
    return wrong


def make(directory: Path) -> None:
    """What each life would make again."""
    import openai.resources.chat.completions  # noqa: F401

    PLAYS["turns"](Stage(Job("warm-up", (("queryable_write-sync",),)), directory, Fate()))


SCENARIO = Scenario(
    "tests.recovery.lives", Job, Sight, live=live, look=look, make=make, over=OVER.__contains__, clock=clock
)
