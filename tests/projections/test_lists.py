"""Runs and approvals as tables: what the folds of all runs say, and nothing of what anybody said."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.golden.found import FOLDER, run_of

from trouper import REGISTRY, Agent, People, Principal, Runtime, tool
from trouper.core.events import ApprovalDecided, ApprovalWithdrawn
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.projections import (
    ApprovalsProjection,
    RunsProjection,
    SpendProjection,
    list_approvals,
    list_runs,
    open_projection,
)
from trouper.runtime.histories import run_state
from trouper.testing import ScriptedModel, call
from trouper_journal import Journal


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / "runs-1.db", tmp_path / "runs-1.db"))


async def states(journal: Journal) -> dict[str, RunState]:
    names = [head.stream.removeprefix("run/") async for head in journal.streams(prefix="run/")]
    return {name: await run_state(journal, name) for name in names}


async def test_every_run_stands_as_its_fold_says(golden: Path) -> None:
    async with (
        Journal.open(golden, registry=REGISTRY, read_only=True) as journal,
        open_projection(journal, RunsProjection(), in_memory=True) as projected,
    ):
        await projected.catch_up()
        folded = await states(journal)
        rows = await list_runs(projected, limit=1000)
        assert [row.run for row in rows] == sorted(folded)
        for row in rows:
            state = folded[row.run]
            assert (row.agent, row.label, row.events) == (state.agent, status(state).label, state.version)
            assert (row.started_at is not None, row.ended_at is not None) == (state.started, state.ended)
            assert row.session == (None if state.turn is None else state.turn.place.session)
            assert row.parent == (None if state.family.parent is None else state.family.parent.run)
        waiting = await list_runs(projected, label="awaiting_approval")
        assert waiting
        assert {row.label for row in waiting} == {"awaiting_approval"}
        assert {row.agent for row in await list_runs(projected, agent="desk")} == {"desk"}
        first, *_ = rows
        assert [row.run for row in await list_runs(projected, after=first.run, limit=2)] == [rows[1].run, rows[2].run]


async def test_every_open_approval_is_one_that_a_run_waits_for(golden: Path) -> None:
    async with (
        Journal.open(golden, registry=REGISTRY, read_only=True) as journal,
        open_projection(journal, ApprovalsProjection(), in_memory=True) as projected,
    ):
        await projected.catch_up()
        waits = {
            (f"{run}/{action.action}", action.tool, len(action.consent.votes))
            for run, state in (await states(journal)).items()
            for action in state.awaiting
        }
        rows = await list_approvals(projected, limit=1000)
        assert {(row.action, row.tool, row.approvals) for row in rows if row.status == "open"} == waits
        assert all((row.settled_at is None) == (row.status == "open") for row in rows)
        found = {(row.action.rpartition("/")[0], row.request): row.status for row in rows}
        assert found[run_of(golden, "expire"), 1] == "expired"
        assert found[run_of(golden, "edit"), 1] == "approved"
        by_call = {row.action: row.status for row in rows}
        approve = run_of(golden, "approve")
        assert (by_call[f"{approve}/0.0"], by_call[f"{approve}/0.1"]) == ("approved", "denied")
        assert {row.status for row in rows} == {"open", "approved", "denied", "expired", "withdrawn", "moot"}


async def test_votes_past_the_rules_do_not_count(golden: Path) -> None:
    run = run_of(golden, "refund 500")
    async with (
        Journal.open(golden, registry=REGISTRY) as journal,
        open_projection(journal, ApprovalsProjection()) as projected,
    ):
        await projected.catch_up()
        (before,) = [row for row in await list_approvals(projected, status="open", limit=1000) if row.run == run]
        (action,) = (await run_state(journal, run)).awaiting
        assert (before.approvals, before.quorum) == (1, 2)
        # Whoever asked for the run may not approve; another is nobody who may; one has no name to tell voters apart by.
        rogue = [
            ApprovalDecided("0.0", 1, "approve", action.digest, Principal("maria"), voter=b"m"),
            ApprovalDecided("0.0", 1, "approve", action.digest, Principal("mallory"), voter=b"x"),
            ApprovalDecided("0.0", 1, "approve", action.digest, Principal("ida")),
            ApprovalDecided("0.0", 1, "deny", b"other", Principal("ida"), voter=b"i"),
            ApprovalDecided("0.0", 7, "deny", action.digest, Principal("ida"), voter=b"i"),
            ApprovalWithdrawn("0.0", 7),
        ]
        await journal.append(f"run/{run}", rogue)
        assert await projected.catch_up() == await journal.position()
        (after,) = [row for row in await list_approvals(projected, status="open", limit=1000) if row.run == run]
        assert after == before
        assert (await run_state(journal, run)).awaiting == (action,)


async def test_a_vote_for_other_arguments_begins_the_count_anew(tmp_path: Path) -> None:
    @tool(effect="unqueryable_write", requires_approval=True)
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        return f"{disk} is empty"

    model = ScriptedModel([call("wipe", disk="a"), "Done."])
    agent = Agent("desk", tools=[wipe], model=model, approvals=[People(quorum=2)])
    async with (
        Runtime.open(tmp_path / "j.db", [agent]) as runtime,
        open_projection(runtime.journal, ApprovalsProjection()) as projected,
    ):
        run = await runtime.submit("desk", "Wipe it.")
        async with runtime.journal.news() as news:
            while not (asked := await runtime.approvals()):
                await news.wait()
        people = [Principal(name, "person", "test", "authenticated") for name in ("ann", "bob", "cem")]
        seen: list[tuple[str, int]] = []
        for person, arguments in zip(people, (None, {"disk": "b"}, None), strict=True):
            await runtime.approve(asked[0].action, by=person, arguments=arguments)
            await projected.catch_up()
            ((row,),) = [await list_approvals(projected)]
            seen.append((row.status, row.approvals))
        assert seen == [("open", 1), ("open", 1), ("approved", 2)]
        assert (await run.wait()).output == "Done."


async def test_nothing_that_anybody_said_is_copied(golden: Path) -> None:
    """It would outlive erasure: tables hold names of agents, tools and models, ids, numbers and digests."""
    async with Journal.open(golden, registry=REGISTRY) as journal:
        for projection in (RunsProjection(), ApprovalsProjection(), SpendProjection()):
            async with open_projection(journal, projection) as projected:
                assert await projected.catch_up() == await journal.position()
        assert (await journal.verify()).ok
    with closing(sqlite3.connect(golden)) as database:
        tables = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if name.startswith("projection_")
        ]
        assert len(tables) == 8
        kept = repr([database.execute(f"SELECT * FROM {table}").fetchall() for table in tables])
    for said in ("maria", "otto", "keep b", "golden@", "Wiped", "refund 500"):
        assert said not in kept
