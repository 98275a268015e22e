"""Agents that call agents: what each of them sees, what comes back, and where it stands in the journal."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import attrs
import pytest
import trio.testing
from tests.agents.office import AnyTool, happened, of, office, pending, types

from trouper import AI, Agent, Human, Limits, Message, ModelError, RunResult, StateKey, ToolMessage
from trouper.core.events import ActionReceipted, ModelRequested, RunSubmitted, RunSucceeded, StateChanged
from trouper.core.family import DEPTH
from trouper.errors import DefinitionError, SchemaError, TrouperError
from trouper.runtime import RuntimeOptions
from trouper.testing import ModelRequest, ScriptedModel, call, calls
from trouper.testing._scripted import Step


def agent(name: str, *replies: Step, tools: Sequence[AnyTool] = (), limits: Limits | None = None) -> Agent:
    """An agent with a script, by turn."""
    model = ScriptedModel(replies, by_turn=True, name=f"model-of-{name}")
    return Agent(
        name, f"You are {name}.", tools=tools, model=model, limits=limits or Limits(), description=f"Asks {name}."
    )


def scripted(of_agent: Agent) -> ScriptedModel:
    """The model of an agent."""
    assert isinstance(of_agent.model, ScriptedModel)
    return of_agent.model


def answers(result: RunResult) -> list[tuple[str, str]]:
    """Status and text of each tool message."""
    return [(message.status, str(message.content)) for message in result.messages if isinstance(message, ToolMessage)]


async def test_a_sub_agent_is_a_run_of_its_own_and_its_answer_comes_back(tmp_path: Path) -> None:
    researcher = agent("researcher", "It rains.")
    top = agent(
        "top", call("researcher", input="How is the weather?"), "Take an umbrella.", tools=[researcher.as_tool()]
    )
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "Shall I go out?", by="maria")
        result = await run.wait()
        assert result.output == "Take an umbrella."
        assert answers(result) == [("ok", "It rains.")]
        (spec,) = scripted(top).requests[0].tools
        assert (spec.name, spec.description) == ("researcher", "Asks researcher.")
        assert spec.parameters["properties"] == {"input": {"type": "string"}}
        # The child sees its own instructions and what it was asked, and nothing of its caller's conversation.
        (request,) = scripted(researcher).requests
        assert [str(message.content) for message in request.messages] == ["You are researcher.", "How is the weather?"]
        (child,) = await run.children()
        assert (child.run, child.agent, child.parent) == (f"{run.id}~0.0", "researcher", run.id)
        assert (child.path, child.status) == (("top", "researcher"), "succeeded")
        (told,) = result.children
        assert (told.run, told.agent, told.status) == (child.run, "researcher", "succeeded")
        assert (told.spent.model_calls, told.spent.input_tokens) == (1, 10)
        handle = runtime.run(child.run)
        assert (await handle.wait()).output == "It rains."
        submitted = (await of(handle, RunSubmitted))[0]
        assert submitted.by is not None
        assert (submitted.path, getattr(submitted.by, "id", "")) == (("top", "researcher"), "maria")
        assert await types(run) == [
            *("run.submitted", "run.started", "model.requested", "model.responded", "action.planned"),
            *("child.started", "action.started", "child.finished", "action.receipted"),
            *("model.requested", "model.responded", "run.succeeded"),
        ]


async def test_the_link_between_a_parent_and_its_child_stands_in_one_commit_at_both_ends(tmp_path: Path) -> None:
    researcher = agent("researcher", "It rains.")
    top = agent("top", call("researcher", input="?"), "Fine.", tools=[researcher.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "go")
        await run.wait()
        parent = {record.type: record for record, _ in await run.events()}
        child = {record.type: record for record, _ in await runtime.run(f"{run.id}~0.0").events()}
        # Positions of a commit follow each other.
        assert child["run.submitted"].position + 3 == parent["child.started"].position
        assert child["run.submitted"].recorded_at == parent["child.started"].recorded_at
        assert child["run.succeeded"].position + 1 == parent["child.finished"].position


@dataclass
class Question:
    """What to find out."""

    topic: str
    depth: int = 1


async def test_the_input_is_described_and_checked_by_a_type_or_a_schema(tmp_path: Path) -> None:
    researcher = agent("researcher", "Found.")
    critic = agent("critic", "Bad.")
    schema = {"type": "object", "properties": {"text": {"$ref": "#/$defs/Text"}}, "$defs": {"Text": {"type": "string"}}}
    tools = [researcher.as_tool("research", "Finds things out.", input=Question), critic.as_tool(input=schema)]
    script: list[Step] = [
        calls(
            call("research", input={"topic": "rain", "depth": 2}),
            call("research", input={"topic": 3}),
            call("research", input="rain"),
            call("critic", input={"text": "x"}),
            call("critic", input={"text": 1}),
        ),
        "done",
    ]
    top = agent("top", *script, tools=tools)
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        result = await (await runtime.submit("top", "go")).wait()
        told = answers(result)
        assert [status for status, _ in told] == ["ok", "error", "error", "ok", "error"]
        assert "input.topic" in told[1][1]
        assert len(result.children) == 2
        (request,) = scripted(researcher).requests
        assert json.loads(str(request.messages[-1].content)) == {"topic": "rain", "depth": 2}
        spec = scripted(top).requests[0].tools[0]
        assert (spec.name, spec.description) == ("research", "Finds things out.")
        assert "topic" in json.dumps(spec.parameters)


def test_what_cannot_be_an_input_or_an_option_is_refused_where_it_is_written() -> None:
    researcher = agent("researcher")
    with pytest.raises(SchemaError, match="input"):
        researcher.as_tool(input=Callable[[], Awaitable[int]])
    with pytest.raises(DefinitionError, match="includes_history: there is no such option"):
        researcher.as_tool(includes_history=True)  # type: ignore[call-arg]  # what is tested
    with pytest.raises(DefinitionError, match="return_steps"):
        researcher.as_tool(return_steps="yes")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(DefinitionError, match="two tools"):
        agent("top", tools=[researcher.as_tool(), researcher.as_tool()])


async def test_two_different_agents_of_one_name_are_refused(tmp_path: Path) -> None:
    first, second = agent("researcher", "a"), agent("researcher", "b")
    top = agent("top", "x", tools=[first.as_tool(), agent("between", tools=[second.as_tool()]).as_tool()])
    async with office(tmp_path, done=False) as desk:
        with pytest.raises(DefinitionError, match="two different agents are called researcher"):
            async with desk.open(top):
                pass
        # The same agent may be called by several, and be given beside them.
        sharing = agent("other", "x", tools=[first.as_tool(), agent("between", tools=[first.as_tool()]).as_tool()])
        async with desk.open(sharing, first) as runtime:
            assert (await (await runtime.submit("researcher", "go")).wait()).output == "a"


async def test_the_same_sub_agent_three_times_in_one_reply_has_three_histories(tmp_path: Path) -> None:
    def echo(request: ModelRequest) -> AI | str:
        if request.turn == 0:
            return call("add", n=int(str(request.messages[-1].content)))
        asked = next(str(message.content) for message in request.messages if isinstance(message, Human))
        return f"{asked}: {request.messages[-1].content}"

    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        researcher = agent("researcher", echo, echo, tools=desk.tools)
        top = agent(
            "top", calls(*(call("researcher", input=str(n)) for n in (1, 2, 3))), "done", tools=[researcher.as_tool()]
        )
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            assert answers(await run.wait()) == [("ok", f"{n}: added {n}") for n in (1, 2, 3)]
            assert [child.run for child in (await run.result()).children] == [f"{run.id}~0.{n}" for n in range(3)]
            for n in range(3):
                messages = (await runtime.run(f"{run.id}~0.{n}").result()).messages
                assert [message.role for message in messages] == ["human", "ai", "tool", "ai"]
            assert sorted(desk.world.effects) == ["add 1", "add 2", "add 3"]


async def test_the_steps_come_back_where_they_are_asked_for(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        researcher = agent("researcher", call("add", n=1), "Added.", tools=desk.tools)
        top = agent("top", call("researcher", input="go"), "done", tools=[researcher.as_tool(return_steps=True)])
        async with desk.open(top) as runtime:
            ((status, text),) = answers(await (await runtime.submit("top", "go")).wait())
            assert status == "ok"
            assert json.loads(text) == [
                {"role": "human", "content": "go"},
                {"role": "ai", "tool_calls": [{"name": "add", "arguments": '{"n": 1}'}]},
                {"role": "tool", "content": "added 1", "name": "add", "status": "ok"},
                {"role": "ai", "content": "Added."},
            ]


async def test_case_20_a_childs_limit_is_an_error_result_and_not_its_parents_end(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        researcher = agent("researcher", *[call("add", n=1)] * 3, tools=desk.tools, limits=Limits(max_steps=2))
        top = agent("top", call("researcher", input="go"), "I give up.", tools=[researcher.as_tool()])
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            result = await run.wait()
            assert result.output == "I give up."
            ((status, text),) = answers(result)
            assert status == "error"
            assert "did not finish, because it reached its limit of steps" in text
            assert "What its calls had done until then stays done." in text
            (child,) = result.children
            assert (child.status, child.spent.model_calls) == ("failed", 1)
            # Its caller was told: it cannot go on behind its back.
            with pytest.raises(TrouperError, match="was told so"):
                await runtime.raise_limit(child.run, 3)


async def test_a_child_without_a_reply_is_an_error_result(tmp_path: Path) -> None:
    researcher = agent("researcher", ModelError("no such model"))
    top = agent("top", call("researcher", input="go"), "So be it.", tools=[researcher.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        result = await (await runtime.submit("top", "go")).wait()
        ((status, text),) = answers(result)
        assert status == "error"
        assert "it got no reply from its model (no such model)" in text
        with pytest.raises(TrouperError, match="was told so"):
            await runtime.resume(result.children[0].run)


async def test_sub_agents_call_each_other_so_deep_and_no_deeper(tmp_path: Path) -> None:
    below = agent(f"a{DEPTH}", "too deep")
    for number in reversed(range(DEPTH)):
        below = agent(f"a{number}", call(f"a{number + 1}", input="go"), "back", tools=[below.as_tool()])
    async with office(tmp_path, done=False) as desk, desk.open(below) as runtime:
        run = await runtime.submit("a0", "go")
        assert (await run.wait()).output == "back"
        children = await run.children()
        assert len(children) == DEPTH - 1
        assert len(children[-1].path) == DEPTH
        ((status, text),) = answers(await runtime.run(children[-1].run).result())
        assert (status, text.partition(":")[0]) == ("error", "Not started")
        assert f"{DEPTH} deep at most" in text


async def test_a_parent_leaves_memory_while_only_children_are_out(tmp_path: Path) -> None:
    let_go = trio.Event()

    async def slow(request: ModelRequest) -> str:
        await let_go.wait()
        return "Found."

    researcher = agent("researcher", slow)
    top = agent("top", call("researcher", input="go"), "done", tools=[researcher.as_tool()])
    # With room for one at a time the child has its parent's place.
    options = RuntimeOptions(drain=0.5, max_active=1)
    async with office(tmp_path, done=False) as desk, desk.open(top, options=options) as runtime:
        run = await runtime.submit("top", "go")
        await happened(runtime, runtime.run(f"{run.id}~0.0"), ModelRequested)
        head = await runtime.journal.head(f"run/{run.id}")
        assert head is not None
        assert (head.label, head.wake_at) == ("waiting_for_child", None)
        assert runtime.active == 1
        assert (await run.result()).status == "waiting_for_child"
        let_go.set()
        assert (await run.wait()).output == "done"


@pytest.mark.parametrize("room", [1000, 7])
async def test_two_hundred_children_of_one_parent_end_with_it_in_linear_work(tmp_path: Path, room: int) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        researcher = agent("researcher", "Found.")
        count = 200
        top = agent(
            "top",
            calls(*(call("researcher", input=str(n)) for n in range(count))),
            "done",
            tools=[researcher.as_tool()],
        )
        options = RuntimeOptions(max_active=room)
        async with desk.open(top, options=options) as runtime:
            run = await runtime.submit("top", "go")
            result = await run.wait()
            assert answers(result) == [("ok", "Found.")] * count
            assert sum(child.spent.model_calls for child in result.children) == count
            recorded = await types(run)
            # It is not woken for each of them: no notes of having looked, and few commits.
            assert recorded.count("run.waiting") <= count // 10
            receipts = [record for record, event in await run.events() if isinstance(event, ActionReceipted)]
            assert len({record.recorded_at for record in receipts}) <= count // 4


async def test_the_call_of_a_sub_agent_can_need_an_approval(tmp_path: Path) -> None:
    researcher = agent("researcher", "Found.")
    top = agent("top", call("researcher", input="secrets"), "done", tools=[researcher.as_tool(requires_approval=True)])
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "go")
        (asked,) = await pending(runtime)
        assert (asked.path, asked.tool, asked.arguments) == (("top",), "researcher", {"input": "secrets"})
        assert asked.effect == "read_only"
        assert await run.children() == []
        await runtime.approve(asked.action, by="maria", arguments={"input": "news"})
        ((_, text),) = answers(await run.wait())
        assert text.endswith("Found.")
        assert "maria changed the arguments" in text
        (request,) = scripted(researcher).requests
        assert request.messages[-1].content == "news"


# ---- what goes in and out beside the input and the answer


def roles(request: ModelRequest) -> list[tuple[str, str]]:
    """Who said what in a request."""
    return [(message.role, str(message.content)) for message in request.messages]


async def test_with_its_history_a_child_is_shown_what_was_said_before_the_call(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder()], done=False) as desk:
        # A script goes by the replies in a request: who is shown a conversation with one begins with the second.
        critic = agent("critic", "Good.", "Good.")
        asking = call("judge", input="judge")
        helper = agent("helper", "never", asking, "helped", tools=[critic.as_tool("judge", include_history=True)])
        below = [helper.as_tool(include_history=True), critic.as_tool()]
        both = calls(call("helper", input="one"), call("helper", input="two"), call("critic", input="three"))
        top = agent("top", call("add", n=1), both, "done", tools=[*desk.tools, *below])
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go")
            assert (await run.wait()).output == "done"
            before = [("system", "You are helper."), ("human", "go"), ("ai", "None"), ("tool", "added 1")]
            first, second = sorted(
                (roles(request) for request in scripted(helper).requests if request.turn == 1),
                key=lambda said: said[-1],
            )
            assert first == [*before, ("human", "one")]
            assert second == [*before, ("human", "two")]
            # A conversation below another is shown with it.
            shown = [said[1:] for said in sorted(map(roles, scripted(critic).requests), key=str)]
            judge = [*before[1:], ("human", "one"), ("human", "judge")]
            assert shown == [judge, [*judge[:-2], ("human", "two"), judge[-1]], [("human", "three")]]
            # It is named, not copied: only its own messages are its own.
            assert len((await runtime.run(f"{run.id}~1.0").result()).messages) == 4


async def test_the_answer_goes_to_a_key_of_the_callers_state_through_its_reducer(tmp_path: Path) -> None:
    finder = agent("finder", lambda request: f"found {request.messages[-1].content}")
    loser = agent("loser", ModelError("gone"))
    tools = [
        finder.as_tool(output_key="notes", return_steps=True),
        finder.as_tool("find_last", output_key="last"),
        finder.as_tool("find_number", output_key="number"),
        loser.as_tool(output_key="notes"),
    ]
    asking = calls(
        call("finder", input="a"),
        call("finder", input="b"),
        call("find_last", input="c"),
        call("find_number", input="d"),
        call("loser", input="e"),
    )
    top = attrs.evolve(
        agent("top", asking, "done"),
        tools=tools,
        state={"notes": StateKey(list[str], reducer="append"), "last": StateKey(str), "number": StateKey(int)},
    )
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "go")
        result = await run.wait()
        notes = result.state["notes"]
        assert sorted(notes) == ["found a", "found b"]
        assert result.state["last"] == "found c"
        assert "number" not in result.state
        told = answers(result)
        assert [status for status, _ in told] == ["ok", "ok", "ok", "error", "error"]
        assert "found d" in told[3][1]
        assert {event.source for event in await of(run, StateChanged)} == {"child"}


def test_a_key_that_the_caller_has_not_is_refused_where_it_is_written() -> None:
    with pytest.raises(DefinitionError, match="state key 'notes', which it has not"):
        agent("top", tools=[agent("finder").as_tool(output_key="notes")])


async def test_a_childs_structured_output_is_json_for_the_model_and_a_value_for_the_state(tmp_path: Path) -> None:
    asker = attrs.evolve(agent("asker", '{"topic": "rain", "depth": 2}'), output=Question)
    mute = attrs.evolve(agent("mute", *["nothing"] * 5), output=Question)
    top = attrs.evolve(
        agent("top", calls(call("asker", input="a"), call("mute", input="b")), "done"),
        tools=[asker.as_tool(output_key="question"), mute.as_tool()],
        state={"question": StateKey(Question)},
    )
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        result = await (await runtime.submit("top", "go")).wait()
        told = answers(result)
        assert told[0] == ("ok", '{"topic":"rain","depth":2}')
        assert result.state["question"] == Question("rain", 2)
        assert told[1][0] == "error"
        assert "its answers did not fit the output that it was asked for" in told[1][1]


async def test_a_handoff_takes_the_conversation_over_and_ends_the_callers_run(tmp_path: Path) -> None:
    billing = agent("billing", "never", "Your refund is on its way.")
    greeter = agent("greeter", "never", call("billing", input="Refund R-7."), tools=[billing.as_tool(handoff=True)])
    asked: list[Message] = [Human("", "Hello."), AI("", "Hi!"), Human("", "I want my money back.")]
    async with office(tmp_path, done=False) as desk, desk.open(greeter) as runtime:
        run = await runtime.submit("greeter", asked)
        result = await run.wait()
        assert result.output == "Your refund is on its way."
        assert len(scripted(greeter).requests) == 1
        # A script goes by the replies in a request: here is one already.
        assert roles(scripted(billing).requests[0])[1:] == [
            ("human", "Hello."),
            ("ai", "Hi!"),
            ("human", "I want my money back."),
            ("human", "Refund R-7."),
        ]
        (succeeded,) = await of(run, RunSucceeded)
        assert succeeded.source == "0.0"


async def test_a_handoff_that_does_not_succeed_leaves_its_caller_to_go_on(tmp_path: Path) -> None:
    billing = agent("billing", ModelError("gone"))
    greeter = agent("greeter", call("billing", input="Refund."), "Sorry.", tools=[billing.as_tool(handoff=True)])
    async with office(tmp_path, done=False) as desk, desk.open(greeter) as runtime:
        assert (await (await runtime.submit("greeter", "go")).wait()).output == "Sorry."
