"""A run that waits goes on whoever appends to its stream, through whatever door."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from trouper import REGISTRY, Agent, Commands, Principal, Run, Runtime, tool
from trouper._clock import SystemClock
from trouper._ids import SystemEntropy
from trouper.core.commands import Judgement
from trouper.testing import ScriptedModel, call
from trouper_journal import Journal


@tool(effect="read_only", requires_approval=True)
def lookup(ticket: str) -> str:
    """Read a ticket."""
    return f"{ticket} is open"


def desk() -> Agent:
    model = ScriptedModel([call("lookup", ticket="INC-1"), "done"], by_turn=True)
    return Agent("desk", tools=[lookup], model=model)


async def asked(runtime: Runtime, run: Run) -> str:
    """The action that waits, once it does."""
    async for _ in runtime.journal.tail():
        for pending in await runtime.approvals():
            if pending.run == run.id:
                return pending.action
    raise AssertionError("the journal was closed")


@pytest.mark.parametrize("door", ["runtime", "own commands", "other process"])
async def test_an_approval_wakes_the_run_through_any_door(door: str, tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    judgement = Judgement("approve", Principal("maria"))
    with trio.fail_after(30):
        async with Runtime.open(path, [desk()]) as runtime, Journal.open(path, registry=REGISTRY) as other:
            run = await runtime.submit("desk", "Read INC-1")
            action = await asked(runtime, run)
            match door:
                case "runtime":
                    await runtime.approve(action, by="maria")
                case "own commands":
                    own = Commands(runtime.journal, SystemClock(), SystemEntropy())
                    await own.decide(action, judgement)
                case _:
                    await Commands(other, SystemClock(), SystemEntropy()).decide(action, judgement)
            assert (await run.wait()).output == "done"
