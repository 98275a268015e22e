"""Archived runs are named where others are explained, and explained themselves where their archive is at hand."""

from __future__ import annotations

from pathlib import Path

import trio
from tests.cli.program import called, ok_called
from tests.golden.found import run_of

from trouper import REGISTRY
from trouper.audit import AnswerWhy, Explainer, sound
from trouper_journal import Journal
from trouper_journal.archive import beside, move_to_archive, open_archive, write_archive

RUNS = Path("runs-1.db")


def asked(what: str) -> str:
    """The golden run with that input."""
    return run_of(RUNS, what)


async def archived(path: Path, target: Path, *runs: str) -> None:
    """Move runs out of a journal."""
    streams = [f"run/{run}" for run in runs]
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("archiving"):
        await write_archive(journal, str(target), [streams], new_id=b"a" * 16, now=0)
        at = await journal.position()
        moved = await move_to_archive(journal, str(target), at=at, allowed=streams.__contains__)
        assert moved.records > 0


async def explained(path: Path, target: Path, run: str) -> AnswerWhy:
    """A run's answer, with the archive at hand."""
    async with (
        open_archive(str(target)) as archive,
        Journal.open(path, registry=REGISTRY, wrap=beside(archive)) as journal,
    ):
        return await Explainer(journal).answer(run)


def test_sub_agents_and_histories_in_an_archive_are_named_and_contradict_nothing(
    golden_runs: Path, tmp_path: Path
) -> None:
    caller, turn, later = asked("delegate"), asked("hello"), asked("hello again")
    trio.run(archived, golden_runs, target := tmp_path / "old.archive", f"{caller}~0.0", turn)
    shown = ok_called("why", golden_runs, caller)
    assert f"run/{caller}~0.0 was archived to old.archive: give that file to read it" in shown
    # What the call came to stands in the caller's own stream.
    assert 'researcher(input="rain")  done: "It rains on Mondays."' in shown
    told = ok_called("why", golden_runs, later)
    assert "the history before the run cannot be read here, and is not shown: " in told
    assert f"run/{turn} was archived to old.archive" in told
    assert called("diff", golden_runs, turn, later).returncode == 3
    for run in (caller, turn, later):
        why = trio.run(explained, golden_runs, target, run)
        assert (why.origin.unread, sound(why)) == (None, True)
        assert all(request.check is None or request.check.unread is None for request in why.model.requests)
