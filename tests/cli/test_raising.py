"""``trouper raise-limit`` and what is told of spending."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from tests.cli.program import called, complaint, ok_called

from trouper import Agent, BudgetExceeded, Limits, Price, Runtime, RuntimeOptions, tool
from trouper.core.conversation import Usage
from trouper.testing import ScriptedModel, call


@tool(effect="read_only")
def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


def stopped(journal: Path, limits: Limits, usage: Usage | None = None) -> str:
    """A run that stopped at its limits; its id."""

    async def drive() -> str:
        model = ScriptedModel([call("look", n=1)] * 9, usage=usage or Usage(10, 5))
        agent = Agent("desk", tools=[look], model=model, limits=limits)
        prices = {"scripted": Price("scripted 2026-11-01", 2_000_000, 10_000_000)}
        async with Runtime.open(journal, agents=[agent], options=RuntimeOptions(prices=prices)) as runtime:
            run = await runtime.submit("desk", "go")
            with pytest.raises(BudgetExceeded):
                await run.wait()
            return run.id

    return trio.run(drive)


def test_show_says_what_was_spent_what_stopped_it_and_what_to_type(tmp_path: Path) -> None:
    run = stopped(journal := tmp_path / "a.db", Limits(max_model_calls=3))
    text = " ".join(ok_called("show", journal, run).split())
    assert "30 tokens in, 15 out, cost 0.21" in text
    assert f"the limit of run {run} is reached (model calls: 3 of 3 spent)" in text
    assert f"trouper raise-limit {journal} {run} --model-calls 10" in text


def test_what_is_an_estimate_is_called_one(tmp_path: Path) -> None:
    run = stopped(journal := tmp_path / "a.db", Limits(max_tokens=300), Usage())
    text = " ".join(ok_called("show", journal, run).split())
    assert "0 tokens in, 0 out, about " in text
    assert "more by estimate, unknown for " in text


def test_each_limit_can_be_raised_and_no_other(tmp_path: Path) -> None:
    limits = Limits(max_model_calls=2, max_tokens=10**6, max_tool_calls=9, tool_calls={"look": 5}, max_seconds=60)
    run = stopped(journal := tmp_path / "a.db", limits)
    wrong = called("raise-limit", journal, run, "--steps", "5")
    assert wrong.returncode == 4
    assert "is at its limit of model calls: raise that to let it go on" in complaint(wrong)
    none = called("raise-limit", journal, run, "--cost", "5")
    assert none.returncode == 4
    assert "has no limit of cost that could be raised" in complaint(none)
    odd = called("raise-limit", journal, run, "--calls", "look")
    assert odd.returncode == 2
    assert "write TOOL=N, such as search=5" in complaint(odd)
    options = ["--model-calls", "1", "--tool-calls", "2", "--calls", "look=3", "--tokens", "4", "--seconds", "1.5"]
    text = " ".join(ok_called("raise-limit", journal, run, *options, "--as", "maria").split())
    said = "1 more model call, 2 more tool calls, 4 more tokens, 3 more calls of look, 1.5 more seconds"
    assert f"allowed {said} by maria" in text
    shown = " ".join(ok_called("show", journal, run).split())
    assert f"maria allows {said}" in shown
