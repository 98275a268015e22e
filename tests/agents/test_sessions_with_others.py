"""Sessions together with sub-agents, steering, pausing, forks, streams, and history that is broken."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.agents.office import gone, office, pending, until
from tests.agents.test_sub_agents import agent, scripted
from tests.agents.test_sub_agents_and_people import mailing

from trouper import (
    AI,
    ApprovalConflict,
    EditMessage,
    History,
    Human,
    Message,
    RunCancelled,
    ToolCall,
    ToolMessage,
    WhatIf,
)
from trouper.core.conversation import text as text_of
from trouper.runtime import RuntimeOptions
from trouper.streaming import Ended, Recorded
from trouper.testing import ScriptedModel, call


def ten(_: Message) -> int:
    return 10


async def test_case_06_a_message_supersedes_calls_of_sub_agents_too(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk, ("a", "b"))
        async with desk.open(top) as runtime:
            first = await runtime.session("top", "s").send("go")
            both = await pending(runtime, 2)
        async with desk.open(top) as runtime:
            session = runtime.session("top", "s")
            second = await session.send("never mind", by="maria", supersede=True)
            await first_result(runtime.run(first.id))
            assert await runtime.approvals() == []
            for asked in both:
                with pytest.raises(ApprovalConflict, match="deny by maria"):
                    await runtime.approve(asked.action, by="eve")
            await until(runtime, second.id, "succeeded", "failed")
            assert [line for line in desk.world.effects if line.startswith("mail")] == []


async def first_result(run: object) -> None:
    """The turn under way goes on, and ends."""
    result = await run.wait()  # type: ignore[attr-defined]  # a run
    told = [str(message.content) for message in result.messages if isinstance(message, ToolMessage)]
    assert all("superseded by a new message" in text for text in told)


async def test_case_05_cancelled_below_a_sub_agent_the_session_goes_on(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.adder(), world.mailer()], done=False) as desk:
        top = mailing(desk)
        async with desk.open(top) as runtime:
            session = runtime.session("top", "s")
            first = await session.send("go")
            await pending(runtime)
            await first.cancel(by="maria", reason="enough")
            with pytest.raises(RunCancelled):
                await first.wait()
            second = await session.send("hello")
            assert (await second.wait()).output == "done"
            request = scripted(top).requests[-1]
            answers = [message for message in request.messages if isinstance(message, ToolMessage)]
            assert [message.status for message in answers] == ["error"]


async def test_a_sub_agent_is_shown_the_session_where_it_is_to_be(tmp_path: Path) -> None:
    reader = agent("reader", "read it all")
    top = agent("top", "hello", call("reader", input="Sum up."), "done", tools=[reader.as_tool(include_history=True)])
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        session = runtime.session("top", "s")
        for text in ("hi", "what was said?"):
            await (await session.send(text)).wait()
        shown = [text_of(message.content) for message in scripted(reader).requests[0].messages]
        assert shown[1:4] == ["hi", "hello", "what was said?"]
        assert shown[-1] == "Sum up."


async def test_what_is_steered_into_a_turn_is_history_for_the_next(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:
        top = agent("top", call("send_email", to="a"), "mailed", "and more", tools=desk.tools)
        async with desk.open(top) as runtime:
            session = runtime.session("top", "s")
            first, second = await session.send("mail a"), await session.send("more")
            (asked,) = await pending(runtime)
            await first.steer("politely", by="maria")
            await second.steer("and quickly", by="maria")
            await runtime.approve(asked.action, by="maria")
            assert (await second.wait()).output == "and more"
            said = [text_of(message.content) for message in await session.history()]
            assert said == ["mail a", "", "sent to a", "politely", "mailed", "more", "and quickly", "and more"]


async def test_a_paused_turn_keeps_its_place(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("hi")
        second = await session.send("more")
        await second.pause(by="maria")
        await first.wait()
        assert (await until(runtime, second.id, "paused")).turn is not None
        await gone(runtime)
        await second.resume(by="maria")
        assert (await second.wait()).output == "two"


async def test_a_turn_can_be_watched_from_before_it_begins(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        await session.send("hi")
        second = await session.send("more")
        async with second.stream() as stream:
            events = [event async for event in stream]
        assert isinstance(events[-1], Ended)
        types = [type(event.event).__name__ for event in events if isinstance(event, Recorded)]
        assert [name for name in types if name != "RunWaiting"] == [
            "RunSubmitted", "TurnGiven", "RunStarted", "ModelRequested", "ModelResponded", "RunSucceeded",
        ]  # fmt: skip


async def test_a_turn_can_be_forked_and_the_session_is_as_it_was(tmp_path: Path) -> None:
    top = agent("top", *[f"a{turn}" for turn in range(9)])
    small = ScriptedModel(["in short"] * 9, name="small")
    top = attrs.evolve(top, history=History(45, count=ten, keep_last=2, summarise=small))
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        session = runtime.session("top", "s")
        runs = []
        for number in range(4):
            run = await session.send(f"q{number}")
            await run.wait()
            runs.append(run)
        assert text_of((await runs[-1].history())[0].content).endswith("in short")
        before = await session.history()
        fork = await runs[-1].fork(WhatIf((EditMessage(f"{runs[-1].id}/input", "q3, otherwise"),)))
        await fork.wait()
        history = [text_of(message.content) for message in await fork.history()]
        assert history[0].endswith("in short")
        assert history[-2] == "q3, otherwise"
        assert await session.history() == before
        assert len((await session.state()).turns) == 4


async def test_case_05_an_answer_whose_call_is_missing_is_not_sent(tmp_path: Path) -> None:
    broken = (
        Human("", "go"),
        ToolMessage("", "nobody", "add", "an answer without a call"),
        AI("", None, (ToolCall("c1", "add", '{"n": 1}'),)),
        Human("", "and?"),
    )
    async with office(tmp_path, ["one", "two"], by_turn=False, checked=False) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        await (await session.send(broken)).wait()
        await (await session.send("hello")).wait()
        roles = [message["role"] for message in desk.stub.requests[-1].messages]
        assert roles == ["system", "user", "assistant", "tool", "user", "assistant", "user"]


async def test_there_need_be_no_room_for_more_than_one(tmp_path: Path) -> None:
    options = RuntimeOptions(max_active=1, drain=0.5)
    answers = [str(number) for number in range(6)]
    async with office(tmp_path, answers, by_turn=False) as desk, desk.open(options=options) as runtime:
        sessions = [runtime.session("desk", name) for name in "ab"]
        runs = [await session.send(f"q{n}") for n in range(3) for session in sessions]
        for run in runs:
            await run.wait()
        assert [len(await session.history()) for session in sessions] == [6, 6]


async def test_a_turn_that_was_handed_off_is_history_for_the_next(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:
        billing = agent("billing", call("send_email", to="bank"), "On its way.", tools=desk.tools)
        top = agent("top", call("billing", input="Refund."), "You are welcome.", tools=[billing.as_tool(handoff=True)])
        async with desk.open(top) as runtime:
            first = await runtime.session("top", "s").send("My money!")
            (asked,) = await pending(runtime)
            second = await runtime.session("top", "s").send("Thanks.")
        async with desk.open(top) as runtime:
            await runtime.approve(asked.action, by="maria")
            assert (await runtime.run(first.id).wait()).output == "On its way."
            assert (await runtime.run(second.id).wait()).output == "You are welcome."
            said = [text_of(message.content) for message in scripted(top).requests[-1].messages[1:]]
            assert said == ["My money!", "", "On its way.", "Thanks."]
