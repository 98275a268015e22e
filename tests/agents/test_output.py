"""Structured outputs: asked for in each way, checked here, mended in bounded rounds, typed where the agent is known."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from pathlib import Path
from typing import Literal

import attrs
import pydantic
import pytest
from tests.agents.office import asks, of, office, told
from tests.agents.recipes import BAD, SOUP, TYPED, Course, Recipe, cook, native
from typing_extensions import TypedDict

from trouper import (
    Agent,
    DefinitionError,
    Limits,
    ModelConfig,
    Output,
    OutputInvalid,
    RunResult,
    StepLimitExceeded,
    ToolMessage,
)
from trouper.core.conversation import Value
from trouper.core.events import ModelRequested, OutputAccepted, OutputRejected
from trouper.output import Mode
from trouper.testing import Reply, ScriptedModel, tc
from trouper.testing._answers import Answer
from trouper_adapters.openai import OpenAIModel, OpenAIOptions

# ---- three ways to ask


async def test_by_instruction_the_schema_stands_in_the_instructions(tmp_path: Path) -> None:
    async with office(tmp_path, [f"Here you are:\n```json\n{json.dumps(SOUP)}\n```"]) as desk:
        agent = cook(desk)
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Soup!")
            result = await run.wait()
            assert result.output == TYPED
            # What the model really said stays in the conversation.
            assert str(result.messages[-1].content).startswith("Here you are:")
            assert result.text == result.messages[-1].content
            (accepted,) = await of(run, OutputAccepted)
            assert (accepted.index, accepted.action, accepted.value) == (0, None, SOUP)
        (request,) = desk.stub.requests
        assert "response_format" not in request.body
        assert "tools" not in request.body
        instructions = str(request.messages[0]["content"])
        assert instructions.startswith("Do what is asked.\n\n")
        schema = json.loads(instructions[instructions.index("{") :])
        assert schema["required"] == ["title", "minutes"]
        assert schema["properties"]["course"]["enum"] == ["starter", "main"]


async def test_by_tool_the_output_is_what_final_result_is_called_with(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), asks(("final_result", SOUP))]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        agent = cook(desk)
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Soup!")
            result = await run.wait()
            assert result.output == TYPED
            assert desk.world.effects == ["add 1"]
            answers = [message for message in result.messages if isinstance(message, ToolMessage)]
            assert [(answer.name, answer.status) for answer in answers] == [("add", "ok"), ("final_result", "ok")]
            assert [event.action for event in await of(run, OutputAccepted)] == ["1.0"]
            # Handing it in is no step of its own.
            assert result.steps == 3
        tools = desk.stub.requests[0].body["tools"]
        assert isinstance(tools, list)
        names = [tool["function"]["name"] for tool in tools]
        assert names == ["add", "final_result"]
        assert "response_format" not in desk.stub.requests[0].body


async def test_natively_each_request_carries_the_schema_and_tools_work_as_ever(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), json.dumps(SOUP)]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        agent = cook(desk, Output(Recipe, strict=True), model=native(desk))
        async with desk.open(agent) as runtime:
            result = await (await runtime.submit("desk", "Soup!")).wait()
            assert result.output == TYPED
            assert desk.world.effects == ["add 1"]
        for request in desk.stub.requests:
            given = request.body["response_format"]
            assert isinstance(given, dict)
            assert given["type"] == "json_schema"
            wanted = given["json_schema"]
            assert isinstance(wanted, dict)
            assert (wanted["name"], wanted["strict"]) == ("output", True)
            schema = wanted["schema"]
            assert isinstance(schema, dict)
            # Providers guarantee only what requires every property.
            assert schema["required"] == ["title", "minutes", "course"]
            assert schema["additionalProperties"] is False
            assert len(request.body["tools"]) == 1  # type: ignore[arg-type]  # JSON
            assert "Schema" not in str(request.messages[0]["content"])


def test_auto_takes_what_the_model_can_and_the_agent_needs() -> None:
    async def add(n: int) -> str:
        """Add."""
        return str(n)

    from trouper import tool

    def mode(support: Literal["none", "without_tools", "with_tools"], *, tools: bool) -> Mode | None:
        made = [tool(effect="read_only")(add)] if tools else []
        agent = Agent("a", model=ScriptedModel([], output_support=support), tools=made, output=Recipe)
        return agent.answering.mode if agent.answering else None

    assert mode("with_tools", tools=True) == mode("with_tools", tools=False) == "native"
    # A schema on every request stops such models from calling tools.
    assert mode("without_tools", tools=True) == "tool"
    assert mode("without_tools", tools=False) == "native"
    assert mode("none", tools=True) == "tool"
    assert mode("none", tools=False) == "instruction"


def test_a_mode_must_suit_all_models_that_hooks_may_choose() -> None:
    able, other = ScriptedModel([], output_support="with_tools"), ScriptedModel([], name="other")
    agent = Agent("a", model=able, models={"other": other}, output=Recipe)
    assert agent.answering is not None
    assert agent.answering.mode == "instruction"
    with pytest.raises(DefinitionError, match="model other does not say"):
        Agent("a", model=able, models={"other": other}, output=Output(Recipe, mode="native"))


def test_only_openai_itself_is_taken_to_be_held_to_schemas() -> None:
    assert OpenAIModel("m", api_key="k").output_support == "with_tools"
    assert OpenAIModel("m", base_url="https://x.openai.azure.com/v1", api_key="k").output_support == "with_tools"
    assert OpenAIModel("m", base_url="http://localhost:11434/v1", api_key="k").output_support == "none"
    assert OpenAIModel("m", base_url="http://notopenai.com/v1", api_key="k").output_support == "none"
    options = OpenAIOptions(output_support="without_tools")
    assert OpenAIModel("m", base_url="http://vllm/v1", api_key="k", options=options).output_support == "without_tools"


# ---- every kind of type


class Point(TypedDict):
    x: int
    y: int


@dataclasses.dataclass
class Pair:
    left: Point
    right: date


class Model(pydantic.BaseModel):
    name: str
    tags: list[str] = []


SCHEMA: Value = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/number"}},
    "required": ["n"],
    "$defs": {"number": {"type": "integer", "minimum": 1}},
}


@pytest.mark.parametrize(
    ("asked", "document", "typed"),
    [
        (Recipe, SOUP, TYPED),
        (Point, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (Pair, {"left": {"x": 1, "y": 2}, "right": "2026-01-02"}, Pair({"x": 1, "y": 2}, date(2026, 1, 2))),
        (Model, {"name": "a"}, Model(name="a")),
        (list[int], {"result": [1, 2]}, [1, 2]),
        (list[Recipe], {"result": [SOUP]}, [TYPED]),
        (list[int], [1, 2], [1, 2]),
        (Literal["yes", "no"], {"result": "yes"}, "yes"),
        (Course, {"result": "main"}, Course.MAIN),
        (Recipe | Model, {"result": SOUP}, TYPED),
        (date, {"result": "2026-01-02"}, date(2026, 1, 2)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (str, {"result": "words"}, "words"),
        (SCHEMA, {"n": 1}, {"n": 1}),
        ({"type": "array", "items": {"type": "integer"}}, {"result": [1]}, [1]),
    ],
)
@pytest.mark.parametrize("mode", ["native", "tool", "instruction"])
async def test_every_kind_of_type_comes_back_as_itself(
    asked: object, document: Value, typed: object, mode: Mode, tmp_path: Path
) -> None:
    if mode == "tool" and not isinstance(document, dict):
        return  # arguments are an object
    text = json.dumps(document)
    answer = Reply(calls=[tc("c", "final_result", text)]) if mode == "tool" else Reply(text)
    async with office(tmp_path, [answer]) as desk:
        agent = cook(desk, Output(asked, mode=mode), model=native(desk))
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Go.")
            assert (await run.wait()).output == typed
        # After a restart, and without the code.
        async with desk.open(agent) as runtime:
            assert (await runtime.run(run.id).result()).output == typed
        async with desk.commands() as commands:
            inner = document["result"] if isinstance(document, dict) and "result" in document else document
            assert (await commands.state(run.id)).answer.value == inner
        async with desk.open(desk.agent("other")) as runtime:
            assert (await runtime.run(run.id).result()).output == inner


# ---- what does not fit


async def test_what_does_not_fit_goes_back_with_what_is_wrong(tmp_path: Path) -> None:
    script: list[Answer] = [json.dumps(BAD), "I'd rather not say.", json.dumps(SOUP)]
    async with office(tmp_path, script) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        result = await run.wait()
        assert result.output == TYPED
        assert [message.role for message in result.messages] == ["human", "ai", "human", "ai", "human", "ai"]
        first, second = (str(message.content) for message in result.messages if message.id.endswith(".check"))
        assert '- minutes: Input should be a valid integer (got "long")' in first
        assert "there is no JSON object in it" in second
        rejected = await of(run, OutputRejected)
        assert [(event.index, event.kind, event.text) for event in rejected] == [
            (0, "invalid", first),
            (1, "invalid", second),
        ]
        assert desk.stub.requests[1].messages[-1] == {"role": "user", "content": first}
        assert result.steps == 3


async def test_a_call_that_does_not_fit_is_answered_with_what_is_wrong(tmp_path: Path) -> None:
    script: list[Answer] = [
        asks(("final_result", BAD)),
        Reply(calls=[tc("c", "final_result", '{"title"')]),
        asks(("final_result", SOUP)),
    ]
    async with office(tmp_path, script) as desk:
        agent = cook(desk, Output(Recipe, mode="tool"))
        async with desk.open(agent) as runtime:
            result = await (await runtime.submit("desk", "Soup!")).wait()
            assert result.output == TYPED
            assert [message.role for message in result.messages] == ["human", *["ai", "tool"] * 3]
            first, second = told(desk.stub.requests[2].messages)
            assert "- minutes: Input should be a valid integer" in str(first)
            assert "call final_result again" in str(first)
            assert "Expecting ':' delimiter" in str(second)


async def test_text_where_a_call_was_wanted_is_taken_if_it_is_the_output_and_sent_back_if_not(tmp_path: Path) -> None:
    script: list[Answer] = ["All done.", json.dumps(SOUP)]
    async with office(tmp_path, script) as desk:
        async with desk.open(cook(desk, Output(Recipe, mode="tool"))) as runtime:
            result = await (await runtime.submit("desk", "Soup!")).wait()
            assert result.output == TYPED
        assert "call final_result" in str(desk.stub.requests[1].messages[-1]["content"])


@pytest.mark.parametrize("mode", ["tool", "instruction"])
@pytest.mark.parametrize("rounds", [0, 2])
async def test_after_its_rounds_the_run_fails_and_a_resume_gives_as_many_again(
    mode: Mode, rounds: int, tmp_path: Path
) -> None:
    bad = asks(("final_result", BAD)) if mode == "tool" else Reply(json.dumps(BAD))
    async with office(tmp_path, lambda _: bad) as desk:
        agent = cook(desk, Output(Recipe, mode=mode, rounds=rounds))
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Soup!")
            with pytest.raises(
                OutputInvalid, match=r"not accepted: minutes: Input.*it can go on: runtime\.resume"
            ) as caught:
                await run.wait()
            result = caught.value.result
            assert isinstance(result, RunResult)
            assert len(desk.stub.requests) == rounds + 1
            assert result.usage.input_tokens == 10 * (rounds + 1)
            assert result.output is None
            assert result.text == ("" if mode == "tool" else json.dumps(BAD))
            assert result.messages[-1].role == ("tool" if mode == "tool" else "human")
        async with desk.open(agent) as runtime:
            await runtime.resume(run.id, by="maria")
            with pytest.raises(OutputInvalid):
                await runtime.run(run.id).wait()
            assert len(desk.stub.requests) == rounds + 1 + max(1, rounds)


async def test_a_reply_that_is_cut_off_is_told_so(tmp_path: Path) -> None:
    script: list[Answer] = [Reply('{"title": "So', finish="length"), json.dumps(SOUP)]
    async with office(tmp_path, script) as desk, desk.open(cook(desk)) as runtime:
        assert (await (await runtime.submit("desk", "Soup!")).wait()).output == TYPED
        assert "cut off by its length limit" in str(desk.stub.requests[1].messages[-1]["content"])


async def test_a_validator_of_the_users_own_may_raise_anything(tmp_path: Path) -> None:
    @attrs.frozen
    class Even:
        n: int = attrs.field()

        @n.validator
        def _check(self, _: object, value: int) -> None:
            if value % 2:
                raise RuntimeError("odd")

    script: list[Answer] = ['{"n": 1}', '{"n": 2}']
    async with office(tmp_path, script) as desk, desk.open(cook(desk, Even)) as runtime:
        assert (await (await runtime.submit("desk", "Go.")).wait()).output == Even(2)
        assert "odd" in str(desk.stub.requests[1].messages[-1]["content"])


# ---- at the limit


def adding(request: dict[str, Value]) -> Answer:
    """A model that always calls two tools at once, as long as it may."""
    if '"add"' not in json.dumps(request.get("tools", [])):
        return asks(("final_result", SOUP)) if "tools" in request else json.dumps(SOUP)
    return asks(("add", {"n": 1}), ("add", {"n": 2}))


@pytest.mark.parametrize("mode", ["native", "tool", "instruction"])
async def test_case_20_at_the_limit_nothing_that_was_done_is_lost(mode: Mode, tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        agent = cook(desk, Output(Recipe, mode=mode), model=native(desk))
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=3))
            with pytest.raises(StepLimitExceeded) as caught:
                await run.wait()
            result = caught.value.result
            assert isinstance(result, RunResult)
            answers = [message.content for message in result.messages if isinstance(message, ToolMessage)]
            assert answers == ["added 1", "added 2", *["Not started: the run has reached its step limit."] * 2]
            assert (result.usage.input_tokens, result.output) == (20, None)
            await run.raise_limit(2)
            with pytest.raises(StepLimitExceeded):
                await run.wait()
            assert len(desk.world.effects) == 4


@pytest.mark.parametrize("mode", ["native", "tool", "instruction"])
async def test_case_20_the_last_request_asks_for_the_output(mode: Mode, tmp_path: Path) -> None:
    async with office(tmp_path, adding, lambda world: [world.adder()]) as desk:
        config = ModelConfig(tool_choice="add")
        agent = cook(desk, Output(Recipe, mode=mode), model=native(desk), config=config)
        async with desk.open(agent) as runtime:
            limits = Limits(max_steps=3, on_limit="finish")
            run = await runtime.submit("desk", "Go.", limits=limits)
            assert (await run.wait()).output == TYPED
            assert [event.closing for event in await of(run, ModelRequested)] == [False, False, True]
            last = desk.stub.requests[-1]
            assert last.body.get("tool_choice") == ("required" if mode == "tool" else None)
            assert ("response_format" in last.body) == (mode == "native")
            assert str(last.messages[-1]["content"]).startswith("The step limit is reached")


async def test_case_20_the_last_answer_has_one_try(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), "Sorry.", "Sorry.", asks(("final_result", SOUP))]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open(cook(desk)) as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=2, on_limit="finish"))
        for _ in range(2):
            with pytest.raises(OutputInvalid):
                await run.wait()
            await runtime.resume(run.id, by="maria")
        assert (await run.wait()).output == TYPED
        assert [event.closing for event in await of(run, ModelRequested)] == [False, True, True, True]


# ---- at the door


class Odd:
    pass


def test_what_cannot_be_meant_is_refused_when_the_agent_is_built() -> None:
    model = ScriptedModel([])
    for wrong, said in [
        (Odd, "output"),
        ("Recipe", "give the type itself"),
        ({"type": "nonsense"}, "no valid JSON Schema"),
        ({"$ref": "https://example.org/x.json"}, "outside itself"),
    ]:
        with pytest.raises(DefinitionError, match=said):
            Agent("a", model=model, output=wrong)
    for changes, said in [({"mode": "magic"}, "mode"), ({"rounds": -1}, "rounds"), ({"strict": 1.5}, "strict")]:
        with pytest.raises(DefinitionError, match=said):
            Output(Recipe, **changes)  # type: ignore[arg-type]  # meant to be wrong
    with pytest.raises(DefinitionError, match="free keys"):
        Output(dict[str, int], strict=True)
    with pytest.raises(DefinitionError, match="does not say that it can be held to a schema"):
        Agent("a", model=model, output=Output(Recipe, mode="native"))


def test_final_result_is_not_free_as_a_name() -> None:
    from trouper import tool

    @tool(effect="read_only")
    def final_result(n: int) -> int:
        """Mine."""
        return n

    model = ScriptedModel([], output_support="with_tools")
    with pytest.raises(DefinitionError, match="final_result is not free"):
        Agent("a", model=model, tools=[final_result], output=Recipe)
    assert Agent("a", model=model, tools=[final_result], output=Output(Recipe, mode="native")).answering


def test_the_output_is_part_of_the_contract_and_its_wording_is_not() -> None:
    model = ScriptedModel([])
    plain = Agent("a", model=model).definition
    recipe = Agent("a", model=model, output=Recipe).definition
    assert "output" not in plain.contract
    assert recipe.contract_digest != plain.contract_digest
    assert Agent("a", model=model, output=Output(Recipe)).definition.digest == recipe.digest
    # Another model may be brought to it in another way: that is no broken promise.
    able = Agent("a", model=ScriptedModel([], output_support="with_tools"), output=Recipe).definition
    assert able.contract_digest == recipe.contract_digest
    assert able.prose_digest != recipe.prose_digest
