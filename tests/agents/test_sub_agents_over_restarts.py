"""Sub-agents whose process ends while they are out: what is on record is not done again, and the same comes back."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.agents.office import Office, happened, of, office, pending, until
from tests.agents.test_sub_agents import agent, answers, roles, scripted

from trouper import AI, Agent, BudgetExceeded, Human, Limits, Message, RunResult, StateKey
from trouper.core.events import ActionReceipted, BudgetWarned, ModelRequested, RunSucceeded, StateChanged
from trouper.streaming import Ended, Recorded
from trouper.testing import ModelRequest, call, calls


def asked(request: ModelRequest) -> str:
    return next(str(message.content) for message in request.messages if isinstance(message, Human))


async def test_the_same_sub_agent_three_times_in_one_reply_keeps_three_histories(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:

        def team() -> Agent:
            worker = agent(
                "worker",
                lambda request: call("send_email", to=asked(request)),
                lambda request: f"{asked(request)}: {request.messages[-1].content}",
                tools=desk.tools,
            )
            three = calls(*(call("worker", input=name) for name in "abc"))
            return agent("top", three, "done", tools=[worker.as_tool()])

        async with desk.open(team()) as runtime:
            run = await runtime.submit("top", "go")
            waiting = await pending(runtime, 3)
            assert [each.run for each in waiting] == [f"{run.id}~0.{n}" for n in range(3)]
        # Each goes on in a life of its own, the last first.
        for place, each in reversed(list(enumerate(waiting))):
            top = team()
            async with desk.open(top) as runtime:
                await runtime.approve(each.action, by="maria")
                await until(runtime, each.run, "succeeded")
                if place:
                    assert len(await pending(runtime, place)) == place
                    assert scripted(top).requests == []
                else:
                    result = await runtime.run(run.id).wait()
        assert answers(result) == [("ok", f"{name}: sent to {name}") for name in "abc"]
        assert desk.world.effects == ["mail c", "mail b", "mail a"]
        async with desk.open(team()) as runtime:
            for place, name in enumerate("abc"):
                messages = (await runtime.run(f"{run.id}~0.{place}").result()).messages
                assert [message.content for message in messages if message.role == "human"] == [name]
                assert [message.role for message in messages] == ["human", "ai", "tool", "ai"]


async def test_a_handoff_goes_on_in_the_one_who_took_over(tmp_path: Path) -> None:
    said: list[Message] = [Human("", "Hello."), AI("", "Hi!"), Human("", "I want my money back.")]
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:

        def front() -> tuple[Agent, Agent]:
            billing = agent("billing", "never", call("send_email", to="bank"), "It is on its way.", tools=desk.tools)
            handing = [billing.as_tool(handoff=True)]
            return agent("greeter", "never", call("billing", input="Refund R-7."), "never", tools=handing), billing

        greeter, _ = front()
        async with desk.open(greeter) as runtime:
            run = await runtime.submit("greeter", said)
            (waiting,) = await pending(runtime)
            assert waiting.path == ("greeter", "billing")
        greeter, billing = front()
        async with desk.open(greeter) as runtime:
            run = runtime.run(run.id)
            await runtime.approve(waiting.action, by="maria")
            assert (await run.wait()).output == "It is on its way."
            assert scripted(greeter).requests == []
            (request,) = scripted(billing).requests
            assert [content for _, content in roles(request)[1:]] == [
                "Hello.", "Hi!", "I want my money back.", "Refund R-7.", "None", "sent to bank",
            ]  # fmt: skip
            (succeeded,) = await of(run, RunSucceeded)
            assert succeeded.source == "0.0"
            assert len(await of(run, ModelRequested)) == 1
        assert desk.world.effects == ["mail bank"]


async def test_history_steps_and_keys_come_through(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:

        def team() -> tuple[Agent, Agent]:
            finder = agent("finder", "never", call("send_email", to="a"), "found", tools=desk.tools)
            options = finder.as_tool(include_history=True, output_key="notes", return_steps=True)
            top = agent("top", "first", call("finder", input="Look."), "done")
            return attrs.evolve(top, tools=[options], state={"notes": StateKey(list[str], reducer="append")}), finder

        top, finder = team()
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", [Human("", "hi"), AI("", "first"), Human("", "go")])
            (waiting,) = await pending(runtime)
            shown = roles(scripted(finder).requests[0])
        top, finder = team()
        async with desk.open(top) as runtime:
            await runtime.approve(waiting.action, by="maria")
            result = await runtime.run(run.id).wait()
            assert dict(result.state) == {"notes": ["found"]}
            ((status, steps),) = answers(result)
            assert status == "ok"
            assert '"sent to a"' in steps
            # It is shown the same again, and the rest behind it.
            assert roles(scripted(finder).requests[0])[: len(shown)] == shown
            assert len(await of(runtime.run(run.id), StateChanged)) == 1


# ---- limits of a tree


def soft_team(desk: Office) -> Agent:
    worker = agent("worker", call("send_email", to="a"), call("send_email", to="b"), "w", tools=desk.tools)
    return agent("top", call("worker", input="go"), *[call("worker", input="more")] * 3, tools=[worker.as_tool()])


async def test_what_sub_agents_spent_is_told_to_the_model_once(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer(requires_approval=False)], done=False) as desk:
        top = soft_team(desk)
        async with desk.open(top) as runtime:
            run = await runtime.submit("top", "go", limits=Limits(max_model_calls=9, soft=0.4))
            with pytest.raises(BudgetExceeded):
                await run.wait()
            # One of its own and three below it, of nine: more than two fifths.
            warned = await of(run, BudgetWarned)
            assert [(event.resource, event.limit, event.spent) for event in warned] == [("model_calls", 9, 4)]
            last = [str(message.content) for message in scripted(top).requests[-1].messages]
            told = "4 of 9 model calls are spent; 5 are left. Come to an end within that."
            assert last.count(told) == 1
            assert str(scripted(top).requests[1].messages[-1].content) == told


async def test_sub_agents_are_told_once_what_is_left_of_what_they_share(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:

        def team() -> tuple[Agent, Agent]:
            worker = agent("worker", *[call("send_email", to=name) for name in "abc"], "w", tools=desk.tools)
            both = calls(call("worker", input="1"), call("worker", input="2"))
            return agent("top", both, "done", tools=[worker.as_tool()]), worker

        limits = Limits(max_model_calls=10, max_tokens=1_000_000, soft=0.5)
        async with desk.open(team()[0]) as runtime:
            run = await runtime.submit("top", "go", limits=limits)
            await pending(runtime, 2)
        below = [f"{run.id}~0.0", f"{run.id}~0.1"]
        for turn in range(3):
            top, worker = team()
            async with desk.open(top) as runtime:
                for each in await pending(runtime, 2):
                    await runtime.approve(each.action, by="maria")
                for name in below:
                    await happened(runtime, runtime.run(name), ModelRequested, turn + 2)
                if turn < 2:
                    await pending(runtime, 2)
                    continue
                result = await runtime.run(run.id).wait()
                assert (result.output, result.spent.model_calls) == ("done", 10)
                for name in below:
                    # The root's one call and two of each were the half of ten.
                    (warned,) = await of(runtime.run(name), BudgetWarned)
                    assert (warned.owner, warned.resource, warned.limit) == (run.id, "model_calls", 10)
                    assert warned.spent in {5, 6}
                    said = [str(message.content) for message in (await runtime.run(name).result()).messages]
                    told = [text for text in said if "are left" in text]
                    spent = warned.spent
                    shared = f"{spent} of 10 model calls are spent by all agents that share them"
                    assert told == [f"{shared}; {10 - spent} are left. Come to an end within that."]
                for request in scripted(worker).requests:
                    assert sum("are left" in str(message.content) for message in request.messages) == 1
                (own,) = await of(runtime.run(run.id), BudgetWarned)
                assert (own.owner, own.spent) == ("", 9)


async def test_the_model_is_told_once_though_the_process_ends_between(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:

        def single() -> Agent:
            return agent("top", *[call("send_email", to=name) for name in "abc"], "done", tools=desk.tools)

        async with desk.open(single()) as runtime:
            run = await runtime.submit("top", "go", limits=Limits(max_model_calls=4, soft=0.5))
            await pending(runtime)
        for turn in range(3):
            top = single()
            async with desk.open(top) as runtime:
                (each,) = await pending(runtime)
                await runtime.approve(each.action, by="maria")
                await happened(runtime, runtime.run(run.id), ModelRequested, turn + 2)
                if turn < 2:
                    await pending(runtime)
                else:
                    assert (await runtime.run(run.id).wait()).output == "done"
                    (warned,) = await of(runtime.run(run.id), BudgetWarned)
                    assert (warned.limit, warned.spent) == (4, 2)
                    shown = [str(message.content) for message in scripted(top).requests[-1].messages]
                    assert sum("2 of 4 model calls are spent" in text for text in shown) == 1


# ---- streams


async def test_a_stream_brings_the_runs_below_too_and_goes_on_over_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as desk:

        def team() -> Agent:
            worker = agent("worker", call("send_email", to="a"), "sent", tools=desk.tools)
            return agent("top", call("worker", input="go"), "done", tools=[worker.as_tool()])

        async with desk.open(team()) as runtime:
            run = await runtime.submit("top", "go")
            (waiting,) = await pending(runtime)
        async with desk.open(team()) as runtime:
            run = runtime.run(run.id)
            await runtime.approve(waiting.action, by="maria")
            async with run.stream(below=True) as stream:
                events = [event async for event in stream]
            result: RunResult = await run.wait()
            assert result.output == "done"
            assert events[-1] == Ended(run.id, "succeeded")
            for name in (run.id, f"{run.id}~0.0"):
                told = [event for event in events if isinstance(event, Recorded) and event.run == name]
                whole = await runtime.run(name).events()
                assert [event.version for event in told] == list(range(1, len(whole) + 1))
            said = [message for event in events if isinstance(event, Recorded) for message in event.messages]
            assert len({message.id for message in said}) == len(said)
            assert len(await of(runtime.run(f"{run.id}~0.0"), ActionReceipted)) == 1
