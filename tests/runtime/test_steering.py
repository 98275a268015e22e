"""What is said to a run under way is heard once, in order, where the conversation stays valid for the wire."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import define, field
from tests.agents.office import AnyTool, happened, of, pending, until
from tests.runtime.house import house

from trouper import (
    AI,
    Agent,
    Human,
    IdempotencyConflict,
    Limits,
    ModelError,
    Principal,
    SteerError,
    StepLimitExceeded,
    System,
    ToolMessage,
    UnknownRun,
    tool,
)
from trouper.core.events import ActionStarted, ModelFailed, ModelRequested, RunHeard, RunSignalled
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._scripted import ModelRequest

MARIA = Principal("maria")


@define
class Desk:
    """Tools that work until the test says so, and one that needs a person."""

    began: trio.Event = field(factory=trio.Event)
    go: trio.Event = field(factory=trio.Event)
    sent: list[str] = field(factory=list)

    def tools(self) -> Sequence[AnyTool]:
        @tool(effect="read_only")
        async def watch() -> str:
            """Work until the test says so."""
            self.began.set()
            await self.go.wait()
            return "watched"

        @tool(requires_approval=True)
        async def send(to: str) -> str:
            """Send."""
            self.sent.append(to)
            return f"sent to {to}"

        return [watch, send]

    def agent(self, model: ScriptedModel, limits: Limits | None = None) -> Agent:
        return Agent("desk", "Do it.", tools=self.tools(), model=model, limits=limits or Limits())


def asked(request: ModelRequest) -> list[str]:
    """What a request says, instructions aside."""
    return [str(message.content) for message in request.messages[1:] if not isinstance(message, AI)]


async def test_what_is_said_during_a_batch_follows_its_results() -> None:
    desk, model = Desk(), ScriptedModel([calls(call("watch"), call("watch")), "done"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        await run.steer("Be brief.", by="maria")
        await run.steer([System("", "Mind the tone."), Human("x", "Really.")], by="otto")
        desk.go.set()
        result = await run.wait()
        assert asked(model.requests[1]) == ["Go.", "watched", "watched", "Be brief.", "Mind the tone.", "Really."]
        # One event took them all in; their ids are the run's own, whatever was given.
        (heard,) = await of(run, RunHeard)
        signals = [record.version for record, event in await run.events() if isinstance(event, RunSignalled)]
        assert heard.through == signals[-1]
        ids = [message.id for message in result.messages]
        assert len(set(ids)) == len(ids)
        assert "x" not in ids


async def test_a_run_whose_reply_would_end_it_hears_first_and_goes_on() -> None:
    desk = Desk()

    async def held(_: ModelRequest) -> str:
        desk.began.set()
        await desk.go.wait()
        return "first answer"

    model = ScriptedModel([held, "second answer"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        await run.steer("And the second?")
        desk.go.set()
        result = await run.wait()
        assert result.output == "second answer"
        assert [str(message.content) for message in result.messages] == [
            "Go.",
            "first answer",
            "And the second?",
            "second answer",
        ]
        assert result.steps == 2


async def test_a_request_that_failed_is_sent_again_with_what_was_said_meanwhile() -> None:
    model = ScriptedModel([ModelError("busy", retryable=True), "done"])
    async with house() as place, place.open(Desk().agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await until(runtime, run.id, "retrying")
        (failed,) = await of(run, ModelFailed)
        await run.steer("Take your time.")
        await happened(runtime, run, RunHeard)
        # It does not go out any sooner for that.
        assert len(model.requests) == 1
        assert failed.retry_at is not None
        place.clock.advance((failed.retry_at - place.clock.now()) / 1e9)
        await run.wait()
        assert [asked(request) for request in model.requests] == [["Go."], ["Go.", "Take your time."]]
        first, second = await of(run, ModelRequested)
        assert (first.index, first.attempt) == (second.index, second.attempt - 1)
        assert first.digest != second.digest


async def test_case_06_text_approves_nothing_and_waits_for_the_open_approval() -> None:
    desk, model = Desk(), ScriptedModel([call("send", to="a"), "done"], by_turn=True)
    async with house() as place:
        async with place.open(desk.agent(model)) as runtime:
            run = await runtime.submit("desk", "Go.")
            (waiting,) = await pending(runtime)
            await run.steer("do something else", by="maria")
            await run.steer("approve", by="maria")
            state = await until(runtime, run.id, "awaiting_approval")
            assert [each.action for each in await runtime.approvals()] == [waiting.action]
            assert len(state.control.inbox) == 2
            await trio.testing.wait_all_tasks_blocked()
            assert runtime.active == 0
        # Also over a restart.
        async with place.open(desk.agent(model)) as runtime:
            run = runtime.run(run.id)
            await until(runtime, run.id, "awaiting_approval")
            assert await of(run, ActionStarted) == []
            await runtime.approve(waiting.action, by="maria")
            assert (await run.wait()).output == "done"
            assert asked(model.requests[-1]) == ["Go.", "sent to a", "do something else", "approve"]
            assert desk.sent == ["a"]


async def test_a_repeated_command_has_no_second_effect_even_when_the_run_is_over() -> None:
    desk, model = Desk(), ScriptedModel([call("watch"), "done"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        for _ in range(2):
            await run.steer("Be brief.", by="maria", command_id="c1")
        await place.commands.steer(run.id, "Be brief.", by=Principal("otto"), command_id="c1")
        with pytest.raises(IdempotencyConflict):
            await run.steer("Be long.", command_id="c1")
        desk.go.set()
        await run.wait()
        await run.steer("Be brief.", by="maria", command_id="c1")
        with pytest.raises(IdempotencyConflict):
            await run.steer("Be long.", command_id="c1")
        assert len(await of(run, RunSignalled)) == 1
        assert asked(model.requests[1]) == ["Go.", "watched", "Be brief."]
        # The name is the run's own: another run has its own c1.
        with pytest.raises(SteerError, match="it is over"):
            await run.steer("Be brief.", command_id="c2")


async def test_who_cannot_be_steered_says_so() -> None:
    model = ScriptedModel(["done"])
    async with house() as place, place.open(Desk().agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await run.wait()
        with pytest.raises(SteerError, match=f"run {run.id} cannot be steered: it is over") as refused:
            await run.steer("More.")
        assert refused.value.run == run.id
        with pytest.raises(UnknownRun):
            await runtime.steer("nobody", "More.")
        for bad in ([], [AI("", "I")], [ToolMessage("", "c", "watch", "t")], 3):
            with pytest.raises(InvalidValue):
                await run.steer(bad)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(InvalidValue, match="command_id"):
            await run.steer("More.", command_id="")
        assert await of(run, RunSignalled) == []


async def test_at_its_limit_a_run_hears_and_fails_and_goes_on_with_a_raised_limit() -> None:
    desk, model = Desk(), ScriptedModel([call("watch"), "done"])
    async with house() as place, place.open(desk.agent(model, Limits(max_steps=2))) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        await run.steer("Be brief.")
        desk.go.set()
        with pytest.raises(StepLimitExceeded):
            await run.wait()
        await run.raise_limit(1)
        assert (await run.wait()).output == "done"
        assert asked(model.requests[1]) == ["Go.", "watched", "Be brief."]


async def test_the_last_answer_of_a_run_at_its_limit_is_its_last_word() -> None:
    desk = Desk()

    async def held(_: ModelRequest) -> str:
        desk.began.set()
        await desk.go.wait()
        return "that is all"

    model = ScriptedModel([call("send", to="a"), held])
    async with house() as place, place.open(desk.agent(model, Limits(max_steps=1, on_limit="finish"))) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        with pytest.raises(SteerError, match="gives its last answer"):
            await run.steer("One more thing.")
        desk.go.set()
        assert (await run.wait()).output == "that is all"


async def test_a_signal_that_lands_before_the_final_commit_is_heard_and_one_after_it_is_refused() -> None:
    """The agent has the final reply in hand and loses the race for the stream: it hears first."""
    desk = Desk()

    async def held(_: ModelRequest) -> str:
        desk.began.set()
        await desk.go.wait()
        return "first"

    model = ScriptedModel([held, "second"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        (hold,) = place.stage.hold(1)
        # Appended past the runtime: the agent has not read it when the reply comes in.
        await place.commands.steer(run.id, "Wait.", by=MARIA)
        await hold.reached.wait()
        desk.go.set()
        hold.go.set()
        assert (await run.wait()).output == "second"


async def test_another_process_steers_a_run_on_disk(tmp_path: Path) -> None:
    desk, model = Desk(), ScriptedModel([call("watch"), "done"])
    async with house(tmp_path / "a.db") as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        await place.commands.steer(run.id, "From elsewhere.", by=MARIA)
        desk.go.set()
        await run.wait()
        assert asked(model.requests[1])[-1] == "From elsewhere."


@pytest.mark.parametrize("checkpoints", range(6))
async def test_case_04_words_cut_off_on_their_way_are_said_once(checkpoints: int) -> None:
    """Whoever is cancelled while they say something does not know whether it was heard: they say it again."""
    desk, model = Desk(), ScriptedModel([call("watch"), "done"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(run.steer, "Be brief.", by="maria", command_id="c1"))
            for _ in range(checkpoints):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await run.steer("Be brief.", by="maria", command_id="c1")
        desk.go.set()
        await run.wait()
        assert len(await of(run, RunSignalled)) == 1
        assert asked(model.requests[1]) == ["Go.", "watched", "Be brief."]


async def test_many_who_speak_at_once_are_all_heard_in_one_order() -> None:
    desk, model = Desk(), ScriptedModel([call("watch"), "done"])
    async with house() as place, place.open(desk.agent(model)) as runtime:
        run = await runtime.submit("desk", "Go.")
        await desk.began.wait()
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(
                    partial(place.commands.steer, run.id, f"{number % 10}", by=MARIA, command_id=f"c{number % 10}")
                )
        desk.go.set()
        await run.wait()
        signals = await of(run, RunSignalled)
        stored = [str(event.messages[0].content) for event in signals if isinstance(event.messages, tuple)]
        assert sorted(stored) == [str(number) for number in range(10)]
        assert asked(model.requests[1])[2:] == stored
