"""Hooks: what they are shown, what they may change, and that each is called once."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.hooking import After, AfterTool, Before, BeforeTool, OnError, contents
from tests.agents.office import asks, of, office, pending, told, types

from trouper import AI, Human, Limits, StateKey
from trouper.core.events import ActionPlanned, ActionReceipted, HookApplied, ModelRequested, StateChanged
from trouper.core.replay import check
from trouper.errors import ModelError, RunFailed
from trouper.hooks import (
    Answer,
    Call,
    CallResult,
    Drop,
    Insert,
    ModelFailure,
    Replace,
    Reply,
    SetArguments,
    Update,
    UseModel,
    View,
)
from trouper.hooks._hook import Asked
from trouper.testing import ScriptedModel, call
from trouper.testing._answers import Answer as Answered


async def test_hooks_before_the_model_change_what_it_is_shown_and_nothing_else(tmp_path: Path) -> None:
    def first(view: View) -> Asked:
        if view.index == 0:
            return [Insert(Human("", "before all"), after=""), Replace(Human(view.messages[0].id, "asked mildly"))]
        return Drop([view.messages[0].id])

    def second(view: View) -> Asked:
        return Insert(Human("", f"seen {len(view.messages)}")) if view.index == 0 else None

    async with office(tmp_path, [asks(("add", {"n": 1})), "done"], lambda world: [world.adder()]) as desk:
        hooks = [Before(first), Before(second)]
        async with desk.open(attrs.evolve(desk.agent(), hooks=hooks)) as runtime:
            run = await runtime.submit("desk", "ask rudely")
            result = await run.wait()
            # The record is what it would be without hooks.
            assert [message.role for message in result.messages] == ["human", "ai", "tool", "ai"]
            assert result.messages[0].content == "ask rudely"
            assert [len(hook.seen) for hook in hooks] == [2, 2]
            applied = await of(run, HookApplied)
            assert [(event.point, event.subject) for event in applied] == [("before_model", "0"), ("before_model", "1")]
        shown, again = (request.messages for request in desk.stub.requests)
        assert contents(shown) == ["Do what is asked.", "before all", "asked mildly", "seen 2"]
        assert contents(again)[:3] == ["Do what is asked.", "asked mildly", "seen 2"]
        assert told(again) == ["added 1"]


async def test_the_request_digest_covers_what_the_model_saw(tmp_path: Path) -> None:
    digests: set[bytes] = set()
    for text in ("a", "b", "a"):
        folder = tmp_path / f"{len(digests)}{text}"
        folder.mkdir(exist_ok=True)
        async with office(folder, ["done"]) as desk:
            hook = Before(lambda view, text=text: Insert(Human("x", text)))
            async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
                run = await runtime.submit("desk", "go")
                await run.wait()
                (requested,) = await of(run, ModelRequested)
                state = await run.state()
                assert requested.digest != b""
                assert len(state.hooks.ops) == 1
                digests.add(requested.digest)
    # Salts differ from run to run, so that the same text gives another digest too; each covers its own.
    assert len(digests) == 3


async def test_an_agent_without_hooks_has_not_one_event_more(tmp_path: Path) -> None:
    async with office(tmp_path, ["done"]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await run.wait()
        assert await types(run) == [
            "run.submitted",
            "run.started",
            "model.requested",
            "model.responded",
            "run.succeeded",
        ]
        assert "hooks" not in desk.agent().definition.contract


async def test_a_hook_answers_for_the_model_and_picks_another(tmp_path: Path) -> None:
    def pick(view: View) -> Asked:
        return UseModel("cheap", "it is easy") if view.index == 0 else Reply(AI("", "that will do"))

    async with office(tmp_path, [], lambda world: [world.adder()]) as desk:
        with ScriptedModel([call("add", n=4)], name="cheap") as cheap:
            agent = attrs.evolve(desk.agent(), hooks=[Before(pick)], models={"cheap": cheap})
            async with desk.open(agent) as runtime:
                run = await runtime.submit("desk", "go")
                result = await run.wait()
                assert result.output == "that will do"
                assert result.finish_reason == "hook"
                assert desk.world.effects == ["add 4"]
                (requested,) = await of(run, ModelRequested)
                assert requested.model == "cheap"
                assert result.steps == 3
                assert result.spent.model_calls == 1


async def test_a_model_that_a_hook_answers_for_comes_to_the_limit_too(tmp_path: Path) -> None:
    for number, on_limit in enumerate(("raise", "finish")):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with office(folder, [], lambda world: [world.adder()]) as desk:
            hook = Before(lambda view: Reply(call("add", n=view.index)))
            agent = attrs.evolve(desk.agent(limits=Limits(5, on_limit)), hooks=[hook])  # type: ignore[arg-type]  # one of two
            async with desk.open(agent) as runtime:
                run = await runtime.submit("desk", "go")
                with trio.fail_after(20):
                    await runtime.wait_ended(run.id)
                assert len(desk.world.effects) == 2


async def test_hooks_behind_the_model_change_the_output(tmp_path: Path) -> None:
    def mask(view: View, reply: AI) -> Asked:
        assert view.messages[-1] == reply
        return Replace(attrs.evolve(reply, content="[masked]"))

    async with (
        office(tmp_path, ["the secret"]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[After(mask)])) as runtime,
    ):
        result = await (await runtime.submit("desk", "go")).wait()
        assert result.output == "[masked]"


async def test_changed_arguments_are_checked_approved_and_digested_as_the_models_would_be(tmp_path: Path) -> None:
    def cap(view: View, call: Call) -> Asked:
        assert call.arguments is not None
        return SetArguments({"to": "maria@example.org"}) if call.tool == "send_email" else None

    async with office(
        tmp_path, [asks(("send_email", {"to": "eve@example.org"})), "done"], lambda w: [w.mailer()]
    ) as desk:
        hooks = [BeforeTool(cap), BeforeTool(lambda view, call: None)]
        async with desk.open(attrs.evolve(desk.agent(), hooks=hooks)) as runtime:
            run = await runtime.submit("desk", "go")
            (asked,) = await pending(runtime)
            assert asked.arguments == {"to": "maria@example.org"}
            await runtime.approve(asked.action, by="maria", digest=asked.digest)
            await run.wait()
            assert desk.world.effects == ["mail maria@example.org"]
            (planned,) = await of(run, ActionPlanned)
            assert planned.asked == {"to": "eve@example.org"}
            # The second hook saw what the first had made of the call.
            assert hooks[1].seen[0].arguments == {"to": "maria@example.org"}
        (answer,) = told(desk.stub.requests[-1].messages)
        assert 'what ran: {"to":"maria@example.org"}' in str(answer)


async def test_arguments_that_do_not_fit_are_refused_as_the_models_would_be(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("add", {"n": 1})), "done"], lambda world: [world.adder()]) as desk:
        hook = BeforeTool(lambda view, call: SetArguments({"n": "many"}))
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
            run = await runtime.submit("desk", "go")
            await run.wait()
            assert desk.world.effects == []
            (receipt,) = await of(run, ActionReceipted)
            assert "n: Input should be a valid integer" in str(receipt.text)


async def test_a_hook_answers_calls_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    script: list[Answered] = [asks(*(("add", {"n": n}) for n in range(4))), "done"]

    def two(view: View, call: Call) -> Asked:
        return Answer("enough", ok=False) if view.passed.get("add", 0) >= 2 else None

    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        hook = BeforeTool(two)
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
            run = await runtime.submit("desk", "go")
            await run.wait()
            assert sorted(desk.world.effects) == ["add 0", "add 1"]
            assert [call.action for call in hook.seen] == ["0.0", "0.1", "0.2", "0.3"]
            receipts = {each.action: (each.outcome, each.evidence) for each in await of(run, ActionReceipted)}
            assert receipts["0.2"] == receipts["0.3"] == ("error", "hook")
        assert told(desk.stub.requests[-1].messages) == ["added 0", "added 1", "enough", "enough"]


async def test_hooks_see_results_before_the_model_does(tmp_path: Path) -> None:
    def mask(view: View, call: Call, result: CallResult) -> Asked:
        return Answer(result.text.replace("added", "***"), ok=result.ok)

    async with office(tmp_path, [asks(("add", {"n": 1}), ("add", {"n": 2})), "done"], lambda w: [w.adder()]) as desk:
        first, second = AfterTool(mask), AfterTool(lambda view, call, result: None)
        async with desk.open(attrs.evolve(desk.agent(), hooks=[first, second])) as runtime:
            run = await runtime.submit("desk", "go")
            await run.wait()
            # What the tool said stands in the record.
            assert sorted(str(receipt.text) for receipt in await of(run, ActionReceipted)) == ["added 1", "added 2"]
            assert {result.text for result in second.seen} == {"*** 1", "*** 2"}
        assert told(desk.stub.requests[-1].messages) == ["*** 1", "*** 2"]


async def test_hooks_write_to_the_named_state(tmp_path: Path) -> None:
    keys = {"seen": StateKey(list[int], "append")}

    async with office(tmp_path, [asks(("add", {"n": 1})), "done"], lambda world: [world.adder()]) as desk:
        hooks = [
            Before(lambda view: Update({"seen": view.index})),
            Before(lambda view: Update({"seen": 10 + len(view.state["seen"])})),
        ]
        async with desk.open(attrs.evolve(desk.agent(), hooks=hooks, state=keys)) as runtime:
            run = await runtime.submit("desk", "go")
            result = await run.wait()
            assert result.state["seen"] == [0, 10, 1, 12]
            assert {change.source for change in await of(run, StateChanged)} == {"hook"}


async def test_an_error_can_be_answered_with_another_model(tmp_path: Path) -> None:
    broken = ScriptedModel([ModelError("down", status=503)], name="broken")
    second = ScriptedModel([ModelError("also down")], name="second")

    def other(view: View, error: ModelFailure) -> Asked:
        return UseModel("second" if error.model == "" else "third", error.message)

    async with office(tmp_path, ["done"]) as desk:
        hook = OnError(other)
        agent = attrs.evolve(desk.agent(), model=broken, hooks=[hook], models={"second": second, "third": desk.model()})
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            result = await run.wait()
            assert result.output == "done"
            assert [event.model for event in await of(run, ModelRequested)] == ["", "second", "third"]
            assert [(error.status, error.final, error.attempt) for error in hook.seen] == [
                (503, True, 1),
                (None, True, 2),
            ]


async def test_a_model_that_failed_is_not_asked_again_because_a_hook_says_so(tmp_path: Path) -> None:
    broken = ScriptedModel([ModelError("down")] * 3, name="broken")
    async with office(tmp_path, []) as desk:
        hook = OnError(lambda view, error: UseModel("same"))
        agent = attrs.evolve(desk.agent(), model=broken, hooks=[hook], models={"same": broken})
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            with pytest.raises(RunFailed, match="down"):
                await run.wait()
            assert len(broken.requests) == 2


async def test_nobody_is_called_again_when_a_run_is_read_or_replayed(tmp_path: Path) -> None:
    def once(view: View) -> Asked:
        return Insert(Human("", f"word {view.index}"))

    before, call_hook, result_hook = (
        Before(once),
        BeforeTool(lambda _, call: SetArguments({"n": 7})),
        AfterTool(lambda *_: Answer("seven")),
    )
    async with office(tmp_path, [asks(("add", {"n": 1})), "done"], lambda world: [world.adder()]) as desk:
        agent = attrs.evolve(desk.agent(), hooks=[before, call_hook, result_hook])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            result = await run.wait()
            called = [len(before.seen), len(call_hook.seen), len(result_hook.seen)]
            events = [event for _, event in await run.events()]
        async with desk.open(agent) as runtime:
            assert await runtime.run(run.id).wait() == result
            assert await runtime.run(run.id).history() == await runtime.run(run.id).history()
            state, difference = check(run.id, events)
            assert difference is None
            assert state == await runtime.run(run.id).state()
        assert [len(before.seen), len(call_hook.seen), len(result_hook.seen)] == called == [2, 1, 1]
        # The same without the hooks: what they did is on record.
        async with desk.open(desk.agent()) as runtime:
            assert (await runtime.run(run.id).result()).messages == result.messages
        assert desk.world.effects == ["add 7"]
