"""The loop: model, tools, model, until a reply without calls; and messages that come through it as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.office import asks, of, office, told, types

from trouper import AI, Human, System, ToolCall, ToolMessage, tool
from trouper.core.chat import from_chat, to_chat
from trouper.core.conversation import Message, Value
from trouper.core.events import ModelResponded
from trouper.errors import InvalidValue, UnknownAgent
from trouper.testing import Reply, tc


@tool(effect="read_only")
def multiply_by_two(n: int) -> int:
    """Double a number.

    Args:
        n: The number.
    """
    return n * 2


@tool(effect="read_only")
async def get_weather(city: str) -> dict[str, str | int]:
    """Look the weather up."""
    return {"city": city, "sky": "clear", "degrees": 21}


async def test_a_one_tool_task_yields_exactly_four_messages(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("multiply_by_two", {"n": 21})), "It is 42."], [multiply_by_two]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "What is 21 times two?")
            result = await run.wait()
            human, called, answered, final = result.messages
            assert human == Human(f"{run.id}/input", "What is 21 times two?")
            assert isinstance(called, AI)
            assert called.tool_calls == (ToolCall(f"{run.id}/0.0", "multiply_by_two", '{"n": 21}', "call_0"),)
            assert isinstance(answered, ToolMessage)
            assert (answered.call_id, answered.content, answered.status) == (f"{run.id}/0.0", "42", "ok")
            assert (final, result.output) == (AI(f"{run.id}/1", "It is 42."), "It is 42.")
            assert (result.steps, result.status, result.finish_reason) == (3, "succeeded", "stop")
            assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.unknown) == (20, 10, 0)
            assert await types(run) == [
                "run.submitted",
                "run.started",
                "model.requested",
                "model.responded",
                "action.planned",
                "action.started",
                "action.receipted",
                "model.requested",
                "model.responded",
                "run.succeeded",
            ]
        first, second = desk.stub.requests
        assert first.messages == [
            {"role": "system", "content": "Do what is asked."},
            {"role": "user", "content": "What is 21 times two?"},
        ]
        assert first.body["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "multiply_by_two",
                    "description": "Double a number.",
                    "parameters": {
                        "type": "object",
                        "properties": {"n": {"type": "integer", "description": "The number."}},
                        "required": ["n"],
                        "additionalProperties": False,
                    },
                },
            }
        ]
        assert second.messages[:2] == first.messages
        assert told(second.messages) == ["42"]


async def test_a_json_result_is_told_as_json(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("get_weather", {"city": "Kyiv"})), "Clear."], [get_weather]) as desk:
        async with desk.open() as runtime:
            result = await (await runtime.submit("desk", "How is the weather in Kyiv?")).wait()
        assert len(result.messages) == 4
        assert result.messages[2].content == '{"city":"Kyiv","sky":"clear","degrees":21}'
        assert told(desk.stub.requests[1].messages) == ['{"city":"Kyiv","sky":"clear","degrees":21}']


@pytest.mark.parametrize("together", [True, False])
async def test_two_tools_in_one_question(tmp_path: Path, *, together: bool) -> None:
    double, weather = ("multiply_by_two", {"n": 21}), ("get_weather", {"city": "Kyiv"})
    script: list[Reply | str] = [asks(double, weather), "Both."] if together else [asks(double), asks(weather), "Both."]
    async with office(tmp_path, script, [multiply_by_two, get_weather]) as desk:
        async with desk.open() as runtime:
            result = await (await runtime.submit("desk", "Double 21, and how is Kyiv?")).wait()
        roles = [message.role for message in result.messages]
        if together:
            assert roles == ["human", "ai", "tool", "tool", "ai"]
            assert result.steps == 3
        else:
            assert roles == ["human", "ai", "tool", "ai", "tool", "ai"]
            assert result.steps == 5
        answers = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [message.name for message in answers] == ["multiply_by_two", "get_weather"]
        assert answers[0].content == "42"
        assert result.output == "Both."


async def test_an_answer_without_tools_is_two_messages_and_one_step(tmp_path: Path) -> None:
    async with office(tmp_path, ["Hello."]) as desk:
        async with desk.open() as runtime:
            result = await (await runtime.submit("desk", "Hello?")).wait()
        assert ([message.role for message in result.messages], result.steps) == (["human", "ai"], 1)
        assert "tools" not in desk.stub.requests[0].body


async def test_a_system_message_given_in_the_input_stays(tmp_path: Path) -> None:
    given: list[Message] = [System("rules", "Answer in French."), Human("q", "Hello?")]
    async with office(tmp_path, ["Bonjour."]) as desk:
        async with desk.open() as runtime:
            result = await (await runtime.submit("desk", given)).wait()
        assert list(result.messages[:2]) == given
        assert [message["content"] for message in desk.stub.requests[0].messages] == [
            "Do what is asked.",
            "Answer in French.",
            "Hello?",
        ]


HISTORY: list[dict[str, Value]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Which is it? \u2028 \ud83d\ude00"}], "name": "maria"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"n": 1}'}, "index": 3},
            {"id": "x", "type": "function", "function": {"name": "add", "arguments": ""}},
        ],
        "reasoning_content": "Hm.",
        "x_vendor": {"deep": [1, 2.5, None, 2**80, True]},
    },
    {"role": "tool", "tool_call_id": "x", "content": "1"},
    {"role": "tool", "tool_call_id": "x", "content": "2"},
    {"role": "assistant", "content": "", "refusal": "I cannot say."},
    {"role": "user", "content": "And now?"},
]


async def test_messages_of_all_kinds_come_through_the_journal_and_chat_json_without_loss(tmp_path: Path) -> None:
    given = from_chat(HISTORY, prefix="old-")
    async with office(tmp_path, [Reply("Now.", fields={"reasoning": "Hm."})], by_turn=False) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", given)
            result = await run.wait()
        async with desk.open() as runtime:
            again = await runtime.run(run.id).result()
        assert again == result
        assert again.messages[: len(given)] == given
        assert to_chat(again.messages[: len(given)]) == HISTORY
        assert from_chat(to_chat(again.messages, notes=True)) == again.messages
        final = again.messages[-1]
        assert isinstance(final, AI)
        assert (final.content, final.reasoning) == ("Now.", "Hm.")


async def test_ids_of_messages_stay_and_missing_ones_are_given(tmp_path: Path) -> None:
    given: list[Message] = [Human("mine", "One."), Human("", "Two."), AI("", "Three."), Human("", "Four.")]
    async with office(tmp_path, ["Five."], by_turn=False) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", given)
        result = await run.wait()
        ids = [message.id for message in result.messages]
        assert ids == ["mine", f"{run.id}/input-1", f"{run.id}/input-2", f"{run.id}/input-3", f"{run.id}/0"]


async def test_a_message_with_a_known_id_replaces_it_in_place(tmp_path: Path) -> None:
    given = [Human("a", "One."), Human("b", "Two."), Human("a", "One and a half.")]
    async with office(tmp_path, ["Ok."]) as desk, desk.open() as runtime:
        result = await (await runtime.submit("desk", given)).wait()
        assert list(result.messages[:-1]) == [Human("a", "One and a half."), Human("b", "Two.")]


async def test_text_beside_calls_and_reasoning_are_kept(tmp_path: Path) -> None:
    ask = Reply("Let me see.", [tc("c", "multiply_by_two", '{"n":4}')], fields={"reasoning_content": "Doubling."})
    async with office(tmp_path, [ask, "8"], [multiply_by_two]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Double 4")
        result = await run.wait()
        said = result.messages[1]
        assert isinstance(said, AI)
        assert (said.content, said.reasoning) == ("Let me see.", "Doubling.")
        first, last = await of(run, ModelResponded)
        assert [(event.finish, event.request_id) for event in (first, last)] == [
            ("tool_calls", "req-1"),
            ("stop", "req-2"),
        ]


async def test_what_cannot_be_asked_is_refused_at_the_door(tmp_path: Path) -> None:
    async with office(tmp_path) as desk, desk.open() as runtime:
        with pytest.raises(UnknownAgent, match="no agent called 'nobody' is registered here; agents: desk"):
            await runtime.submit("nobody", "Hello?")
        odd = Human("b", [{"type": "text", "text": "x", "score": float("nan")}])
        with pytest.raises(InvalidValue, match=r"input\[1\]\.content\[0\]\.score: nan is not a number"):
            await runtime.submit("desk", [Human("a", "One."), odd])
        with pytest.raises(InvalidValue, match=r"input\[0\]: dict is not a message"):
            await runtime.submit("desk", [{"role": "user", "content": "x"}])  # type: ignore[list-item]  # on purpose
        with pytest.raises(InvalidValue, match="input: is empty"):
            await runtime.submit("desk", [])
        assert await runtime.journal.head("run/") is None
        assert [head async for head in runtime.commands.runs()] == []
