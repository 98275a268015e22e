"""Hooks around the calls of sub-agents, and callers that must fail while one is out."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.agents.office import office
from tests.agents.test_sub_agents import agent, answers, scripted

from trouper import RunFailed
from trouper.hooks import Answer, Call, CallResult, Hook, SetArguments, View
from trouper.hooks._hook import Asked
from trouper.testing import call, calls


class Guard(Hook):
    """Answers calls about secrets itself, and makes the others polite."""

    def before_tool(self, view: View, call: Call) -> Asked:
        asked = str(call.arguments.get("input")) if call.arguments else ""
        return Answer("That is secret.") if "secret" in asked else SetArguments({"input": f"Please: {asked}"})


async def test_a_hook_can_answer_for_a_sub_agent_or_change_what_it_is_asked(tmp_path: Path) -> None:
    researcher = agent("researcher", "Found.")
    both = calls(call("researcher", input="the secret"), call("researcher", input="the news"))
    top = attrs.evolve(agent("top", both, "done", tools=[researcher.as_tool()]), hooks=[Guard()])
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "go")
        result = await run.wait()
        assert [text for _, text in answers(result)] == ["That is secret.", "Found."]
        assert [child.run for child in result.children] == [f"{run.id}~0.1"]
        (request,) = scripted(researcher).requests
        assert request.messages[-1].content == "Please: the news"


class Strict(Hook):
    """Raises over any tool but a sub-agent."""

    def after_tool(self, view: View, call: Call, result: CallResult) -> Asked:
        if call.tool == "add":
            raise RuntimeError("not this one")
        return None


@pytest.mark.parametrize("ends", ["it waits for a person", "it ends by itself"])
async def test_a_caller_that_must_fail_first_stops_the_child_that_is_out(tmp_path: Path, ends: str) -> None:
    last = "helped" if ends == "it ends by itself" else call("send_email", to="a")
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        helper = agent("helper", call("add", n=2), last, "sent", tools=desk.tools)
        both = calls(call("helper", input="go"), call("add", n=1))
        top = attrs.evolve(agent("top", both, "done", tools=[*desk.tools, helper.as_tool()]), hooks=[Strict()])
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            with pytest.raises(RunFailed, match="not this one"):
                await run.wait()
            (child,) = await run.children()
            assert child.ended
            assert await runtime.approvals() == []
