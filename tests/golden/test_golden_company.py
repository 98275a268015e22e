"""Trees, sessions, votes, timers and limits that a released version left open go on under this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.company import Company
from tests.golden.found import described, run_of

from trouper import REGISTRY, NotEligible, Raise, Runtime, WhatIf
from trouper.testing import ManualClock
from trouper_journal import Journal


async def test_golden_trees_votes_and_limits_go_on_where_they_stood(golden: Path) -> None:
    company = Company()
    tree, refund, spend = (run_of(golden, asked) for asked in ("tree left", "refund 500", "spend left"))
    async with Runtime.open(golden, company.agents(), clock=ManualClock()) as runtime:
        waiting = {each.run: each for each in await runtime.approvals()}
        below = waiting[f"{tree}~0.0"]
        assert below.path == ("lead", "researcher")
        await runtime.approve(below.action, by="maria")
        assert (await runtime.run(tree).wait()).output == "Published after all."
        # The vote of then counts, once; whoever asked for the run may still not approve.
        half = waiting[refund]
        assert (half.quorum, half.approved_by) == (2, ("otto",))
        with pytest.raises(NotEligible):
            await runtime.approve(half.action, by="maria")
        await runtime.approve(half.action, by="otto")
        assert refund in {each.run for each in await runtime.approvals()}
        await runtime.approve(half.action, by="ida")
        assert (await runtime.run(refund).wait()).output == "Refunded at last."
        await runtime.raise_limit(spend, Raise(tool_calls=1), by="maria")
        result = await runtime.run(spend).wait()
        assert (result.output, result.spent.tool_calls) == ("Spent in the end.", 3)
    assert company.effects == ["send left", "refund R-5 500"]


async def test_a_golden_sleep_ends_at_its_time(golden: Path) -> None:
    asleep = run_of(golden, "sleep left")
    async with Journal.open(golden, registry=REGISTRY) as journal:
        head = await journal.head(f"run/{asleep}")
    assert head is not None
    assert head.wake_at is not None
    clock = ManualClock(head.wake_at - 1)
    async with Runtime.open(golden, Company().agents(), clock=clock) as runtime:
        assert (await runtime.run(asleep).result()).status == "sleeping"
        clock.advance(1e-9)
        assert (await runtime.run(asleep).wait()).output == "Rested long."


async def test_golden_sessions_go_on_turn_by_turn(golden: Path) -> None:
    company = Company()
    first, second = run_of(golden, "mail left"), run_of(golden, "next left")
    async with Runtime.open(golden, company.agents(), clock=ManualClock()) as runtime:
        assert (await runtime.run(second).result()).status == "queued"
        session = runtime.session("mailer", "cust-3")
        third = await session.send("agreed")
        await runtime.approve(f"{first}/0.0", by="maria")
        outputs = [(await runtime.run(run).wait()).output for run in (first, second, third.id)]
        assert outputs == ["Mailed.", "And done.", "To what?"]
        assert [turn.status for turn in (await session.state()).turns] == ["succeeded"] * 3
        assert len(await session.history()) == 8
        # A conversation that was cut down is handed on as it was then.
        long = runtime.session("talker", "cust-1")
        run = await long.send("hello")
        assert (await run.wait()).output == "Hello."
        last = described(golden.stem)["sessions"]["cust-1"]["turns"][-1][0]
        shown = [message.id for message in await run.history()]
        assert shown[-4:] == [f"{last}/input", f"{last}/0", f"{run.id}/input", f"{run.id}/0"]
        assert len(await long.history()) == 12
    assert company.effects == ["send customers"]


async def test_golden_commands_are_known_again(golden: Path) -> None:
    """Digests of what was asked then are those of today: of words, turns, forks and submits."""
    company = Company()
    async with Runtime.open(golden, company.agents(), clock=ManualClock()) as runtime:
        steered = runtime.run(run_of(golden, "steer"))
        before = (await steered.state()).version
        await steered.steer("Keep it short.", by="otto", command_id="chat-1")
        assert (await steered.state()).version == before
        sent = await runtime.session("talker", "cust-1").send("hello", command_id="hello", by="ann")
        assert (sent.id, sent.repeated) == (run_of(golden, "hello"), True)
        paid = runtime.run(run_of(golden, "pay what is due"))
        fork = await paid.fork(WhatIf(say="pay 7"), by="otto", command_id="what if 7")
        assert (fork.id, fork.repeated) == (run_of(golden, "pay 7"), True)
    assert company.effects == []


async def test_golden_artifacts_and_parts_are_read_again(golden: Path) -> None:
    async with Runtime.open(golden, Company().agents(), clock=ManualClock()) as runtime:
        run = runtime.run(run_of(golden, "collect"))
        (artifact,) = await run.artifacts()
        assert (artifact.tool, artifact.value) == ("collect", {"rows": [["otters", 3]]})
        plotted = (await run.result()).messages[3]
        assert isinstance(plotted.content, tuple)
        assert [part["type"] for part in plotted.content] == ["text", "image_url"]
