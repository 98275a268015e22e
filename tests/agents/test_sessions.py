"""Conversations over many runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from tests.agents.office import Office, Script, asks, gone, happened, of, office, pending, told, until

from trouper import (
    IdempotencyConflict,
    Limits,
    Run,
    RunCancelled,
    RunFailed,
    Runtime,
    SessionError,
    StepLimitExceeded,
    Task,
    UnknownAgent,
    UnknownSession,
)
from trouper.core.conversation import Message
from trouper.core.conversation import text as text_of
from trouper.core.events import ActionReceipted, ModelRequested, RunStarted, TurnGiven
from trouper.errors import InvalidValue
from trouper.testing import Reply, Status

IN_DOUBT = "In doubt: the runtime stopped while it ran"
GATED: tuple[Reply | str, ...] = (asks(("send_email", {"to": "a"})), "mailed", "something else", "and more")


def said(messages: tuple[Message, ...]) -> list[str]:
    return [text_of(message.content) for message in messages]


def shown(desk: Office) -> list[object]:
    """What the last request showed the model, instructions aside."""
    return [message["content"] for message in desk.stub.requests[-1].messages[1:]]


async def session_events(runtime: Runtime, session: str) -> list[str]:
    return [record.type async for record in runtime.journal.read(f"session/{session}")]


async def test_each_turn_starts_from_what_was_said_before(tmp_path: Path) -> None:
    script: Script = ["hello", asks(("add", {"n": 1})), "added", "bye"]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "cust-42")
        assert await session.history() == ()
        assert await session.runs() == []
        outputs = [(await (await session.send(text)).wait()).output for text in ("hi", "add 1", "thanks")]
        assert outputs == ["hello", "added", "bye"]
        assert shown(desk) == ["hi", "hello", "add 1", None, "added 1", "added", "thanks"]
        assert said(await session.history()) == ["hi", "hello", "add 1", "", "added 1", "added", "thanks", "bye"]
        assert await session.window() == await session.history()
        last = (await session.runs())[-1]
        assert said((await last.result()).messages) == ["thanks", "bye"]
        assert await last.history() == await session.history()
        view = await session.state()
        assert (view.agent, view.active, view.queued) == ("desk", None, ())
        assert [(turn.number, turn.status) for turn in view.turns] == [
            (1, "succeeded"), (2, "succeeded"), (3, "succeeded"),
        ]  # fmt: skip
        assert await session_events(runtime, "cust-42") == ["session.opened", *["turn.queued", "turn.ended"] * 3]


async def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, ["hello", "again"]) as desk:
        async with desk.open() as runtime:
            await (await runtime.session("desk", "s").send("hi")).wait()
        async with desk.open() as runtime:
            await (await runtime.session("desk", "s").send("it is me")).wait()
            assert shown(desk) == ["hi", "hello", "it is me"]


async def test_sessions_do_not_mix(tmp_path: Path) -> None:
    async with office(tmp_path, ["hello"]) as desk, desk.open() as runtime:
        first, second = runtime.session("desk"), runtime.session("desk")
        assert first.id != second.id
        await (await first.send("one")).wait()
        await (await second.send("two")).wait()
        assert shown(desk) == ["two"]


async def test_case_08_sends_at_once_are_turns_one_after_another(tmp_path: Path) -> None:
    script: Script = [f"answer {number}" for number in range(8)]
    async with office(tmp_path, script) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        runs: dict[str, Run] = {}

        async def send(text: str) -> None:
            runs[text] = await session.send(text)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(send, f"question {number}")
        results = {text: await run.wait() for text, run in runs.items()}
        turns = (await session.state()).turns
        assert [turn.number for turn in turns] == list(range(1, 9))
        in_order = sorted(runs, key=lambda text: [turn.run for turn in turns].index(runs[text].id))
        assert [results[text].output for text in in_order] == script
        expected = [part for text in in_order for part in (text, results[text].output)]
        assert said(await session.history()) == expected
        assert shown(desk) == expected[:-1]


async def test_case_08_two_processes_send_at_once(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two", "three"]) as desk:
        async with desk.commands() as one, desk.commands() as other, trio.open_nursery() as nursery:
            nursery.start_soon(one.send, "s", Task("desk", "from one"))
            nursery.start_soon(other.send, "s", Task("desk", "from the other"))
        async with desk.open() as runtime:
            session = runtime.session("desk", "s")
            await (await session.send("from here")).wait()
            assert [turn.status for turn in (await session.state()).turns] == ["succeeded"] * 3


async def test_a_turn_that_waits_leaves_memory(tmp_path: Path) -> None:
    async with office(tmp_path, GATED[:3], lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("mail a")
        await pending(runtime)
        second = await session.send("do something else")
        await until(runtime, second.id, "queued")
        await until(runtime, first.id, "awaiting_approval")
        await gone(runtime)
        await runtime.approve(f"{first.id}/0.0", by="maria")
        await second.wait()


async def test_case_06_a_message_waits_while_a_call_waits_for_a_person(tmp_path: Path) -> None:
    script: Script = GATED
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            session = runtime.session("desk", "s")
            first = await session.send("mail a")
            (call,) = await pending(runtime)
            second = await session.send("approve")
            assert len(desk.stub.requests) == 1
        async with desk.open() as runtime:
            session = runtime.session("desk", "s")
            third = await session.send("and more")
            # Free text approves nothing, and the list and the run agree.
            assert [each.action for each in await pending(runtime)] == [call.action]
            assert (await runtime.run(first.id).result()).status == "awaiting_approval"
            statuses = [turn.status for turn in (await session.state()).turns]
            assert statuses == ["active", "queued", "queued"]
            assert desk.world.effects == []
            await runtime.approve(call.action, by="maria")
            assert (await third.wait()).output == "and more"
            assert (await runtime.run(second.id).wait()).output == "something else"
            assert desk.world.effects == ["mail a"]
            assert said(await session.history()) == [
                "mail a", "", "sent to a", "mailed", "approve", "something else", "and more", "and more",
            ]  # fmt: skip


async def test_case_06_a_message_can_supersede_the_calls_that_wait(tmp_path: Path) -> None:
    script: Script = [asks(("send_email", {"to": "a"}), ("send_email", {"to": "b"})), "not mailed", "else done"]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("mail a and b")
        first_call, _ = await pending(runtime, 2)
        second = await session.send("do something else", by="maria", supersede=True)
        assert (await first.wait()).output == "not mailed"
        assert (await second.wait()).output == "else done"
        assert desk.world.effects == []
        assert await runtime.approvals() == []
        with pytest.raises(Exception, match="decided before: deny by maria"):
            await runtime.approve(first_call.action, by="otto")
        denied = "Not started: denied by maria: superseded by a new message."
        assert told(desk.stub.requests[-1].messages) == [denied, denied]


async def test_superseding_where_nothing_waits_only_sends(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        await (await session.send("hi", supersede=True)).wait()
        assert (await (await session.send("more", supersede=True)).wait()).output == "two"


async def test_case_05_a_cancelled_turn_stays_in_the_history(tmp_path: Path) -> None:
    script: Script = [asks(("add", {"n": 1}), ("hang", {"n": 2})), "hello again"]
    async with office(tmp_path, script, lambda world: [world.adder(), world.hanger()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("add and hang")
        await happened(runtime, first, ActionReceipted)
        await first.cancel(by="maria", reason="enough")
        with pytest.raises(RunCancelled):
            await first.wait()
        second = await session.send("hello")
        assert (await second.wait()).output == "hello again"
        answers = told(desk.stub.requests[-1].messages)
        assert answers[0] == "added 1"
        assert str(answers[1]).startswith("In doubt: the run was cancelled while it ran")
        assert [turn.status for turn in (await session.state()).turns] == ["cancelled", "succeeded"]


async def test_case_05_and_19_a_turn_at_its_limit_is_history_and_the_next_starts_at_zero(tmp_path: Path) -> None:
    script: Script = [asks(("add", {"n": 1}), ("add", {"n": 2})), asks(("add", {"n": 3})), "hello"]
    limits = Limits(max_steps=3)
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("add", limits=limits)
        with pytest.raises(StepLimitExceeded):
            await first.wait()
        second = await session.send("hello", limits=limits)
        assert (await second.wait()).steps == 1
        assert told(desk.stub.requests[-1].messages) == [
            "added 1", "added 2", "Not started: the run has reached its step limit.",
        ]  # fmt: skip
        assert [event.index for event in await of(second, ModelRequested)] == [0]
        with pytest.raises(SessionError, match="gone on"):
            await first.raise_limit(3)


async def test_case_19_the_last_turn_goes_on_with_a_higher_limit(tmp_path: Path) -> None:
    script: Script = [*[asks(("add", {"n": n})) for n in range(3)], "done", "after"]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("add", limits=Limits(max_steps=4))
        with pytest.raises(StepLimitExceeded):
            await first.wait()
        await first.raise_limit(3)
        second = await session.send("and then?")
        assert (await first.wait()).steps == 7
        assert (await second.wait()).output == "after"
        assert shown(desk)[-2:] == ["done", "and then?"]
        assert (await session_events(runtime, "s"))[3:5] == ["turn.reopened", "turn.queued"]


async def test_a_turn_cancelled_while_it_waits_is_withdrawn_at_once(tmp_path: Path) -> None:
    script: Script = [asks(("send_email", {"to": "a"})), "mailed", "third"]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("mail a")
        await pending(runtime)
        second, third = await session.send("second"), await session.send("third")
        await second.cancel(by="maria")
        with pytest.raises(RunCancelled):
            await second.wait()
        await runtime.approve(f"{first.id}/0.0", by="maria")
        assert (await third.wait()).output == "third"
        assert shown(desk)[-2:] == ["mailed", "third"]
        assert [turn.status for turn in (await session.state()).turns] == ["succeeded", "withdrawn", "succeeded"]


async def test_a_session_in_doubt_goes_on_when_the_doubt_is_settled(tmp_path: Path) -> None:
    script: Script = [asks(("add", {"n": 1}), ("hang", {"n": 2})), "hello", "still here"]
    async with office(tmp_path, script, lambda world: [world.adder(), world.hanger()]) as desk:
        async with desk.open() as runtime:
            first = await runtime.session("desk", "s").send("add and hang")
            await happened(runtime, first, ActionReceipted)
        async with desk.open() as runtime:
            session = runtime.session("desk", "s")
            second = await session.send("hello?")
            await until(runtime, first.id, "in_doubt")
            await runtime.cancel(first.id, by="maria")
            await second.wait()
            assert str(told(desk.stub.requests[-1].messages)[1]).startswith(
                "In doubt: the runtime stopped while it ran"
            )
            await runtime.resolve(f"{first.id}/0.1", "applied", by="maria", evidence="saw it")
            # What the model was told stays what it was told.
            third = await session.send("still there?")
            await third.wait()
            assert str(told(desk.stub.requests[-1].messages)[1]).startswith(
                "In doubt: the runtime stopped while it ran"
            )


async def test_a_command_is_one_turn_however_often_it_is_sent(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk:
        async with desk.open() as runtime:
            session = runtime.session("desk", "s")
            first = await session.send("hi", command_id="m1")
            await first.wait()
            again = await session.send("hi", command_id="m1")
            assert (again.id, again.repeated) == (first.id, True)
            with pytest.raises(IdempotencyConflict):
                await session.send("ho", command_id="m1")
        async with desk.open() as runtime:
            assert (await runtime.session("desk", "s").send("hi", command_id="m1")).id == first.id
            other = await runtime.session("desk", "t").send("hi", command_id="m1")
            assert other.id != first.id
            await other.wait()
            await (await runtime.session("desk", "s").send("two", command_id="m2")).wait()


async def test_another_process_sends_without_the_agent(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk:
        async with desk.commands() as commands:
            with pytest.raises(UnknownSession, match="name the agent"):
                await commands.send("s", Task("", "hi"))
            sent = await commands.send("s", Task("desk", "hi"))
            later = await commands.send("s", Task("", "more"))
        async with desk.open() as runtime:
            assert (await runtime.run(sent.run).wait()).output == "one"
            assert (await runtime.run(later.run).wait()).output == "two"


async def test_what_cannot_be_a_session_is_refused(tmp_path: Path) -> None:
    async with office(tmp_path, ["one"]) as desk, desk.open(desk.agent(), desk.agent("other")) as runtime:
        for wrong in ("", "a\nb", "x" * 201):
            with pytest.raises(InvalidValue, match="session"):
                runtime.session("desk", wrong)
        with pytest.raises(UnknownAgent):
            runtime.session("nobody")
        with pytest.raises(UnknownSession):
            await runtime.session("desk", "s").state()
        await (await runtime.session("desk", "s").send("hi")).wait()
        with pytest.raises(SessionError, match="with agent desk"):
            await runtime.session("other", "s").send("hi")


async def test_turns_start_from_one_reference_however_long_the_session(tmp_path: Path) -> None:
    async with office(tmp_path, [f"{n}" for n in range(6)]) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        for number in range(6):
            run = await session.send(f"q{number}")
            await run.wait()
        (started,) = await of(run, RunStarted)
        (given,) = await happened(runtime, run, TurnGiven)
        assert started.base is not None
        assert started.base.messages == 10
        assert len(started.base.refs) == 1
        assert given.after is not None
        assert started.base.refs[0] == given.after


async def test_behind_a_turn_that_fails_the_next_one_begins(tmp_path: Path) -> None:
    script: Script = [Status(400), "two", "three"]
    async with office(tmp_path, script, by_turn=False) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        runs = [await session.send(text) for text in ("one", "two", "three")]
        with pytest.raises(RunFailed):
            await runs[0].wait()
        assert [(await run.wait()).output for run in runs[1:]] == ["two", "three"]
        # What was asked stays, also without an answer.
        assert shown(desk) == ["one", "two", "two", "three"]
        with pytest.raises(SessionError, match="gone on"):
            await runtime.resume(runs[0].id)


async def test_the_last_turn_is_resumed_and_the_session_goes_on_behind_it(tmp_path: Path) -> None:
    script: Script = [Status(400), "one", "two"]
    async with office(tmp_path, script, by_turn=False) as desk, desk.open() as runtime:
        session = runtime.session("desk", "s")
        first = await session.send("one")
        with pytest.raises(RunFailed):
            await first.wait()
        await runtime.resume(first.id, by="maria")
        await first.wait()
        await (await session.send("two")).wait()
        assert shown(desk) == ["one", "one", "two"]
        assert [turn.status for turn in (await session.state()).turns] == ["succeeded", "succeeded"]


async def test_another_process_sends_while_this_one_drives(tmp_path: Path) -> None:
    script: Script = [asks(("send_email", {"to": "a"})), "mailed", "two", "three"]
    async with (
        office(tmp_path, script, lambda world: [world.mailer()]) as desk,
        desk.open() as runtime,
        desk.commands() as elsewhere,
    ):
        first = await elsewhere.send("s", Task("desk", "one"))
        (asked,) = await pending(runtime)
        second = await elsewhere.send("s", Task("", "two"))
        await until(runtime, second.run, "queued")
        await runtime.approve(asked.action, by="maria")
        assert (await runtime.run(second.run).wait()).output == "two"
        third = await elsewhere.send("s", Task("", "three"))
        assert (await runtime.run(third.run).wait()).output == "three"
        assert (await runtime.run(first.run).result()).status == "succeeded"
