"""Lives of a process over one journal: ``python -m tests.recovery.lives JOBS RESULTS`` plays each job life by life.

This process imports everything once and forks each life, which costs milliseconds instead of a second. It never
starts a thread or an event loop of its own: a fork must not copy those.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import attrs
import cattrs
import trio
from tests.recovery.plays import PLAYS
from tests.recovery.scenario import Fate, Job, Ledger, SeededEntropy, Stage, StandingClock, fateful

from trouper.approvals import Scope
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.events import REGISTRY
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.core.status import AWAITING, IN_DOUBT, RUNNING, status
from trouper.runtime import Run, Runtime
from trouper_journal import Journal

LONGEST = 60  # seconds, so that a life that hangs fails instead
MOST_LIVES = 40


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


@attrs.frozen
class Life:
    """A life of the process.

    Attributes:
        signal: What ended it; 0 where it came to its own end.
        said: How it ended: the run's label, or a traceback.
        failed: Whether it ended by an exception.
        settles: Whether there was a person to settle doubts.
        passed: How often it came to each point, if it told.
        after: The run after it.
        effects: Lines in the outside ledger after it.
        requests: Lines in the model's ledger after it.
    """

    signal: int
    said: str
    effects: list[Entry]
    requests: list[Entry]
    failed: bool = False
    settles: bool = False
    passed: Counter[str] = attrs.Factory(Counter)
    after: Sight = attrs.Factory(Sight)


@attrs.frozen
class Played:
    """What came of a job."""

    job: Job
    lives: list[Life]

    @property
    def end(self) -> Sight:
        """The run after its last life."""
        return self.lives[-1].after


def in_fork(work: Callable[[Callable[[str], None]], Awaitable[None]]) -> tuple[int, list[str]]:
    """Run async work in a process of its own; the signal that ended it, and what it said before."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            trio.run(work, partial(_say, writing))
        except BaseException:  # noqa: BLE001 -- it is told, and the process ends
            os.write(writing, traceback.format_exc().encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        said = file.read().splitlines()
    _, ended = os.waitpid(pid, 0)
    return (os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0), said


def _say(descriptor: int, line: str) -> None:
    os.write(descriptor, line.encode() + b"\n")


# ---- one life


async def live(stage: Stage, settle: bool, say: Callable[[str], None]) -> None:
    """Submit the run as if for the first time, and stay until it has ended or nobody but a person can go on.

    Says how it finds the run, and, if it lives to, how it ended and how it leaves the run.
    """
    agent = PLAYS[stage.job.play](stage)
    seed = stage.job.seed
    clock = None if seed is None else StandingClock()
    entropy = None if seed is None else SeededEntropy(seed)
    with trio.fail_after(LONGEST):
        async with Journal.open(stage.journal, registry=REGISTRY, clock=clock, wrap=fateful(stage.fate)) as journal:
            say(json.dumps(attrs.asdict(await look(journal))))
            async with Runtime.over(journal, [agent], clock=clock, entropy=entropy) as runtime:
                run = await runtime.submit("desk", "go", command_id="job")
                label = await attend(runtime, run, stage, settle=settle)
            say(json.dumps([label, stage.fate.passed]))
            say(json.dumps(attrs.asdict(await look(journal))))


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


async def look(journal: Journal) -> Sight:
    """The run as it stands, checked."""
    heads = [head async for head in journal.streams(prefix="run/")]
    if not heads:
        return Sight()
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


# ---- a job


def play(job: Job, directory: Path) -> Played:
    """Live until the run has ended, and once more to see that nothing changes after that."""
    lives: list[Life] = []
    doubts = ended = 0
    while ended < 2 and len(lives) < MOST_LIVES:
        kill = job.kills[len(lives)] if len(lives) < len(job.kills) else None
        # A doubt is left alone once, to see that it stays.
        found, life = one_life(Stage(job, directory, Fate(kill), len(lives)), settle=doubts >= 2 or ended > 0)
        if lives and lives[-1].signal:
            lives[-1] = attrs.evolve(lives[-1], after=found)
        lives.append(life)
        doubts += life.said == IN_DOUBT
        ended = ended + 1 if life.said in {"succeeded", "failed", "cancelled", AWAITING} else 0
        if life.failed:
            break
    return Played(job, lives)


def one_life(stage: Stage, *, settle: bool) -> tuple[Sight, Life]:
    """How it finds the run, and the life itself."""
    killed_by, said = in_fork(partial(live, stage, settle))
    if killed_by == 0 and said[-1] == "KeyboardInterrupt":
        # Not killed by it, but ended: nothing else is to come out of a program that was interrupted.
        killed_by, said = signal.SIGINT, said[:1]
    first, *rest = said
    effects, requests = (cast("list[Entry]", ledger.lines()) for ledger in (stage.effects, stage.requests))
    life = Life(killed_by, "", effects=effects, requests=requests, settles=settle)
    if killed_by == 0 and (not first.startswith("{") or len(rest) != 2):
        return Sight(), attrs.evolve(life, said=os.linesep.join(said), failed=True)
    found = CONVERTER.structure(json.loads(first), Sight)
    if killed_by:
        return found, life
    told, leaves = map(json.loads, rest)
    return found, attrs.evolve(life, said=told[0], passed=Counter(told[1]), after=CONVERTER.structure(leaves, Sight))


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter()
    converter.register_structure_hook_func(lambda wanted: wanted is object, lambda value, _: value)
    return converter


CONVERTER = _converter()
"""Between what is played and its JSON."""


def warm_up(directory: Path) -> None:
    """Have done once what each life would do again: libraries are imported where they are first needed."""
    import openai.resources.chat.completions  # noqa: F401

    PLAYS["turns"](Stage(Job("warm-up", (("queryable_write-sync",),)), directory, Fate()))
    # A fork copies what it touches; the collector would touch everything.
    gc.freeze()


def main(jobs: Path, results: Path) -> None:
    """Play the jobs of a file, and write what came of them."""
    warm_up(results.parent)
    played = []
    for job in CONVERTER.structure(json.loads(jobs.read_text()), list[Job]):
        directory = results.parent / f"{results.stem}-{job.name}"
        directory.mkdir()
        played.append(play(job, directory))
    results.write_text(json.dumps(CONVERTER.unstructure(played)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
