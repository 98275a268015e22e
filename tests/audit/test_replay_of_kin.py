"""A run and the run that called it must say the same of each other, though all digests are right."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import trio
from attrs import evolve
from tests.audit.rewriting import rewritten
from tests.cli.program import called
from tests.golden.found import run_of

from trouper import REGISTRY, Agent, Runtime
from trouper.audit import ReplayProblem, replay_streams
from trouper.core import events as ev
from trouper.core.budget import Spent
from trouper.core.family import Parent, parent_of
from trouper.testing import ScriptedModel, call
from trouper_journal import Journal
from trouper_journal.archive import move_to_archive, write_archive

CALLER = run_of(Path("runs-1.db"), "delegate")
CHILD = f"{CALLER}~0.0"

Change = Callable[[str, object], object | None]


async def problems(path: Path, kind: str = "kin") -> list[ReplayProblem]:
    async with aclosing(replay_streams(path, jobs=1)) as results:
        found = [each.problem async for each in results if each.problem is not None]
    return [problem for problem in found if problem.kind == kind]


def told(**fields: object) -> Change:
    """What the caller was told of the child, with other fields."""

    def change(_: str, event: object) -> object:
        is_it = isinstance(event, ev.ChildFinished) and event.run == CHILD
        return evolve(event, **fields) if is_it else event  # type: ignore[misc]

    return change


def without(kind: type, run: str) -> Change:
    def change(stream: str, event: object) -> object | None:
        is_it = isinstance(event, kind) and stream == f"run/{run}" and getattr(event, "run", CHILD) == CHILD
        return None if is_it else event

    return change


def submitted(**fields: object) -> Change:
    def change(stream: str, event: object) -> object:
        is_it = isinstance(event, ev.RunSubmitted) and stream == f"run/{CHILD}"
        return evolve(event, **fields) if is_it else event  # type: ignore[misc]

    return change


FORGED: list[tuple[str, Change, str]] = [
    ("another answer", told(text="It never rains."), "its answer is 'It rains on Mondays.', and run"),
    ("an answer with a value", told(value=7), "its answer is None"),
    ("another end", told(status="failed", kind="model"), "it ended 'succeeded', and run"),
    ("another reason", told(kind="model"), "it failed by None, and run"),
    ("other spending", told(spent=Spent(cost=99)), "it spent "),
    ("the caller was never told", without(ev.ChildFinished, CALLER), "was never told"),
    ("the child has not ended", without(ev.RunSucceeded, CHILD), "says that it succeeded, and it has not ended"),
    ("nobody called it", without(ev.ChildStarted, CALLER), "began it, though it says so"),
    ("it knows of no caller", submitted(parent=None), "it says that nobody began it"),
    (
        "another call began it",
        submitted(parent=Parent(CALLER, "3.7")),
        f"it says that the call 3.7 of run {CALLER} began it",
    ),
    ("another agent", submitted(agent="desk"), "it is of the agent desk, for the call 0.0; its caller says, for"),
]


@pytest.mark.parametrize(("change", "says"), [each[1:] for each in FORGED], ids=[each[0] for each in FORGED])
async def test_kin_that_contradict_each_other_are_found(
    golden_runs: Path, tmp_path: Path, change: Change, says: str
) -> None:
    found = await problems(await rewritten(golden_runs, tmp_path / "forged.db", change))
    (problem,) = [each for each in found if each.stream == f"run/{CHILD}"]
    assert says in problem.message
    assert {each.stream for each in found} == {f"run/{CHILD}"}


async def test_a_child_that_is_not_there_is_missed_by_its_caller(golden_runs: Path, tmp_path: Path) -> None:
    def change(stream: str, event: object) -> object | None:
        return None if stream == f"run/{CHILD}" else event

    (found,) = await problems(await rewritten(golden_runs, tmp_path / "forged.db", change))
    assert found.stream == f"run/{CALLER}"
    assert f"begins the run {CHILD}, which is not in the journal" in found.message
    assert found.recorded is not None
    assert found.recorded["type"] == "child.started"
    assert found.position is not None


async def test_a_journal_that_was_only_written_anew_contradicts_nothing(golden_runs: Path, tmp_path: Path) -> None:
    assert await problems(await rewritten(golden_runs, tmp_path / "anew.db", lambda _, event: event)) == []


def test_the_command_tells_it_as_a_difference(golden_runs: Path, tmp_path: Path) -> None:
    path = trio.run(rewritten, golden_runs, tmp_path / "forged.db", told(text="It never rains."))
    done = called("replay", path, CHILD)
    assert done.returncode == 1
    assert "was told 'It never rains.'" in done.stdout
    assert "child.finished" in done.stdout
    assert called("replay", path, CHILD, "--json").returncode == 1


async def test_kin_in_an_archive_contradicts_nothing(golden_runs: Path, tmp_path: Path) -> None:
    for number, stream in enumerate((f"run/{CALLER}", f"run/{CHILD}")):
        path = await rewritten(golden_runs, tmp_path / f"{number}.db", lambda _, event: event)
        async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("test"):
            target = tmp_path / f"{number}.archive"
            await write_archive(journal, target, [[stream]], new_id=os.urandom(16), now=0)
            await move_to_archive(journal, target, at=await journal.position(), allowed=lambda _: True)
        assert await problems(path) == []


async def test_beside_a_daemon_what_goes_on_meanwhile_contradicts_nothing(tmp_path: Path) -> None:
    """A caller that was read before its child was begun, or had ended, is read again before anything is said."""
    path = tmp_path / "j.db"
    below = Agent("below", model=ScriptedModel(["Deep."]))
    above = Agent("above", tools=[below.as_tool()], model=ScriptedModel([call("below", input="dig"), "Dug."]))
    seen: list[str] = []
    async with Runtime.open(path, [above]) as runtime, trio.open_nursery() as nursery:
        run = await runtime.submit("above", "Dig.")

        async def replay_all_the_time() -> None:
            async with runtime.journal.news() as news:
                while await news.wait():
                    seen.extend(problem.message for problem in await problems(path))

        nursery.start_soon(replay_all_the_time)
        assert (await run.wait()).output == "Dug."
        nursery.cancel_scope.cancel()
    assert await problems(path) == []
    async with Journal.open(path, read_only=True) as journal:
        assert [head.stream async for head in journal.streams(prefix="run/") if parent_of(head.stream)]
    assert seen == []
