"""Runs that are steered, paused, put to sleep and resumed, and die.

Time is a number in a file: it stands still over deaths, until the person moves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
from tests.recovery import lifetimes
from tests.recovery.fate import Fate, Kill
from tests.recovery.lifetimes import Scenario, Scene
from tests.recovery.lives import unanswered
from tests.recovery.scenario import LedgerModel
from tests.recovery.trees import twice

from trouper import Agent, Run, RunError, Runtime, SubmitOptions, ToolContext, tool
from trouper.core import events as ev
from trouper.core.conversation import text
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.testing import ManualClock, ScriptedModel, Step, call, calls
from trouper.timers import wait
from trouper_journal import Journal

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
    """The run as it stands in the journal.

    Attributes:
        events: How many it has of each class.
        wrong: What must not be.
        messages: What was said, by role.
        effects: Effect keys in the outside ledger.
        position: The journal's last position.
    """

    label: str = ""
    events: dict[str, int] = attrs.Factory(dict)
    wrong: list[str] = attrs.Factory(list)
    messages: list[tuple[str, str]] = attrs.Factory(list)
    effects: list[str] = attrs.Factory(list)
    position: int = 0


Place: TypeAlias = Scene[ControlJob]
Played: TypeAlias = lifetimes.Played[ControlJob, Told]


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


def clock_of(place: Place) -> LastingClock:
    return LastingClock(place.directory / "time")


async def live(place: Place, journal: Journal) -> str:
    """Submit the run as if for the first time, and stay until it has ended; be the person."""
    clock = place.clock
    assert isinstance(clock, LastingClock)
    async with Runtime.over(journal, [desk(place)], clock=clock) as runtime:
        run = await runtime.submit("desk", "go", command_id="job", options=options(place.job))
        async with runtime.journal.news() as news:
            while not await attend(place.job, run, clock):
                await news.wait()
        return status(await run.state()).label


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


async def look(place: Place, journal: Journal) -> Told:
    """How the run stands, checked."""
    heads = [head async for head in journal.streams(prefix="run/")]
    if not heads:
        return Told()
    (head,) = heads
    events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
    state, difference = check(head.stream.removeprefix("run/"), events)
    wrong = [*unanswered(state.messages), *twice([each for each in events if not isinstance(each, ev.RunFailed)])]
    wrong += [] if difference is None else [str(difference)]
    wrong += [] if (await journal.verify()).ok else ["does not verify"]
    wrong += begun_in_a_pause(events)
    return Told(
        head.label or "",
        Counter(type(event).__name__ for event in events),
        wrong,
        [(message.role, text(message.content)) for message in state.messages],
        [str(line["key"]) for line in place.effects.lines()],
        await journal.position(),
    )


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


def make(directory: Path) -> None:
    """What each life would make again."""
    desk(Place(ControlJob("warm-up"), directory, Fate()))


SCENARIO = Scenario("tests.recovery.control", ControlJob, Told, live=live, look=look, make=make, clock=clock_of)


def play_all(jobs: Sequence[ControlJob], directory: Path) -> list[Played]:
    """Play jobs; results in the order of the jobs."""
    return lifetimes.play_all(SCENARIO, jobs, directory)
