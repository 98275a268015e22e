"""Policies and standing rules below sub-agents, in sessions and in forks."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.agents.office import of, office, pending
from tests.agents.test_sub_agents import agent

from trouper import ApprovalError, AutoApprove, EditArguments, NotEligible, People, Scope, WhatIf
from trouper.core.events import ActionPlanned, ApprovalRequested
from trouper.testing import call, calls


async def test_whoever_asked_the_root_cannot_approve_what_a_sub_agent_wants(tmp_path: Path) -> None:
    async with office(tmp_path, (), lambda world: [world.mailer()]) as desk:
        helper = agent("helper", call("send_email", to="a"), "Sent.", tools=desk.tools)
        helper = attrs.evolve(helper, approvals=[People(separation=True)])
        # The caller's policies are not the helper's: each agent has its own.
        top = agent("top", call("helper", input="a"), "done", tools=[helper.as_tool()])
        async with desk.open(attrs.evolve(top, approvals=[AutoApprove(tools=["send_email"])])) as runtime:
            run = await runtime.submit("top", "Go.", by="ida")
            (asked,) = await pending(runtime)
            assert (asked.run, asked.path, asked.requested_by) == (f"{run.id}~0.0", ("top", "helper"), "ida")
            with pytest.raises(NotEligible):
                await runtime.approve(asked.action, by="ida")
            await runtime.approve(asked.action, by="maria")
            assert (await run.wait()).output == "done"
        assert desk.world.effects == ["mail a"]


async def test_a_rule_for_a_run_holds_in_its_whole_tree(tmp_path: Path) -> None:
    async with office(tmp_path, (), lambda world: [world.mailer()]) as desk:
        helper = agent("helper", call("send_email", to="a"), "Sent.", tools=desk.tools)
        asks = [calls(call("helper", input="a")), calls(call("helper", input="a"))]
        top = agent("top", *asks, "done", tools=[helper.as_tool()])
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "Go.")
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria", remember=Scope(run=True))
            await run.wait()
            (rule,) = await runtime.commands.rules()
            assert (rule.root, rule.action) == (run.id, f"{run.id}~0.0/0.0")
            # Another tree is another run.
            other = await runtime.submit("top", "Go.")
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria")
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria")
            await other.wait()
        assert desk.world.effects == ["mail a"] * 4


async def test_a_rule_for_a_session_holds_for_its_later_turns_and_what_is_below_them(tmp_path: Path) -> None:
    async with office(tmp_path, (), lambda world: [world.mailer()]) as desk:
        helper = agent("helper", call("send_email", to="a"), "Sent.", tools=desk.tools)
        asks = call("helper", input="a")
        top = agent("top", asks, "one", asks, "two", tools=[helper.as_tool()])
        async with desk.open(top) as runtime:
            session = runtime.session("top", "s-1")
            run = await session.send("Go.")
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria", remember=Scope(session=True))
            await run.wait()
            (rule,) = await runtime.commands.rules()
            assert (rule.session, rule.root) == ("s-1", None)
            assert (await (await session.send("Again.")).wait()).output == "two"
        assert desk.world.effects == ["mail a", "mail a"]


async def test_a_run_without_a_session_cannot_be_remembered_for_one(tmp_path: Path) -> None:
    async with office(tmp_path, (), lambda world: [world.mailer()]) as desk:
        desk_agent = agent("desk", call("send_email", to="a"), "Sent.", tools=desk.tools)
        async with desk.open(desk_agent) as runtime:
            run = await runtime.submit("desk", "Go.")
            (asked,) = await pending(runtime)
            with pytest.raises(ApprovalError, match="in no session"):
                await runtime.approve(asked.action, by="maria", remember=Scope(session=True))
            await runtime.deny(asked.action, by="maria")
            await run.wait()


async def test_a_fork_that_asks_does_so_whatever_lets_such_calls_run_elsewhere(tmp_path: Path) -> None:
    async with office(tmp_path, (), lambda world: [world.mailer()]) as desk:
        lone = agent("desk", call("send_email", to="a"), "Sent.", tools=desk.tools)
        async with desk.open(attrs.evolve(lone, approvals=[AutoApprove()])) as runtime:
            run = await runtime.submit("desk", "Go.")
            await run.wait()
            fork = await run.fork(WhatIf([EditArguments("0.0", {"to": "b"})], writes="ask"))
            (asked,) = await pending(runtime)
            (planned,) = [event for event in await of(fork, ActionPlanned) if event.gate == "person"]
            assert planned.grounds.policy == ""
            await runtime.approve(asked.action, by="maria")
            await fork.wait()
            assert len(await of(fork, ApprovalRequested)) == 1
        assert desk.world.effects == ["mail a", "mail b"]
