from __future__ import annotations

import pytest
import trio

from trouper.core.conversation import AI, Human, Message, ToolCall, ToolSpec, Usage
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.errors import ModelError
from trouper.models import Model, identity
from trouper.testing import (
    ModelRequest,
    ScriptedModel,
    Step,
    UnexpectedModelCall,
    UnusedModelSteps,
    call,
    calls,
    raw_call,
)

HELLO = [Human("1", "hello")]
SECOND: list[Message] = [Human("1", "hello"), AI("2", "a"), Human("3", "more")]


async def test_steps_of_every_kind_in_order() -> None:
    async def later(request: ModelRequest) -> str:
        await trio.lowlevel.checkpoint()
        return f"after {len(request.messages)}"

    whole = ModelReply(AI("", "cut"), "length", Usage(1, 1), truncated=True)
    with ScriptedModel(
        [
            "text",
            call("add", n=1),
            calls(call("add", n=1), raw_call("add", "{", provider_id="x"), text="both"),
            whole,
            lambda request: f"{len(request.tools)} tools",
            later,
            ModelError("busy", retryable=True),
        ]
    ) as model:
        texts = await model.agenerate(HELLO)
        assert (texts.message, texts.finish_reason, texts.usage) == (AI("", "text"), "stop", Usage(10, 5))
        one = await model.agenerate(HELLO)
        assert one.finish_reason == "tool_calls"
        assert one.message.tool_calls == (ToolCall("", "add", '{"n": 1}'),)
        two = await model.agenerate(HELLO)
        assert two.message.content == "both"
        assert [(each.arguments, each.provider_id) for each in two.message.tool_calls] == [
            ('{"n": 1}', None),
            ("{", "x"),
        ]
        assert await model.agenerate(HELLO) is whole
        assert (await model.agenerate(HELLO, [ToolSpec("a", "", {})])).message.content == "1 tools"
        assert (await model.agenerate(SECOND)).message.content == "after 3"
        with pytest.raises(ModelError, match="busy"):
            await model.agenerate(HELLO, (), ModelConfig(seed=1))
    assert len(model.requests) == 7
    assert model.requests[5].messages == tuple(SECOND)
    assert model.requests[6].config == ModelConfig(seed=1)


async def test_a_call_beyond_the_script_fails_even_if_its_error_is_caught() -> None:
    model = ScriptedModel(["a"])
    await model.agenerate(HELLO)
    with pytest.raises(UnexpectedModelCall, match="call 1 of 'scripted'"):
        await model.agenerate(HELLO)
    with pytest.raises(UnexpectedModelCall):
        model.assert_done()


async def test_a_step_that_nobody_asks_for_fails() -> None:
    with pytest.raises(UnusedModelSteps, match="step 1, 2"), ScriptedModel(["a", "b", "c"]) as model:
        await model.agenerate(HELLO)


def test_an_error_in_the_block_is_not_hidden_by_unused_steps() -> None:
    with pytest.raises(KeyError), ScriptedModel(["a"]):
        raise KeyError


async def test_by_turn_a_new_process_goes_on_in_its_place() -> None:
    model = ScriptedModel(["first", "second"], by_turn=True)
    assert (await model.agenerate(SECOND)).message.content == "second"
    model.assert_done()
    assert (await model.agenerate(HELLO)).message.content == "first"
    with pytest.raises(UnexpectedModelCall, match="turn 2"):
        await model.agenerate([*SECOND, AI("4", "b")])


async def test_by_turn_a_turn_may_take_several_attempts() -> None:
    model = ScriptedModel([[ModelError("busy", retryable=True), "first"], "second"], by_turn=True)
    with pytest.raises(ModelError):
        await model.agenerate(HELLO)
    assert [(await model.agenerate(HELLO)).message.content for _ in range(2)] == ["first", "first"]
    with pytest.raises(UnusedModelSteps, match="step 1"):
        model.assert_done()


@pytest.mark.parametrize(
    ("steps", "by_turn"), [([["a", "b"]], False), ([[]], True), ("text", False)], ids=["in order", "empty", "a text"]
)
def test_a_script_of_which_something_would_never_be_said_is_refused(steps: list[Step], *, by_turn: bool) -> None:
    with pytest.raises(ValueError, match="step"):
        ScriptedModel(steps, by_turn=by_turn)


def test_it_is_a_model_with_a_name_of_its_own() -> None:
    model: Model = ScriptedModel([], name="clerk")
    assert identity(model) == {"provider": "scripted", "model": "clerk"}
