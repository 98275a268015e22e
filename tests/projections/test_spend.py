"""Spending by agent, model and day: the ledger's own sums, in another order."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.golden.found import FOLDER, GOLDEN

from trouper import REGISTRY, Agent, Limits, Price, Runtime, RuntimeOptions, tool
from trouper.core.state import RunState
from trouper.projections import Spending, SpendProjection, open_projection, spending
from trouper.projections.spend import SUMS, By
from trouper.runtime.histories import run_state
from trouper.testing import ManualClock, ScriptedModel, call, calls
from trouper_journal import Journal


async def spent(path: Path, *by: By, since: str = "", until: str = "") -> list[Spending]:
    async with (
        Journal.open(path, registry=REGISTRY, read_only=True) as journal,
        open_projection(journal, SpendProjection(), in_memory=True) as projected,
    ):
        assert await projected.catch_up() == await journal.position()
        return await spending(projected, by, since=since, until=until)


async def folded(path: Path) -> list[RunState]:
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        return [
            await run_state(journal, head.stream.removeprefix("run/")) async for head in journal.streams(prefix="run/")
        ]


def sums(rows: Sequence[Spending]) -> dict[str, int]:
    return {name: sum(getattr(row, name) for row in rows) for name in SUMS}


@pytest.mark.parametrize("name", GOLDEN)
async def test_it_comes_to_what_the_ledgers_of_all_runs_come_to(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(FOLDER / f"{name}.db", tmp_path))
    states = await folded(path)
    by_agent = await spent(path, "agent")
    assert {row.agent for row in by_agent} == {state.agent for state in states if state.started}
    for row in by_agent:
        own = [state for state in states if state.agent == row.agent]
        ledgers = [state.own_spent for state in own]
        assert row.runs == sum(state.started for state in own)
        assert row.model_calls == sum(state.model_calls for state in own), row
        assert row.tool_calls == sum(each.tool_calls for each in ledgers), row
        told = (row.input_tokens, row.output_tokens, row.cached_tokens, row.assumed_tokens, row.unknown, row.cost)
        assert told == (
            sum(each.input_tokens for each in ledgers),
            sum(each.output_tokens for each in ledgers),
            sum(each.cached_tokens for each in ledgers),
            sum(each.assumed_tokens for each in ledgers),
            sum(each.unknown for each in ledgers),
            sum(each.cost for each in ledgers),
        ), row
        assert row.unpriced == sum(each.unpriced for each in ledgers), row


@pytest.mark.parametrize("name", GOLDEN)
async def test_every_way_to_tell_apart_has_the_same_sums(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(FOLDER / f"{name}.db", tmp_path))
    (whole,) = await spent(path)
    for by in (("agent",), ("model",), ("day",), ("day", "agent", "model")):
        assert sums(await spent(path, *by)) == sums([whole])


async def test_models_are_those_that_were_asked(tmp_path: Path) -> None:
    golden = Path(shutil.copy(FOLDER / "runs-1.db", tmp_path))
    models = {row.model: row for row in await spent(golden, "model")}
    # One of them only because a hook chose it, another only for summaries.
    assert set(models) >= {"golden-1", "golden-2", "golden-dear", "backup"}
    assert "?" not in models
    assert models["golden-dear"].cost > 0


@tool(effect="read_only")
def lookup(ticket: str) -> str:
    """Read a ticket."""
    return f"{ticket} is open"


async def test_prices_and_days(tmp_path: Path) -> None:
    clock = ManualClock(1_767_225_600 * 1_000_000_000)
    model = ScriptedModel(
        [calls(call("lookup", ticket="1"), call("lookup", ticket="2")), "Both open.", "Yes."], name="dear"
    )
    desk = Agent("desk", tools=[lookup], model=model, limits=Limits(max_cost=10**12))
    options = RuntimeOptions(prices={"dear": Price("2026", 1_000, 5_000)})
    async with Runtime.open(tmp_path / "j.db", [desk], clock=clock, options=options) as runtime:
        first = await (await runtime.submit("desk", "How are 1 and 2?")).wait()
        clock.advance(86_400)
        second = await (await runtime.submit("desk", "Sure?")).wait()
    days = await spent(tmp_path / "j.db", "day")
    assert [(row.day, row.runs, row.model_calls, row.tool_calls) for row in days] == [
        ("2026-01-01", 1, 2, 2),
        ("2026-01-02", 1, 1, 0),
    ]
    assert [row.cost for row in days] == [first.spent.cost, second.spent.cost]
    assert [row.day for row in await spent(tmp_path / "j.db", "day", since="2026-01-02")] == ["2026-01-02"]
    assert [row.day for row in await spent(tmp_path / "j.db", "day", until="2026-01-01")] == ["2026-01-01"]
    assert await spent(tmp_path / "j.db", since="2027-01-01") == []
