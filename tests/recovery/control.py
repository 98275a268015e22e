"""Runs that are steered, paused, put to sleep and resumed, and die: ``python -m tests.recovery.control JOBS RESULTS``.

As in `lives`, each life is a fork of a process that has imported everything. Time is a number in a file: it stands
still over deaths, until the person moves it.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import cattrs
import trio
from tests.recovery.lives import in_fork, unanswered
from tests.recovery.scenario import Fate, Kill, Ledger, LedgerModel, fateful
from tests.recovery.trees import twice

from trouper import Agent, Run, RunError, Runtime, SubmitOptions, ToolContext, tool
from trouper.core import events as ev
from trouper.core.conversation import text
from trouper.core.events import REGISTRY
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.testing import ManualClock, ScriptedModel, Step, call, calls
from trouper.timers import wait
from trouper_journal import Journal

ROOT = Path(__file__).parents[2]
LONGEST = 30  # seconds, so that a life that hangs fails instead
MOST_LIVES = 12
DAY = 86_400
SECOND = 10**9
START = ManualClock().moment

Ending: TypeAlias = Literal["resumed", "cancelled", "extended"]
"""What becomes of the sleeping run: paused and resumed, paused and cancelled, or past its deadline and extended."""


@attrs.frozen
class ControlJob:
    """A run to be played.

    Attributes:
        kills: Where its lives end; lives after those are left alone.
    """

    name: str
    ending: Ending = "resumed"
    kills: tuple[Kill | None, ...] = ()


@attrs.frozen
class Told:
    """What came of a job.

    Attributes:
        lives: How each life ended: its signal, or what it said.
        commits: How many commits the first life that came to its end made.
        events: How many the run has of each class.
        wrong: What must not be.
        messages: What was said, by role.
        effects: Effect keys in the outside ledger.
        more: How much the same command added once all was over.
    """

    job: ControlJob
    lives: list[str]
    commits: int = 0
    label: str = ""
    events: dict[str, int] = attrs.Factory(dict)
    wrong: list[str] = attrs.Factory(list)
    messages: list[tuple[str, str]] = attrs.Factory(list)
    effects: list[str] = attrs.Factory(list)
    more: int = 0


class LastingClock(ManualClock):
    """Time that stands in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(int(path.read_text()) if path.exists() else START)
        self._path = path

    def set_to(self, moment: int) -> None:
        """Move it there, if it is not there yet."""
        if moment > self.moment:
            self._path.write_text(str(moment))
            self.advance((moment - self.moment) / SECOND)


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


def desk(place: Place) -> Agent:
    """An agent that notes something and waits for three days, then notes something else."""

    @tool(effect="idempotent_write")
    async def note(n: int, ctx: ToolContext) -> str:
        """Note."""
        place.effects.add(key=ctx.effect_key.partition("/")[2], n=n)
        return f"noted {n}"

    steps: list[Step] = [calls(call("note", n=1), call("wait", seconds=3 * DAY)), call("note", n=2), "done"]
    model = LedgerModel(ScriptedModel(steps, by_turn=True), place.requests, place.fate)
    return Agent("desk", "Do it.", tools=[note, wait], model=model)


def options(job: ControlJob) -> SubmitOptions:
    """It starts an hour later; one of them has a deadline a day later."""
    deadline = START + DAY * SECOND if job.ending == "extended" else None
    return SubmitOptions(start_at=START + 3600 * SECOND, deadline=deadline)


# ---- one life


async def live(job: ControlJob, place: Place, say: Callable[[str], None]) -> None:
    """Submit the run as if for the first time, and stay until it has ended; be the person."""
    clock = LastingClock(place.directory / "time")
    with trio.fail_after(LONGEST):
        path = place.directory / "journal.db"
        async with Journal.open(path, registry=REGISTRY, clock=clock, wrap=fateful(place.fate)) as journal:
            async with Runtime.over(journal, [desk(place)], clock=clock) as runtime:
                run = await runtime.submit("desk", "go", command_id="job", options=options(job))
                async with runtime.journal.news() as news:
                    while not await attend(job, run, clock):
                        await news.wait()
            say(json.dumps([status(await run.state()).label, place.fate.passed["after"]]))


async def attend(job: ControlJob, run: Run, clock: LastingClock) -> bool:
    """Do the next thing that a person does, by what stands in the journal; True where nothing is left to do."""
    state = await run.state()
    seen = Counter(type(event).__name__ for _, event in await run.events())
    if status(state).label == "scheduled":
        clock.set_to(START + 3600 * SECOND)
    if not any(action.sleep is not None for action in state.batch) and not seen["TimerSet"]:
        return False
    for name in ("one", "two") if not state.ended and not state.stopping else ():
        # Said again in each life: it has no second effect.
        await run.steer(name, by="maria", command_id=name)
    return await (_extended if job.ending == "extended" else _paused)(job, run, clock, state, seen)


async def _paused(job: ControlJob, run: Run, clock: LastingClock, state: RunState, seen: Counter[str]) -> bool:
    if not seen["PauseRequested"]:
        await run.pause(by="maria", reason="lunch")
    elif state.control.pause is not None and state.cancel is None:
        clock.set_to(START + 4 * DAY * SECOND)
        if job.ending == "cancelled":
            await run.cancel(by="maria", reason="enough")
        else:
            await run.resume(by="maria")
    return state.ended


async def _extended(_: ControlJob, run: Run, clock: LastingClock, state: RunState, seen: Counter[str]) -> bool:
    if not seen["DeadlinePassed"]:
        clock.set_to(START + DAY * SECOND)
    elif state.failure == "deadline":
        try:
            await run.wait()
        except RunError:
            await run.extend(None, by="maria")
    return state.ended and state.failure is None


# ---- looking


async def look(directory: Path, say: Callable[[str], None]) -> None:
    """Tell how the run stands, checked."""
    async with Journal.open(directory / "journal.db", registry=REGISTRY) as journal:
        (head,) = [head async for head in journal.streams(prefix="run/")]
        events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
        state, difference = check(head.stream.removeprefix("run/"), events)
        wrong = [*unanswered(state.messages), *twice([each for each in events if not isinstance(each, ev.RunFailed)])]
        wrong += [] if difference is None else [str(difference)]
        wrong += [] if (await journal.verify()).ok else ["does not verify"]
        wrong += begun_in_a_pause(events)
        counted = Counter(type(event).__name__ for event in events)
        messages = [(message.role, text(message.content)) for message in state.messages]
        say(json.dumps([head.label, counted, wrong, messages, await journal.position()]))


def begun_in_a_pause(events: Sequence[object]) -> Sequence[str]:
    """What began between a pause and its end."""
    begins = ev.ModelRequested | ev.ActionStarted | ev.TimerFired | ev.RunHeard
    paused, found = False, []
    for event in events:
        if isinstance(event, ev.PauseRequested):
            paused = True
        elif isinstance(event, ev.ResumeRequested | ev.CancelRequested):
            paused = False
        elif paused and isinstance(event, begins):
            found.append(f"{type(event).__name__} in a pause")
    return found


# ---- a job


def play(job: ControlJob, directory: Path) -> Told:
    """Live until the run has ended, and once more to see that nothing changes after that."""
    lives: list[str] = []
    commits = 0
    ended: list[tuple[str, dict[str, int], list[str], list[tuple[str, str]], int]] = []
    place = Place(directory, Fate())
    while len(ended) < 2 and len(lives) < MOST_LIVES:
        kill = job.kills[len(lives)] if len(lives) < len(job.kills) else None
        place = Place(directory, Fate(kill))

        async def life(say: Callable[[str], None], place: Place = place) -> None:
            await live(job, place, say)

        async def report(say: Callable[[str], None]) -> None:
            await look(directory, say)

        killed, said = in_fork(life)
        lives.append(f"signal {killed}" if killed else os.linesep.join(said))
        if killed:
            continue
        if len(said) != 1:
            return Told(job, lives)
        commits = commits or json.loads(said[0])[1]
        _, told = in_fork(report)
        ended.append(json.loads(told[0]))
    if len(ended) < 2:
        return Told(job, lives)
    (label, counted, wrong, messages, position), (*_, after) = ended
    effects = [str(line["key"]) for line in place.effects.lines()]
    said_by = [(role, what) for role, what in messages]
    return Told(job, lives, commits, label, counted, wrong, said_by, effects, after - position)


def play_all(jobs: Sequence[ControlJob], directory: Path) -> list[Told]:
    """Play jobs in two processes; results in the order of the jobs."""
    workers = []
    directory.mkdir(exist_ok=True)
    for number in range(min(2, len(jobs))):
        asked, told = directory / f"jobs-{number}.json", directory / f"played-{number}.json"
        asked.write_text(json.dumps(cattrs.unstructure(list(jobs[number::2]))))
        command = [sys.executable, "-m", "tests.recovery.control", str(asked), str(told)]
        workers.append((subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True), told))
    by_name: dict[str, Told] = {}
    for process, told in workers:
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint
        by_name |= {each.job.name: each for each in cattrs.structure(json.loads(told.read_text()), list[Told])}
    return [by_name[job.name] for job in jobs]


def main(jobs: Path, results: Path) -> None:
    """Play the jobs of a file, and write what came of them."""
    # Have done once what each life would do again: pydantic is imported where it is first needed.
    desk(Place(results.parent, Fate()))
    gc.freeze()
    played = []
    for job in cattrs.structure(json.loads(jobs.read_text()), list[ControlJob]):
        directory = results.parent / f"{results.stem}-{job.name}"
        directory.mkdir()
        played.append(play(job, directory))
    results.write_text(json.dumps(cattrs.unstructure(played)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
