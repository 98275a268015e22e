"""Goes on with an older copy of a journal in child processes, each killed one step later than the one before.

Run as a program, because it forks: ``kill_restorer.py FOLDER``. A step is a call that changes the side file, or a
transaction of the journal's. Prints how many steps there were before and after somebody had accepted the copy.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Final, TypeAlias

import trio

from trouper import REGISTRY, Agent, Principal, Runtime, RuntimeOptions, Tool, tool
from trouper.core.events import ActionInterrupted, ActionStarted, ActionUnresolved
from trouper.core.restore_events import RESTORES
from trouper.errors import JournalRolledBack
from trouper.runtime.restoring import accept
from trouper.testing import ScriptedModel, call
from trouper_journal import Journal, Store
from trouper_journal.backup import back_up
from trouper_journal.rollback import compare_head, decode_head
from trouper_journal.testing import FaultyStore, Hook

Live: TypeAlias = Callable[[Path, Hook | None], Awaitable[None]]

RUNS: Final = 2
FILE_CALLS: Final = frozenset({"open", "write", "flush", "fsync", "replace", "unlink"})


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def hanger(folder: Path) -> Tool[..., object]:
    @tool(effect="idempotent_write")
    async def hang(n: int) -> None:
        """Have an effect, and never end."""
        with (folder / "effects").open("a") as file:
            file.write(f"{n}\n")
        await trio.sleep_forever()

    return hang


def agent(folder: Path) -> Agent:
    return Agent(
        "desk", "Help.", tools=[hanger(folder)], model=ScriptedModel([call("hang", n=1), "Well."], by_turn=True)
    )


OPTIONS = RuntimeOptions(drain=0.1)


async def told(journal: Journal, kind: type, streams: list[str]) -> int:
    """How many events of a kind stand in these streams."""
    number = 0
    for stream in streams:
        async for record in journal.read(stream):
            number += isinstance(journal.registry.decode(record), kind)
    return number


async def runs_of(journal: Journal) -> list[str]:
    return [head.stream async for head in journal.streams(prefix="run/")]


async def until(journal: Journal, kind: type, number: int) -> None:
    """Wait until so many events of a kind stand in the runs."""
    async with journal.news() as news:
        while await told(journal, kind, await runs_of(journal)) < number:
            await news.wait()


async def begin(folder: Path) -> None:
    """A journal with writes under way, a copy of it, and a side file that knows of more."""
    path = folder / "j.db"
    async with Runtime.open(path, [agent(folder)], options=OPTIONS) as runtime:
        for _ in range(RUNS):
            await runtime.submit("desk", "Go.")
        await until(runtime.journal, ActionStarted, RUNS)
        await back_up(path, folder / "copy.db")
        await runtime.submit("desk", "Go on.")


async def accepted(path: Path) -> None:
    async with Journal.open(path, registry=REGISTRY) as journal:
        await accept(journal, await compare_head(journal), by=Principal("maria"), reason="the disk died")


@asynccontextmanager
async def driven(folder: Path, at_write: Hook | None) -> AsyncIterator[Runtime]:
    """A runtime over the journal, which comes to a step before and after each transaction."""

    def wrap(store: Store) -> Store:
        return FaultyStore(store, before_write=at_write, after_write=at_write)

    async with (
        Journal.open(folder / "j.db", registry=REGISTRY, wrap=wrap) as journal,
        Runtime.over(journal, [agent(folder)], options=OPTIONS) as runtime,
    ):
        yield runtime


async def go_on(folder: Path, at_write: Hook | None = None) -> None:
    """A life that drives the journal until all that was under way is in doubt."""
    async with driven(folder, at_write) as runtime:
        await until(runtime.journal, ActionUnresolved, RUNS)


async def park(folder: Path, at_write: Hook | None = None) -> None:
    """A life that may drive nothing."""
    async with driven(folder, at_write) as runtime:
        for stream in await runs_of(runtime.journal):
            try:
                await runtime.run(stream.removeprefix("run/")).wait()
            except JournalRolledBack:
                continue
            raise AssertionError(f"{stream} was driven")


async def live(folder: Path, at_write: Hook | None = None) -> None:
    """A life like any other."""
    async with driven(folder, at_write) as runtime:
        await runtime.submit("desk", "And on.")


class Death:
    """Ends the process at a step, counted from 1."""

    def __init__(self, step: int) -> None:
        self._left = step

    def step(self) -> None:
        """Come to a step, and maybe no further."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def at_write(self, _: object) -> None:
        """Before and after a transaction."""
        self.step()

    def at_file(self, frame: FrameType, event: str, called: object) -> None:
        """Before a call that changes the side file; for `threading.setprofile`."""
        here = frame.f_globals.get("__name__") == "trouper_journal.rollback"
        if here and event == "c_call" and getattr(called, "__name__", "") in FILE_CALLS:
            self.step()


def killed_at(step: int, life: Live, folder: Path) -> bool:
    """Live a life in a child that kills itself at that step; whether it came so far."""
    if (child := os.fork()) == 0:
        death = Death(step)
        threading.setprofile(death.at_file)
        trio.run(life, folder, death.at_write)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, status
    return False


def laid_out(source: Path, folder: Path, *, older: bool) -> None:
    """The journal as it was left, or with the older copy in its place."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    if older:
        shutil.copy(source / "copy.db", folder / "j.db")


async def state(path: Path) -> tuple[str, list[str]]:
    """How the journal stands to its side file, and what was recorded of restores."""
    side = await trio.Path(f"{path}.head").read_bytes()
    assert decode_head(side) is not None, "the side file is whole, whatever died where"
    async with Journal.open(path, registry=REGISTRY) as journal:
        types = [record.type async for record in journal.read(RESTORES)]
        found = await journal.verify()
        assert found.ok, found
        return (await compare_head(journal)).state, types


async def interruptions(path: Path) -> list[str]:
    async with Journal.open(path, registry=REGISTRY) as journal:
        found: list[str] = []
        for stream in (await runs_of(journal))[:RUNS]:
            async for record in journal.read(stream):
                event = journal.registry.decode(record)
                if isinstance(event, ActionInterrupted):
                    found.append(event.cause)
        return found


def each_step(life: Live, prepare: Callable[[], None], check: Callable[[], None], work: Path) -> int:
    """Die at each step of a life, and look each time what is left; how many there are."""
    step, died = 0, True
    while died:
        step += 1
        prepare()
        died = killed_at(step, life, work)
        check()
    return step - 1


def main() -> None:
    source, work = Path(sys.argv[1]) / "source", Path(sys.argv[1]) / "work"
    path = work / "j.db"
    source.mkdir()
    trio.run(begin, source)
    done = effects(source)

    def as_it_was() -> None:
        laid_out(source, work, older=False)

    def nothing_noticed() -> None:
        assert trio.run(state, path) == ("matches", [])

    def put_back() -> None:
        laid_out(source, work, older=True)
        assert trio.run(state, path) == ("rolled_back", [])

    def still_parked() -> None:
        assert trio.run(state, path) == ("rolled_back", [])
        assert effects(work) == done

    def put_back_and_accepted() -> None:
        put_back()
        trio.run(accepted, path)

    def all_unknown_once() -> None:
        assert effects(work) == done
        trio.run(go_on, work)
        trio.run(live, work)
        assert trio.run(state, path) == ("matches", ["journal.restored", "restore.carried_out"])
        assert trio.run(interruptions, path) == ["restored"] * RUNS
        assert effects(work)[: len(done)] == done

    print(each_step(live, as_it_was, nothing_noticed, work))
    print(each_step(park, put_back, still_parked, work))
    print(each_step(go_on, put_back_and_accepted, all_unknown_once, work))


if __name__ == "__main__":
    main()
