"""Replays and sums beside a runtime that goes on: in its own process, and in another."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from pathlib import Path

import trio

from trouper import Agent, Runtime, tool
from trouper.audit import assert_replays, replay_streams
from trouper.projections import RunsProjection, list_runs, open_projection
from trouper.testing import ScriptedModel, call

ROUNDS = 8


@tool(effect="read_only")
def lookup(ticket: str) -> str:
    """Read a ticket."""
    return f"{ticket} is open"


def desk() -> Agent:
    model = ScriptedModel([call("lookup", ticket="1"), "Open."], by_turn=True)
    return Agent("desk", tools=[lookup], model=model)


async def printed(*arguments: str | Path) -> list[dict[str, object]]:
    done = await trio.run_process(
        [sys.executable, "-m", "trouper", *map(str, arguments), "--json"], capture_stdout=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_whoever_looks_finds_nothing_amiss_and_disturbs_nobody(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Runtime.open(path, agents=[desk()]) as runtime:
        await (await runtime.submit("desk", "first")).wait()
        done = trio.Event()

        async def go_on() -> None:
            for number in range(ROUNDS):
                assert (await (await runtime.submit("desk", f"ticket {number}")).wait()).output == "Open."
            done.set()

        async def look() -> None:
            looks = 0
            while not done.is_set() or looks == 0:
                async with aclosing(replay_streams(path, jobs=1 + looks % 2)) as results:
                    async for each in results:
                        assert each.ok, each.problem
                looks += 1

        async with (
            open_projection(runtime.journal, RunsProjection()) as runs,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(runs.follow)
            nursery.start_soon(look)
            await go_on()
            replayed = await printed("replay", path, "--jobs", "2")
            assert [line["ok"] for line in replayed] == [True] * (ROUNDS + 1)
            (row,) = await printed("spend", path)
            assert (row["agent"], row["runs"], row["model_calls"]) == ("desk", ROUNDS + 1, 2 * (ROUNDS + 1))
            await runs.catch_up()
            assert [run.label for run in await list_runs(runs)] == ["succeeded"] * (ROUNDS + 1)
            assert assert_replays(path, [desk()]).runs == ROUNDS + 1
            await done.wait()
            nursery.cancel_scope.cancel()
        assert (await (await runtime.submit("desk", "last")).wait()).output == "Open."
        assert (await runtime.journal.verify()).ok
