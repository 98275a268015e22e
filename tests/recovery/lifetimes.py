"""Plays scenarios: kills them where it is told to, opens them again, and tells what came of them.

A scenario is lived in processes of its own. Each life opens the journal, begins as if for the first time, and goes on
until it dies, or until nothing is left to do; then the next one begins. In between, and at the end, the journal is
looked at. A worker imports everything once and forks each life, which costs milliseconds instead of a second; so it
never starts a thread or an event loop of its own: a fork must not copy those.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

import attrs
import cattrs
import trio
from tests.recovery.fate import Fate, Kill, Ledger, fateful

from trouper import Clock
from trouper.core.events import REGISTRY
from trouper_journal import Journal

LONGEST = 60  # seconds, so that a life that hangs fails instead
MOST_LIVES = 40
ROOT = Path(__file__).parents[2]
_WORKERS = 2


class AnyJob(Protocol):
    """What is to be played: a frozen attrs class that goes through JSON."""

    @property
    def name(self) -> str:
        """Names it among others."""
        ...

    @property
    def kills(self) -> tuple[Kill | None, ...]:
        """Where its lives end, one after the other; lives after those are left alone."""
        ...


JobT = TypeVar("JobT", bound=AnyJob)
SightT = TypeVar("SightT")


@attrs.frozen
class Scene(Generic[JobT]):
    """Where a life of a job is played.

    Attributes:
        earlier: How earlier lives ended; empty texts for those that were killed.
        clock: Its clock, if it has one of its own.
    """

    job: JobT
    directory: Path
    fate: Fate
    earlier: tuple[str, ...] = ()
    clock: Clock | None = None

    @property
    def life(self) -> int:
        """Its number, from 0."""
        return len(self.earlier)

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.directory / "journal.db"

    @property
    def effects(self) -> Ledger:
        """Where tools leave a line each time that they take effect."""
        return Ledger(self.directory / "effects")

    @property
    def requests(self) -> Ledger:
        """Where models leave a line for each request."""
        return Ledger(self.directory / "requests")


def _everything(_: str) -> bool:
    return True


def _no_clock(_: object) -> None:
    return None


@attrs.frozen
class Scenario(Generic[JobT, SightT]):
    """What is played, and how it is looked at. It stands as ``SCENARIO`` in a module of its own.

    Attributes:
        module: The module's name, for the workers.
        job: The class of its jobs.
        sight: The class of what is seen in the journal, without arguments where nothing is there.
        live: A life: begins as if for the first time, stays until nothing is left to do, and says how it ended.
        look: What is in the journal, checked; it changes nothing.
        make: Makes what each life would make again: libraries are imported where they are first needed.
        over: Whether what a life said means that all is over. It is lived once more then, and must say so again.
        clock: The clock of a life; None for the wall clock.
    """

    module: str
    job: type[JobT]
    sight: type[SightT]
    live: Callable[[Scene[JobT], Journal], Awaitable[str]]
    look: Callable[[Scene[JobT], Journal], Awaitable[SightT]]
    make: Callable[[Path], object]
    over: Callable[[str], bool] = _everything
    clock: Callable[[Scene[JobT]], Clock | None] = _no_clock


@attrs.frozen
class Life(Generic[SightT]):
    """A life of the process.

    Attributes:
        signal: What ended it; 0 where it came to its own end.
        said: How it ended; a traceback where it failed; empty where it was killed.
        after: What is in the journal after it.
        failed: Whether it ended by an exception.
        passed: How often it came to each point, if it lived to tell.
    """

    signal: int
    said: str
    after: SightT
    failed: bool = False
    passed: Counter[str] = attrs.Factory(Counter)


@attrs.frozen
class Played(Generic[JobT, SightT]):
    """What came of a job."""

    job: JobT
    lives: list[Life[SightT]]

    @property
    def end(self) -> SightT:
        """What is in the journal after its last life."""
        return self.lives[-1].after

    @property
    def deaths(self) -> int:
        """How many of its lives were ended by a signal."""
        return sum(life.signal != 0 for life in self.lives)


# ---- from a test to its workers and back


def play_all(scenario: Scenario[JobT, SightT], jobs: Sequence[JobT], directory: Path) -> list[Played[JobT, SightT]]:
    """Play jobs in processes side by side; what came of each, in their order."""
    directory.mkdir(exist_ok=True)
    workers = []
    for number in range(min(_WORKERS, len(jobs))):
        asked, told = directory / f"jobs-{number}.json", directory / f"played-{number}.json"
        asked.write_text(json.dumps(CONVERTER.unstructure(list(jobs[number::_WORKERS]))))
        call = "from tests.recovery.lifetimes import main; main()"
        command = [sys.executable, "-c", call, scenario.module, str(asked), str(told)]
        workers.append((subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True), told))
    by_name: dict[str, Played[JobT, SightT]] = {}
    for process, told in workers:
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint
        for each in json.loads(told.read_text()):
            played = CONVERTER.structure(each, Played[scenario.job, scenario.sight])  # type: ignore[name-defined]
            by_name[played.job.name] = played
    return [by_name[job.name] for job in jobs]


def place_of(directory: Path, job: AnyJob) -> Path:
    """Where a job was played that `play_all` was given for this directory."""
    (found,) = directory.glob(f"played-*-{job.name}")
    return found


def main() -> None:
    """A worker: play the jobs of a file, and write what came of them."""
    module, jobs, results = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    scenario = importlib.import_module(module).SCENARIO
    scenario.make(results.parent)
    # A fork copies what it touches; the collector would touch everything.
    gc.freeze()
    played = []
    for job in CONVERTER.structure(json.loads(jobs.read_text()), list[scenario.job]):  # type: ignore[name-defined]
        directory = results.parent / f"{results.stem}-{job.name}"
        directory.mkdir()
        played.append(play(scenario, job, directory))
    results.write_text(json.dumps(CONVERTER.unstructure(played)))


# ---- a job


def play(scenario: Scenario[JobT, SightT], job: JobT, directory: Path) -> Played[JobT, SightT]:
    """Live until all is over, and once more to see that nothing changes after that."""
    lives: list[Life[SightT]] = []
    over = 0
    while over < 2 and len(lives) < MOST_LIVES:
        kill = job.kills[len(lives)] if len(lives) < len(job.kills) else None
        scene = Scene(job, directory, Fate(kill), tuple(life.said for life in lives))
        found, life = _one_life(scenario, scene)
        if lives and lives[-1].signal:
            lives[-1] = attrs.evolve(lives[-1], after=found)
        lives.append(life)
        over = over + 1 if not life.signal and scenario.over(life.said) else 0
        if life.failed:
            break
    return Played(job, lives)


def _one_life(scenario: Scenario[JobT, SightT], scene: Scene[JobT]) -> tuple[SightT, Life[SightT]]:
    """How it finds the journal, and the life itself."""
    killed_by, said = _in_fork(partial(_live, scenario, scene))
    if killed_by == 0 and said[-1] == "KeyboardInterrupt":
        # Not killed by it, but ended: nothing else is to come out of a program that was interrupted.
        killed_by, said = signal.SIGINT, said[:1]
    nothing = scenario.sight()
    if killed_by == 0 and (len(said) != 3 or not all(line.startswith(("{", "[")) for line in said)):
        return nothing, Life(0, os.linesep.join(said), nothing, failed=True)
    found: SightT = CONVERTER.structure(json.loads(said[0]), scenario.sight) if said else nothing
    if killed_by:
        return found, Life(killed_by, "", nothing)
    told, passed = json.loads(said[1])
    left: SightT = CONVERTER.structure(json.loads(said[2]), scenario.sight)
    return found, Life(0, told, left, passed=Counter(passed))


async def _live(scenario: Scenario[JobT, SightT], scene: Scene[JobT], say: _Say) -> None:
    """Says how it finds the journal, and, if it lives to, how it ended and how it leaves the journal."""
    scene = attrs.evolve(scene, clock=scenario.clock(scene))
    with trio.fail_after(LONGEST):
        async with Journal.open(
            scene.journal, registry=REGISTRY, clock=scene.clock, wrap=fateful(scene.fate)
        ) as journal:
            say(json.dumps(CONVERTER.unstructure(await scenario.look(scene, journal))))
            told = await scenario.live(scene, journal)
            say(json.dumps([told, scene.fate.passed]))
            say(json.dumps(CONVERTER.unstructure(await scenario.look(scene, journal))))


_Say: TypeAlias = Callable[[str], None]


def _in_fork(work: Callable[[_Say], Awaitable[None]]) -> tuple[int, list[str]]:
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


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter()
    converter.register_structure_hook_func(lambda wanted: wanted is object, lambda value, _: value)
    return converter


CONVERTER = _converter()
"""Between what is played and its JSON."""
