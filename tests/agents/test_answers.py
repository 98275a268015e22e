"""However a run ended, its history can be handed on: every call has its one answer, which says what is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from tests.agents.child import child, driving
from tests.agents.office import AnyTool, Office, asks, office, told, until

from trouper import AI, Human, Limits, RunCancelled, Runtime, StepLimitExceeded, System, ToolCall, ToolMessage, tool
from trouper.core.conversation import Message
from trouper.runtime.results import RunResult
from trouper.testing._answers import Answer

started = trio.Event()


@tool(effect="idempotent_write")
async def quick(n: int) -> str:
    """Do at once."""
    return f"quick {n}"


def slow(effect: str) -> AnyTool:
    async def slow(n: int) -> str:
        """Take for ever."""
        started.set()
        await trio.sleep_forever()
        raise AssertionError

    return tool(effect=effect)(slow)  # type: ignore[call-overload,no-any-return]  # one of the classes


async def hand_on(runtime: Runtime, desk: Office, messages: Sequence[Message]) -> list[object]:
    """Go on with a history; what the server is told as answers."""
    result = await (await runtime.submit("desk", [*messages, Human("", "hello")])).wait()
    assert result.output == "Hello."
    return told(desk.stub.requests[-1].messages)


BOTH = asks(("quick", {"n": 1}), ("slow", {"n": 2}))


@pytest.mark.parametrize(
    ("effect", "says"),
    [
        ("read_only", "Failed: the run was cancelled while it ran"),
        ("idempotent_write", "In doubt: the run was cancelled while it ran"),
        ("unqueryable_write", "In doubt: the run was cancelled while it ran"),
    ],
)
async def test_after_a_cancel_the_done_call_keeps_its_result_and_the_other_says_what_is_known(
    tmp_path: Path, effect: str, says: str
) -> None:
    global started  # noqa: PLW0603 -- an event belongs to one event loop
    started = trio.Event()
    async with office(tmp_path, [BOTH, "Hello."], [quick, slow(effect)]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await started.wait()
            await run.cancel(by="maria", reason="too slow")
            with pytest.raises(RunCancelled, match="cancelled by maria: too slow"):
                await run.wait()
            messages = (await run.result()).messages
            first, second = [message for message in messages if isinstance(message, ToolMessage)]
            assert (first.content, first.status) == ("quick 1", "ok")
            assert second.status == "error"
            assert isinstance(second.content, str)
            assert second.content.startswith(says)
            assert await hand_on(runtime, desk, messages) == [first.content, second.content]
        async with desk.open() as runtime:
            assert (await runtime.run(run.id).result()).messages == messages


async def test_after_a_restart_and_a_cancel_the_lost_call_says_that_it_is_in_doubt(tmp_path: Path) -> None:
    global started  # noqa: PLW0603 -- an event belongs to one event loop
    started = trio.Event()
    async with office(tmp_path, [BOTH, "Hello."], [quick, slow("unqueryable_write")]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            await started.wait()
        async with desk.open() as runtime:
            state = await until(runtime, run.id, "in_doubt")
            assert [action.action for action in state.in_doubt] == ["0.1"]
            await runtime.cancel(run.id, by="maria")
            with pytest.raises(RunCancelled):
                await runtime.run(run.id).wait()
            result = await runtime.run(run.id).result()
            assert result.status == "cancelled-in-doubt"
            said = await hand_on(runtime, desk, result.messages)
            assert said[0] == "quick 1"
            assert str(said[1]).startswith("In doubt: the runtime stopped while it ran")


async def test_after_a_kill_in_the_second_call_the_history_can_be_handed_on(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1}), ("hang", {"n": 2})), "Hello."]
    async with office(tmp_path, script, lambda world: [world.adder(), world.hanger()]) as desk:
        async with child(driving(desk, "add", "hang")) as process, desk.journal() as journal, journal.news() as news:
            await process.ready()
            done: set[str] = set()
            while "action.receipted" not in done:
                await news.wait()
                done = {record.type async for record in journal.read_all()}
            await process.kill()
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.", command_id="job")
            assert run.repeated
            (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
            assert doubt.action == "0.1"
            await run.cancel(by="maria")
            with pytest.raises(RunCancelled):
                await run.wait()
            messages = (await run.result()).messages
            first, second = await hand_on(runtime, desk, messages)
            assert first == "added 1"
            assert str(second).startswith("In doubt: the process was lost while it ran")
        async with desk.open() as runtime:
            assert (await runtime.run(run.id).result()).messages == messages
        # Killed before or after its effect: from the journal both look alike.
        assert desk.world.effects.count("add 1") == 1
        assert desk.world.effects.count("hang 2") <= 1


async def test_after_a_limit_the_history_can_be_handed_on(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("quick", {"n": 1})), asks(("quick", {"n": 2}), ("quick", {"n": 3})), "Hello."]
    async with office(tmp_path, script, [quick]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.", limits=Limits(max_steps=3))
        with pytest.raises(StepLimitExceeded) as caught:
            await run.wait()
        assert isinstance(caught.value.result, RunResult)
        limit = "Not started: the run has reached its step limit."
        assert await hand_on(runtime, desk, caught.value.result.messages) == ["quick 1", limit, limit]


BROKEN: dict[str, list[Message]] = {
    "an answer without its call": [Human("1", "Go."), ToolMessage("2", "lost", "quick", "quick 1")],
    "a call without its answer": [Human("1", "Go."), AI("2", None, (ToolCall("c1", "quick", '{"n": 1}'),))],
    "answers before their reply": [
        ToolMessage("1", "c1", "quick", "quick 1"),
        AI("2", None, (ToolCall("c1", "quick", '{"n": 1}'),)),
    ],
    "two answers to one call": [
        AI("1", None, (ToolCall("c1", "quick", '{"n": 1}'),)),
        ToolMessage("2", "c1", "quick", "quick 1"),
        ToolMessage("3", "c1", "quick", "quick 2"),
    ],
    "a call answered later": [
        AI("1", None, (ToolCall("c1", "quick", '{"n": 1}'), ToolCall("c2", "quick", "half"))),
        ToolMessage("2", "c2", "quick", "quick 2"),
        Human("3", "Well?"),
        ToolMessage("4", "c1", "quick", "quick 1"),
    ],
    "one id for two calls": [
        AI("1", None, (ToolCall("c1", "quick", "{}"), ToolCall("c1", "quick", "{}"))),
        ToolMessage("2", "c1", "quick", "quick 1"),
        System("3", "Go on."),
    ],
}


@pytest.mark.parametrize("history", BROKEN.values(), ids=BROKEN)
async def test_a_broken_history_is_mended_on_the_wire_and_kept_in_the_journal(
    tmp_path: Path, history: list[Message]
) -> None:
    async with office(tmp_path, ["Hello."], [quick], by_turn=False) as desk, desk.open() as runtime:
        given = [*history, Human("last", "hello")]
        result = await (await runtime.submit("desk", given)).wait()
        assert result.output == "Hello."
        assert list(result.messages[:-1]) == given
