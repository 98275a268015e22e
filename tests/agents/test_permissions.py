"""Who may call what: permissions against grants, and callbacks that are asked just before a call starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from tests.agents.odd import Mute, foreign, leaks, mute
from tests.agents.office import AnyTool, World, asks, happened, of, office, pending, told, types

from trouper import (
    Agent,
    AuthorizeRequest,
    Commands,
    DefinitionError,
    Denied,
    DriftPolicy,
    Effect,
    IdempotencyConflict,
    Principal,
    RunCancelled,
    RuntimeOptions,
    SubmitOptions,
    Task,
    tool,
)
from trouper.core.events import ActionAuthorized, ActionDenied, ActionPlanned, ActionReceipted, ActionStarted
from trouper.core.tooling import inherited, missing
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._answers import Answer

BOTH = SubmitOptions(grants=("crm:write", "crm:read"))
SCRIPT: list[Answer] = [asks(("add", {"n": 1})), "Done."]


def adder(**declared: object) -> Callable[[World], list[AnyTool]]:
    return lambda world: [world.adder(**declared)]


@pytest.mark.parametrize(
    ("grants", "lacks"),
    [
        ((), "permissions crm:read, crm:write"),
        (("crm:read",), "permission crm:write"),
        (("crm:*", "crm"), "permissions"),
    ],
)
async def test_a_call_without_its_permissions_is_denied_told_and_recorded(
    tmp_path: Path, grants: tuple[str, ...], lacks: str
) -> None:
    tools = adder(permissions=("crm:read", "crm:write"))
    async with office(tmp_path, SCRIPT, tools) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "add", options=SubmitOptions(grants=grants))
        result = await run.wait()
        assert desk.world.effects == []
        (message,) = told(desk.stub.requests[-1].messages)
        assert str(message).startswith(f"Not started: this run lacks the {lacks}")
        assert str(message).endswith(", which add takes.")
        (denied,) = await of(run, ActionDenied)
        assert (denied.policy, denied.missing) == ("permissions", missing(("crm:read", "crm:write"), grants))
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.outcome, receipt.evidence, receipt.attempt) == ("error", "not_started", 0)
        assert await of(run, ActionStarted) == []
        state = await run.state()
        action = state.action("0.0")
        assert action is not None
        assert action.denial is not None
        assert action.denial.missing == denied.missing
        assert result.messages[2].status == "error"  # type: ignore[union-attr]  # a tool message


async def test_a_granted_call_runs_also_after_a_restart_and_grants_are_journaled(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), asks(("add", {"n": 2})), "Done."]
    tools = adder(permissions=("crm:write",), requires_approval=True)
    async with office(tmp_path, script, tools) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "add", options=BOTH)
            await pending(runtime)
            assert (await run.state()).tools.grants == ("crm:read", "crm:write")
        for count in (1, 2):
            async with desk.open() as runtime:
                (waiting,) = await pending(runtime)
                await runtime.approve(waiting.action, by="maria")
                await happened(runtime, runtime.run(run.id), ActionReceipted, count)
        assert desk.world.effects == ["add 1", "add 2"]


async def test_nobody_is_asked_to_approve_what_may_not_run(tmp_path: Path) -> None:
    tools = adder(permissions=("crm:write",), requires_approval=True)
    async with office(tmp_path, SCRIPT, tools) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "add")
        await run.wait()
        assert "approval.requested" not in await types(run)
        assert "action.denied" in await types(run)


async def test_grants_are_part_of_what_is_asked(tmp_path: Path) -> None:
    async with office(tmp_path, SCRIPT, adder(permissions=("crm:write",))) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "add", command_id="a", options=BOTH)
        # In another order, and twice: the same.
        same = SubmitOptions(grants=["crm:read", "crm:write", "crm:read"])
        assert (await runtime.submit("desk", "add", command_id="a", options=same)).id == run.id
        with pytest.raises(IdempotencyConflict):
            await runtime.submit("desk", "add", command_id="a")
        await run.wait()
    for bad in ("crm:write", (1,), ("",), 5):
        with pytest.raises(InvalidValue, match="grants"):
            SubmitOptions(grants=bad)


async def test_another_process_may_submit_with_grants(tmp_path: Path) -> None:
    async with office(tmp_path, SCRIPT, adder(permissions=("crm:write",))) as desk:
        async with desk.journal() as journal:
            done = await Commands(journal).submit(Task("desk", "add", options=BOTH))
        async with desk.open() as runtime:
            await runtime.run(done.run).wait()
            assert desk.world.effects == ["add 1"]


async def test_permissions_that_came_later_count_for_calls_that_have_not_started(tmp_path: Path) -> None:
    async with office(tmp_path, SCRIPT, adder(requires_approval=True)) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "add")
            await pending(runtime)
        changed = desk.agent(tools=[desk.world.adder(permissions=("crm:write",), requires_approval=True)])
        async with desk.open(changed, drift=DriftPolicy(contract="adopt")) as runtime:
            # Looked at again when somebody decides: what was decided on is not what stands there now.
            await runtime.approve(f"{run.id}/0.0", by="maria")
            await runtime.run(run.id).wait()
            assert len(await of(runtime.run(run.id), ActionDenied)) == 1
        assert desk.world.effects == []


# ---- callbacks


def deciding(verdict: object, asked: list[AuthorizeRequest]) -> Any:
    def authorize(request: AuthorizeRequest) -> object:
        asked.append(request)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict(request) if callable(verdict) else verdict

    return authorize


async def test_a_callback_is_asked_once_before_the_start_and_its_verdict_is_journaled(tmp_path: Path) -> None:
    asked: list[AuthorizeRequest] = []
    options = RuntimeOptions(drain=0.5, authorize=deciding(True, asked))
    tools = adder(permissions=("crm:write",))
    async with office(tmp_path, SCRIPT, tools) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "add", options=BOTH, by="maria")
        await run.wait()
        assert asked == [
            AuthorizeRequest(
                run=run.id,
                action=f"{run.id}/0.0",
                agent="desk",
                tool="add",
                effect=Effect.IDEMPOTENT_WRITE,
                arguments={"n": 1},
                permissions=("crm:write",),
                grants=("crm:read", "crm:write"),
                by=Principal("maria"),
                approved_by=None,
            )
        ]
        names = await types(run)
        assert names.index("action.authorized") + 1 == names.index("action.started")
        assert desk.world.effects == ["add 1"]


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Denied("not on a Sunday"), "not on a Sunday"),
        (False, ""),
        (None, "the authorize callback answered NoneType, not true"),
        (1, "the authorize callback answered int, not true"),
        (ValueError("secret detail"), "the authorize callback raised ValueError"),
        (mute, "the authorize callback raised Mute"),
        (Denied(Mute()), "the authorize callback raised RuntimeError"),  # type: ignore[arg-type]
        (foreign, "the authorize callback let BaseExceptionGroup escape, of a cancellation of its own"),
        (leaks, "the authorize callback let Cancelled escape, of a cancellation of its own"),
    ],
)
@pytest.mark.parametrize("where", ["runtime", "tool"])
async def test_a_denial_is_told_and_recorded_and_what_cannot_be_judged_is_one(
    tmp_path: Path, verdict: object, reason: str, where: str
) -> None:
    asked: list[AuthorizeRequest] = []
    callback = deciding(verdict, asked)
    tools = adder(authorize=callback) if where == "tool" else adder()
    options = RuntimeOptions(drain=0.5, authorize=callback if where == "runtime" else None)
    async with office(tmp_path, SCRIPT, tools) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "add")
        await run.wait()
        assert len(asked) == 1
        assert desk.world.effects == []
        (denied,) = await of(run, ActionDenied)
        assert (denied.policy, denied.reason) == (where, reason)
        assert told(desk.stub.requests[-1].messages) == [f"Not started: denied{f': {reason}' if reason else ''}."]


async def test_an_async_callback_sees_the_approvers_edit_and_name_and_both_must_agree(tmp_path: Path) -> None:
    asked: list[AuthorizeRequest] = []

    async def authorize(request: AuthorizeRequest) -> bool:
        await trio.lowlevel.checkpoint()
        request.arguments["n"] = 7  # type: ignore[index]  # it has a copy
        asked.append(request)
        return True

    own: list[AuthorizeRequest] = []
    tools = adder(requires_approval=True, authorize=deciding(Denied("too late"), own))
    options = RuntimeOptions(drain=0.5, authorize=authorize)
    async with office(tmp_path, SCRIPT, tools) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "add")
        (waiting,) = await pending(runtime)
        assert asked == []
        await runtime.approve(waiting.action, by="maria", arguments={"n": 5})
        await run.wait()
        assert own[0].arguments == {"n": 5}
        assert own[0].approved_by == Principal("maria")
        (denied,) = await of(run, ActionDenied)
        assert (denied.policy, denied.reason) == ("tool", "too late")


async def test_attempts_of_one_call_are_authorized_once(tmp_path: Path) -> None:
    asked: list[AuthorizeRequest] = []
    failures = [OSError("reset")]

    @tool(effect="idempotent_write", authorize=deciding(True, asked))
    def put() -> str:
        """Put."""
        if failures:
            raise failures.pop()
        return "put"

    async with office(tmp_path, [asks(("put", {})), "Done."], [put]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "put")
        await run.wait()
        assert len(await of(run, ActionStarted)) == 2
        assert len(asked) == len(await of(run, ActionAuthorized)) == 1


async def test_nobody_waits_for_a_callback_that_does_not_answer(tmp_path: Path) -> None:
    asked, stopped = trio.Event(), trio.Event()

    async def authorize(_request: AuthorizeRequest) -> NoReturn:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    options = RuntimeOptions(drain=0.5, authorize=authorize)
    async with office(tmp_path, SCRIPT[:1], adder()) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "add")
        await asked.wait()
        # What is asked of the run meanwhile is recorded and done, and the callback is let go.
        await runtime.steer(run.id, "never mind", by="maria")
        assert not stopped.is_set()
        await runtime.cancel(run.id, by="maria")
        with pytest.raises(RunCancelled):
            await run.wait()
        await stopped.wait()
        assert desk.world.effects == []
        assert await of(run, ActionAuthorized) == []


async def test_callbacks_of_one_reply_are_asked_side_by_side(tmp_path: Path) -> None:
    both, asked = trio.Event(), list[str]()

    async def authorize(request: AuthorizeRequest) -> bool:
        asked.append(request.action)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return True

    script: list[Answer] = [asks(("add", {"n": 1}), ("add", {"n": 2})), "Done."]
    options = RuntimeOptions(drain=0.5, authorize=authorize)
    async with office(tmp_path, script, adder()) as desk, desk.open(options=options) as runtime:
        run = await runtime.submit("desk", "add")
        await run.wait()
        assert sorted(asked) == [f"{run.id}/0.0", f"{run.id}/0.1"]
        assert sorted(desk.world.effects) == ["add 1", "add 2"]
        assert len(await of(run, ActionAuthorized)) == 2


async def test_a_runtime_stops_though_a_callback_does_not_answer_and_it_is_asked_again(tmp_path: Path) -> None:
    asked = trio.Event()

    async def hangs(_request: AuthorizeRequest) -> NoReturn:
        asked.set()
        await trio.sleep_forever()

    async with office(tmp_path, SCRIPT, adder()) as desk:
        async with desk.open(options=RuntimeOptions(drain=0.5, authorize=hangs)) as runtime:
            run = await runtime.submit("desk", "add")
            await asked.wait()
        async with desk.open(options=RuntimeOptions(drain=0.5, authorize=deciding(True, []))) as runtime:
            await runtime.run(run.id).wait()
        assert desk.world.effects == ["add 1"]


@pytest.mark.parametrize("raises", [False, True])
async def test_what_a_callback_says_of_being_stopped_is_no_verdict(tmp_path: Path, raises: bool) -> None:
    asked, working, go = trio.Event(), trio.Event(), trio.Event()

    @tool(effect="read_only")
    async def look() -> str:
        working.set()
        await go.wait()
        return "seen"

    async def authorize(request: AuthorizeRequest) -> bool:
        if request.tool == "look":
            return True
        asked.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            if raises:
                raise ConnectionError("gone") from None
            return False
        finally:
            # The run goes on while the runtime stops, and hears what is said.
            go.set()

    script: list[Answer] = [asks(("look", {}), ("add", {"n": 1})), "Done."]
    async with office(tmp_path, script, lambda world: [look, world.adder()]) as desk:
        async with desk.open(options=RuntimeOptions(drain=5, authorize=authorize)) as runtime:
            run = await runtime.submit("desk", "add")
            await asked.wait()
            await working.wait()
        async with desk.open(options=RuntimeOptions(drain=0.5, authorize=deciding(True, []))) as runtime:
            await runtime.run(run.id).wait()
            assert await of(runtime.run(run.id), ActionDenied) == []
        assert desk.world.effects == ["add 1"]


async def test_a_callback_that_is_gone_after_a_restart_lets_nothing_run(tmp_path: Path) -> None:
    options = RuntimeOptions(drain=0.5, authorize=deciding(True, []))
    async with office(tmp_path, SCRIPT, adder(requires_approval=True)) as desk:
        async with desk.open(options=options) as runtime:
            run = await runtime.submit("desk", "add")
            await pending(runtime)
            assert (await of(run, ActionPlanned))[0].authorize
        async with desk.open() as runtime:
            await runtime.approve(f"{run.id}/0.0", by="maria")
            await runtime.run(run.id).wait()
            (denied,) = await of(runtime.run(run.id), ActionDenied)
            assert denied.reason == "the callback that must be asked is not there any more"
        assert desk.world.effects == []


def test_declarations_that_cannot_be_meant_are_refused() -> None:
    for bad in ("crm:write", (1,), ("",), 5):
        with pytest.raises(DefinitionError, match="tool look, permissions"):
            tool(lambda: None, name="look", permissions=bad)  # type: ignore[arg-type]  # to be refused
    with pytest.raises(DefinitionError, match="tool look, authorize"):
        tool(lambda: None, name="look", authorize=True)  # type: ignore[call-overload]  # to be refused
    with pytest.raises(DefinitionError, match="runtime option authorize"):
        RuntimeOptions(authorize="yes")  # type: ignore[arg-type]  # to be refused
    assert "permissions" not in tool(lambda: None, name="look").contract()
    guarded = tool(lambda: None, name="look", permissions=("b", "a"), authorize=lambda _: True)
    assert guarded.contract()["permissions"] == ["a", "b"]
    assert guarded.contract()["authorize"] is True


def test_what_works_for_another_has_at_most_its_grants() -> None:
    assert inherited(("a", "b")) == ("a", "b")
    assert inherited(("a", "b"), ("b", "c")) == ("b",)
    assert inherited((), ("b",)) == ()


@pytest.mark.parametrize("grants", [("crm:write",), ()])
async def test_sub_agents_have_their_callers_grants(tmp_path: Path, grants: tuple[str, ...]) -> None:
    world = World(tmp_path / "effects")
    clerk = Agent(
        "clerk",
        tools=[world.adder(permissions=("crm:write",))],
        model=ScriptedModel([call("add", n=1), "Done."], by_turn=True),
    )
    top = Agent(
        "top", tools=[clerk.as_tool()], model=ScriptedModel([call("clerk", input="add"), "Done."], by_turn=True)
    )
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "add", options=SubmitOptions(grants=grants))
        await run.wait()
        child = runtime.run(f"{run.id}~0.0")
        assert (await child.state()).tools.grants == grants
        assert world.effects == (["add 1"] if grants else [])
        assert len(await of(child, ActionDenied)) == (0 if grants else 1)


async def test_a_sub_agent_may_be_given_less_and_may_itself_take_a_permission(tmp_path: Path) -> None:
    world = World(tmp_path / "effects")
    clerk = Agent(
        "clerk",
        tools=[world.adder(permissions=("crm:write",))],
        model=ScriptedModel([call("add", n=1), "Done."], by_turn=True),
    )
    reader = clerk.as_tool("reader", grants=("crm:read", "crm:other"))
    guarded = clerk.as_tool("guarded", permissions=("agents",))
    script = ScriptedModel([calls(call("reader", input="add"), call("guarded", input="add")), "Done."], by_turn=True)
    top = Agent("top", tools=[reader, guarded], model=script)
    assert reader.contract() != clerk.as_tool("reader").contract()
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "add", options=BOTH)
        await run.wait()
        # Less than the caller has, and never more.
        assert (await runtime.run(f"{run.id}~0.0").state()).tools.grants == ("crm:read",)
        assert [event.action for event in await of(run, ActionDenied)] == ["0.1"]
        assert world.effects == []
    for bad in ("crm:write", (1,), 5):
        with pytest.raises(DefinitionError, match="clerk as a tool, grants"):
            clerk.as_tool(grants=bad)  # type: ignore[arg-type]  # to be refused


async def test_turns_of_a_session_have_grants_of_their_own(tmp_path: Path) -> None:
    world = World(tmp_path / "effects")
    clerk = Agent(
        "clerk",
        tools=[world.adder(permissions=("crm:write",))],
        model=ScriptedModel([call("add", n=1), "Done.", call("add", n=2), "No."], by_turn=True),
    )
    async with office(tmp_path, done=False) as desk, desk.open(clerk) as runtime:
        session = runtime.session("clerk", "s1")
        first = await session.send("add", options=SubmitOptions(grants=("crm:write",)))
        await first.wait()
        second = await session.send("add")
        await second.wait()
        assert world.effects == ["add 1"]
        assert [len(await of(run, ActionDenied)) for run in (first, second)] == [0, 1]
