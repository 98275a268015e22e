"""Hooks that fail, take too long, ask for what cannot be done, or are not wanted any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
from tests.agents.hooking import After, AfterTool, Before, BeforeTool, Does, OnError, contents
from tests.agents.odd import Sealed, foreign, mute
from tests.agents.office import asks, of, office, pending, until

from trouper import AI, Agent, Human, tool
from trouper.core.events import HookApplied
from trouper.errors import ApprovalError, DefinitionError, ModelError, RunFailed
from trouper.hooks import (
    Answer,
    Call,
    CallResult,
    Drop,
    Fail,
    Hook,
    Insert,
    Replace,
    Spend,
    Update,
    UseModel,
    View,
)
from trouper.hooks._hook import Asked
from trouper.testing import ScriptedModel, call
from trouper.testing._answers import Answer as Answered


async def test_a_hook_that_raises_fails_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    broken = True

    def maybe(*_: object) -> Asked:
        if broken:
            raise RuntimeError("not today")
        return None

    kinds: list[Callable[[Does], Hook]] = [Before, After, BeforeTool, AfterTool]
    for number, kind in enumerate(kinds):
        folder = tmp_path / str(number)
        folder.mkdir()
        broken = True
        async with (
            office(folder, [asks(("add", {"n": 1}), ("add", {"n": 2})), "done"], lambda w: [w.adder()]) as desk,
            desk.open(attrs.evolve(desk.agent(), hooks=[kind(maybe)])) as runtime,
        ):
            run = await runtime.submit("desk", "go")
            with pytest.raises(RunFailed, match=r"it raised RuntimeError: not today"):
                await run.wait()
            broken = False
            await runtime.resume(run.id)
            result = await run.wait()
            assert result.output == "done"
            assert sorted(desk.world.effects) == ["add 1", "add 2"]


async def test_a_hook_about_errors_that_raises_counts_as_having_said_nothing(tmp_path: Path) -> None:
    def fail(*_: object) -> Asked:
        raise RuntimeError("hm")

    model = ScriptedModel([ModelError("busy", retryable=True, retry_after=0), "done"])
    async with office(tmp_path, []) as desk:
        agent = attrs.evolve(desk.agent(), model=model, hooks=[OnError(fail)])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            assert (await run.wait()).output == "done"
            (applied,) = await of(run, HookApplied)
            assert not applied.failed
            assert "hm" in str(applied.done)


async def test_a_hook_has_bounded_time(tmp_path: Path) -> None:
    class Slow(Hook):
        timeout = 0.05

        async def before_model(self, view: View) -> None:
            await trio.sleep_forever()

    async with office(tmp_path, []) as desk, desk.open(attrs.evolve(desk.agent(), hooks=[Slow()])) as runtime:
        run = await runtime.submit("desk", "go")
        with pytest.raises(RunFailed, match=r"hook Slow, before_model 0: it took longer than 0.05 s"):
            await run.wait()


async def test_a_hook_fails_the_run_with_its_reason(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("add", {"n": 1}))], lambda world: [world.adder()]) as desk:
        hook = BeforeTool(lambda view, call: Fail("that is not for you"))
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
            run = await runtime.submit("desk", "go")
            with pytest.raises(RunFailed, match="that is not for you"):
                await run.wait()
            assert desk.world.effects == []


@pytest.mark.parametrize(
    ("does", "complaint"),
    [
        (lambda view: Drop(["nowhere"]), "no message 'nowhere' is shown"),
        (lambda view: Replace(Human("nowhere", "x")), "no message 'nowhere' is shown"),
        (lambda view: Replace(AI(view.messages[0].id, "x")), "must stay of its kind"),
        (lambda view: Insert(Human(view.messages[0].id, "x")), "already"),
        (lambda view: Insert(Human("", "x"), after="nowhere"), "nothing can stand behind it"),
        (lambda view: Insert(call("add", n=1)) if view.index == 0 else Insert(Human("", "x")), "no answer"),
        (lambda view: UseModel("nobody"), "no model called 'nobody'"),
        (lambda view: Answer("x"), "no meaning in before_model"),
        (lambda view: "text", "no meaning in before_model"),
        (lambda view: Update({"nowhere": 1}), "there is no such state key"),
        (lambda view: Insert("text"), "is not a message"),  # type: ignore[arg-type]
        (lambda view: Drop([["a"]]), "cannot be meant: TypeError"),  # type: ignore[list-item]
        (lambda view: Insert(Human("", "x"), after=["a"]), "cannot be meant: TypeError"),  # type: ignore[arg-type]
        (lambda view: UseModel("", 5), "UseModel: int is not text"),  # type: ignore[arg-type]
        (lambda view: Fail(None), "Fail: NoneType is not text"),  # type: ignore[arg-type]
        (lambda view: Spend("m", -5, 0), "-5 is not a whole number of at least 0"),
        (lambda view: Spend("m", 5, "0"), "'0' is not a whole number of at least 0"),  # type: ignore[arg-type]
        (lambda view: Sealed(), "cannot be meant: RuntimeError: sealed"),
        (mute, "it raised Mute: .its message cannot be shown"),
        (foreign, "it let BaseExceptionGroup escape"),
    ],
)
async def test_what_cannot_be_done_fails_the_run_and_changes_nothing(
    tmp_path: Path, does: Does, complaint: str
) -> None:
    def guarded(view: View) -> Asked:
        asked = does(view)
        if isinstance(asked, Insert) and isinstance(asked.message, AI):
            return [asked, Insert(Human("", "behind it"))]
        return asked

    async with office(tmp_path, []) as desk, desk.open(attrs.evolve(desk.agent(), hooks=[Before(guarded)])) as runtime:
        run = await runtime.submit("desk", "go")
        with pytest.raises(RunFailed, match=complaint):
            await run.wait()
        assert (await run.state()).hooks.ops == ()


async def test_a_call_is_never_parted_from_its_answer(tmp_path: Path) -> None:
    def part(view: View) -> Asked:
        return None if view.index == 0 else Drop([view.messages[1].id])

    async with (
        office(tmp_path, [asks(("add", {"n": 1}))], lambda world: [world.adder()]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[Before(part)])) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        with pytest.raises(RunFailed, match="answers no call that is open"):
            await run.wait()


async def test_cancelling_does_not_wait_for_a_hook(tmp_path: Path) -> None:
    begun = trio.Event()

    class Endless(Hook):
        async def before_model(self, view: View) -> None:
            begun.set()
            await trio.sleep_forever()

    async with office(tmp_path, []) as desk, desk.open(attrs.evolve(desk.agent(), hooks=[Endless()])) as runtime:
        run = await runtime.submit("desk", "go")
        await begun.wait()
        await run.cancel(by="maria")
        assert (await runtime.wait_ended(run.id)).phase == "cancelled"


async def test_a_shutdown_does_not_wait_for_a_hook_and_it_is_called_anew(tmp_path: Path) -> None:
    begun = trio.Event()
    calls: list[str] = []

    class Endless(Hook):
        async def before_model(self, view: View) -> None:
            calls.append(view.run)
            begun.set()
            if len(calls) == 1:
                await trio.sleep_forever()

    async with office(tmp_path, ["done"]) as desk:
        agent = attrs.evolve(desk.agent(), hooks=[Endless()])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            await begun.wait()
        async with desk.open(agent) as runtime:
            assert (await runtime.run(run.id).wait()).output == "done"
        assert len(calls) == 2


async def test_what_a_hook_says_of_being_stopped_is_no_failure(tmp_path: Path) -> None:
    asked, go = trio.Event(), trio.Event()

    @tool(effect="read_only")
    async def look() -> str:
        await go.wait()
        return "seen"

    class Breaks(Hook):
        async def after_tool(self, view: View, call: Call, result: CallResult) -> None:
            if asked.is_set():
                return
            asked.set()
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                raise ConnectionError("gone") from None
            finally:
                # The run goes on while the runtime stops, and hears what is said.
                go.set()

    script: list[Answered] = [asks(("look", {}), ("add", {"n": 1})), "done"]
    async with office(tmp_path, script, lambda world: [look, world.adder()]) as desk:
        agent = attrs.evolve(desk.agent(), hooks=[Breaks()])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            await asked.wait()
        async with desk.open(agent) as runtime:
            assert (await runtime.run(run.id).wait()).output == "done"


async def test_hooks_that_change_while_a_run_waits_are_drift_and_nobody_is_left_to_wait_for(tmp_path: Path) -> None:
    """A call waits for hooks that the adopted definition no longer has."""

    def raising(view: View, call: Call, result: CallResult) -> Asked:
        raise RuntimeError("no")

    async with office(tmp_path, [asks(("add", {"n": 1})), "done"], lambda world: [world.adder()]) as desk:
        async with desk.open(attrs.evolve(desk.agent(), hooks=[AfterTool(raising)])) as runtime:
            run = await runtime.submit("desk", "go")
            with pytest.raises(RunFailed):
                await run.wait()
        async with desk.open() as runtime:
            await runtime.resume(run.id)
            await runtime.adopt(run.id, by="maria")
            assert (await runtime.run(run.id).wait()).output == "done"
        assert desk.world.effects == ["add 1"]


async def test_hooks_are_part_of_the_definition(tmp_path: Path) -> None:
    class Named(Hook):
        async def before_model(self, view: View) -> None:
            return None

    model = ScriptedModel([])
    agent = Agent("a", model=model, hooks=[Named()])
    assert "Named" in str(agent.definition.contract["hooks"])
    assert agent.terms.hooks == ("before_model",)


@pytest.mark.parametrize(
    "given",
    [
        {"hooks": [object()]},
        {"hooks": [Hook()]},
        {"hooks": Before(lambda view: None)},
        {"models": {"a": object()}},
        {"models": {"": ScriptedModel([])}},
        {"models": []},
    ],
)
def test_what_is_no_hook_or_no_model_is_refused_at_once(given: dict[str, object]) -> None:
    with pytest.raises(DefinitionError, match=r"hooks|models"):
        Agent("a", model=ScriptedModel([]), **given)  # type: ignore[arg-type]


async def test_what_is_said_while_hooks_work_is_seen_by_them_too(tmp_path: Path) -> None:
    begun, go_on = trio.Event(), trio.Event()
    seen: list[int] = []

    class Masking(Hook):
        async def before_model(self, view: View) -> Asked:
            seen.append(len(view.messages))
            begun.set()
            await go_on.wait()
            last = view.messages[-1]
            return Replace(Human(last.id, "***")) if last.content == "secret" else None

    async with (
        office(tmp_path, ["done"]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[Masking()])) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        await begun.wait()
        await run.steer("secret", by="maria")
        go_on.set()
        assert (await run.wait()).output == "done"
        assert seen == [1, 2]
        assert contents(desk.stub.requests[0].messages)[-1] == "***"
        assert len(await of(run, HookApplied)) == 1


async def test_a_paused_run_calls_no_hooks(tmp_path: Path) -> None:
    begun = trio.Event()
    calls: list[int] = []

    class Slow(Hook):
        async def before_model(self, view: View) -> Asked:
            calls.append(view.index)
            begun.set()
            if len(calls) == 1:
                await trio.sleep_forever()
            return None

    async with (
        office(tmp_path, ["done"]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[Slow()])) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        await begun.wait()
        await run.pause(by="maria")
        await until(runtime, run.id, "paused")
        assert calls == [0]
        await runtime.resume(run.id)
        assert (await run.wait()).output == "done"
        assert calls == [0, 0]


async def test_a_call_that_waits_for_a_person_waits_on_when_a_hook_has_failed_the_run(tmp_path: Path) -> None:
    broken = True

    def maybe(view: View, call: Call, result: CallResult) -> Asked:
        return Fail("not now") if broken else None

    script: list[Answered] = [asks(("send_email", {"to": "a"}), ("add", {"n": 1})), "done"]
    async with (
        office(tmp_path, script, lambda world: [world.adder(), world.mailer()]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[AfterTool(maybe)])) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        with pytest.raises(RunFailed, match="not now"):
            await run.wait()
        assert await runtime.approvals() == []
        with pytest.raises(ApprovalError, match="when its run is resumed"):
            await runtime.approve(f"{run.id}/0.0", by="maria")
        broken = False
        await runtime.resume(run.id)
        (asked,) = await pending(runtime)
        await runtime.approve(asked.action, by="maria")
        assert (await run.wait()).output == "done"
        assert sorted(desk.world.effects) == ["add 1", "mail a"]
