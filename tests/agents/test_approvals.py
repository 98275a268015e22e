"""Calls that need a person: what is asked, what a decision is bound to, and what it lets run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio.testing
from tests.agents.child import child, driving
from tests.agents.office import AnyTool, World, asks, happened, of, office, pending, told, types, until

from trouper import ApprovalConflict, ApprovalError, DriftPolicy, Principal, ToolMessage, UnknownAction, tool
from trouper.core.commands import Judgement
from trouper.core.conversation import Value
from trouper.core.events import ActionReceipted, ActionStarted, ApprovalExpired, ApprovalRequested, ModelRequested
from trouper.errors import UnknownRun
from trouper.testing import ManualClock
from trouper.testing._answers import Answer

MAIL = asks(("send_email", {"to": "a"}))


async def test_a_request_shows_what_is_to_be_decided_and_the_run_leaves_memory(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        office(tmp_path, [MAIL], lambda world: [world.mailer(approval_expires=3600)], clock=clock, done=False) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Write to a.", by=Principal("maria", via="os-user:maria"))
        (asked,) = await pending(runtime)
        assert (asked.action, asked.run, asked.agent, asked.tool) == (f"{run.id}/0.0", run.id, "desk", "send_email")
        assert (asked.arguments, asked.effect, asked.requested_by) == ({"to": "a"}, "unqueryable_write", "maria")
        assert asked.expires_at == clock.now() + 3600 * 10**9
        (requested,) = await of(run, ApprovalRequested)
        assert asked.digest == requested.digest.hex()
        await until(runtime, run.id, "awaiting_approval")
        while runtime.active:
            await trio.testing.wait_all_tasks_blocked()
        assert desk.world.effects == []


@pytest.mark.parametrize("restart", [False, True])
async def test_an_approved_call_runs(tmp_path: Path, *, restart: bool) -> None:
    async with office(tmp_path, [MAIL, "Sent."], lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Write to a.")
            (asked,) = await pending(runtime)
            if not restart:
                action = await runtime.approve(asked.action, by="maria", reason="fine")
                assert action.decision is not None
                assert (action.decision.decision, action.decision.reason) == ("approve", "fine")
                assert (await run.wait()).output == "Sent."
        if restart:
            async with desk.open() as runtime:
                assert await runtime.approvals() == [asked]
                await runtime.approve(asked.action, by="maria")
                assert (await runtime.run(run.id).wait()).output == "Sent."
        assert desk.world.effects == ["mail a"]
        assert len(desk.stub.requests) == 2


async def test_a_denied_call_is_an_error_with_the_reason(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "I may not."], lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write to a.")
        (asked,) = await pending(runtime)
        await runtime.deny(asked.action, by="maria", reason="not on a Sunday")
        assert (await run.wait()).output == "I may not."
        assert desk.world.effects == []
        assert told(desk.stub.requests[1].messages) == ["Not started: denied by maria: not on a Sunday."]
        assert await of(run, ActionStarted) == []


async def test_a_predicate_on_the_arguments_decides_who_is_asked(tmp_path: Path) -> None:
    def large(arguments: Mapping[str, Value]) -> bool:
        amount = arguments["amount"]
        assert isinstance(amount, int)
        return amount > 100

    script: list[Answer] = [asks(("pay", {"amount": 100}), ("pay", {"amount": 101})), "Paid."]
    async with (
        office(tmp_path, script, lambda world: [world.keyed(requires_approval=large)]) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Pay.")
        (asked,) = await pending(runtime)
        assert asked.arguments == {"amount": 101}
        await happened(runtime, run, ActionReceipted)
        assert desk.world.effects == ["pay 100 0.0 1"]
        await runtime.approve(asked.action, by="maria")
        await run.wait()
        assert desk.world.effects == ["pay 100 0.0 1", "pay 101 0.1 1"]


async def test_a_predicate_that_fails_means_that_a_person_is_asked(tmp_path: Path) -> None:
    def broken(arguments: Mapping[str, Value]) -> bool:
        raise KeyError("amount")

    async with (
        office(tmp_path, [MAIL, "No."], lambda world: [world.mailer(requires_approval=broken)]) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "Write.")
        (asked,) = await pending(runtime)
        await runtime.deny(asked.action, by="maria")
        await run.wait()
        assert desk.world.effects == []


@pytest.mark.parametrize("restart", [False, True])
async def test_a_request_that_nobody_decides_lapses_at_its_time(tmp_path: Path, *, restart: bool) -> None:
    clock = ManualClock()
    async with office(
        tmp_path, [MAIL, "Too late."], lambda world: [world.mailer(approval_expires=60)], clock=clock
    ) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Write to a.")
            (asked,) = await pending(runtime)
            clock.advance(59)
            assert await runtime.approvals() == [asked]
            if not restart:
                clock.advance(1)
                assert (await run.wait()).output == "Too late."
        if restart:
            clock.advance(7200)
            async with desk.open() as runtime:
                assert (await runtime.run(run.id).wait()).output == "Too late."
        async with desk.open() as runtime:
            with pytest.raises(ApprovalError, match="does not wait for a decision: it is closed"):
                await runtime.approve(asked.action, by="maria")
            assert [event.reason for event in await of(runtime.run(run.id), ApprovalExpired)] == ["time"]
        assert desk.world.effects == []
        assert told(desk.stub.requests[1].messages) == [
            "Not started: the request for approval expired before anybody decided."
        ]


async def test_a_decision_after_the_time_is_late_even_where_nobody_has_noticed_yet(tmp_path: Path) -> None:
    """The daemon was down when the time ran out; a person decides in a process of its own."""
    clock = ManualClock()
    async with office(
        tmp_path, [MAIL, "Too late."], lambda world: [world.mailer(approval_expires=60)], clock=clock
    ) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Write to a.")
            (asked,) = await pending(runtime)
        clock.advance(61)
        async with desk.commands() as commands:
            assert await commands.approvals() == []
            with pytest.raises(ApprovalError, match="expired"):
                await commands.decide(asked.action, Judgement("approve", Principal("maria")))
        async with desk.open() as runtime:
            assert (await runtime.run(run.id).wait()).output == "Too late."
        assert desk.world.effects == []


# ---- what a decision is bound to


async def test_the_journaled_arguments_run_though_a_restarted_model_would_say_otherwise(tmp_path: Path) -> None:
    """Killed with the request in the journal; the server would answer ``to="b"`` now; then approved."""
    to = "a"

    def answer(request: dict[str, Value]) -> Answer:
        return "Sent." if "tool_call_id" in str(request["messages"]) else asks(("send_email", {"to": to}))

    async with office(tmp_path, answer, lambda world: [world.mailer()]) as desk:
        async with child(driving(desk, "send_email")) as process, desk.journal() as journal, journal.news() as news:
            while [head async for head in journal.streams(label="awaiting_approval")] == []:
                await news.wait()
            await process.kill()
        to = "b"
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.", command_id="job")
            assert run.repeated
            (asked,) = await pending(runtime)
            assert asked.arguments == {"to": "a"}
            await runtime.approve(asked.action, by="maria")
            assert (await run.wait()).output == "Sent."
            assert [event.index for event in await of(run, ModelRequested)] == [0, 1]
        assert desk.world.effects == ["mail a"]
        assert len(desk.stub.requests) == 2


async def test_of_two_identical_calls_one_approval_lets_one_run(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), ("send_email", {"to": "a"})), "Once."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write twice.")
        first, second = await pending(runtime, 2)
        assert first.digest == second.digest
        await runtime.approve(first.action, by="maria")
        await happened(runtime, run, ActionReceipted)
        assert await runtime.approvals() == [second]
        assert desk.world.effects == ["mail a"]
        assert len(desk.stub.requests) == 1
        await runtime.deny(second.action, by="maria", reason="once is enough")
        assert (await run.wait()).output == "Once."
        assert desk.world.effects == ["mail a"]
        assert told(desk.stub.requests[1].messages) == ["sent to a", "Not started: denied by maria: once is enough."]


async def test_the_same_call_in_the_next_turn_is_asked_for_again(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, MAIL, "Twice."], lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write twice.")
        (first,) = await pending(runtime)
        await runtime.approve(first.action, by="maria")
        await happened(runtime, run, ApprovalRequested, 2)
        (second,) = await pending(runtime)
        assert (first.action, second.action) == (f"{run.id}/0.0", f"{run.id}/1.0")
        assert desk.world.effects == ["mail a"]
        await runtime.approve(first.action, by="maria")
        assert await runtime.approvals() == [second]
        await runtime.approve(second.action, by="maria")
        assert (await run.wait()).output == "Twice."
        assert desk.world.effects == ["mail a", "mail a"]


@pytest.mark.parametrize("adopting", [False, True])
async def test_a_tool_that_changed_before_the_approval_is_checked_again_and_does_not_run(
    tmp_path: Path, *, adopting: bool
) -> None:
    def changed(world: World) -> AnyTool:
        @tool(requires_approval=True)
        async def send_email(to: list[str], subject: str) -> str:
            """Send an email."""
            world.do(f"mail {to} {subject}")
            return "sent"

        return send_email

    async with office(tmp_path, [MAIL, "It changed."], lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Write to a.")
            (asked,) = await pending(runtime)
        policy = DriftPolicy(contract="adopt" if adopting else "wait")
        async with desk.open(desk.agent(tools=[changed(desk.world)]), drift=policy) as runtime:
            run = runtime.run(run.id)
            await runtime.approve(asked.action, by="maria")
            if not adopting:
                await until(runtime, run.id, "drifted")
                assert desk.world.effects == []
                await runtime.adopt(run.id, by="maria")
            assert (await run.wait()).output == "It changed."
            assert await of(run, ActionStarted) == []
        assert desk.world.effects == []
        (answer,) = told(desk.stub.requests[1].messages)
        assert str(answer).startswith("Not started: the tool changed meanwhile.")
        assert "subject: is missing" in str(answer)


# ---- several at once


def wipers(world: World) -> list[AnyTool]:
    @tool(requires_approval=True)
    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        world.do(f"wipe {disk}")
        return f"wiped {disk}"

    @tool(effect="read_only")
    async def ping() -> str:
        """Ping."""
        world.do("ping")
        return "pong"

    return [wipe, ping]


WIPES = asks(("wipe", {"disk": "a"}), ("wipe", {"disk": "b"}), ("ping", {}))


async def test_each_decision_reaches_its_own_call(tmp_path: Path) -> None:
    async with office(tmp_path, [WIPES, "One of two."], wipers) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Wipe.")
            a, b = await pending(runtime, 2)
            assert (a.arguments, b.arguments) == ({"disk": "a"}, {"disk": "b"})
            assert a.digest != b.digest
            await runtime.approve(b.action, by="maria")
            await happened(runtime, run, ActionReceipted, 2)
            assert sorted(desk.world.effects) == ["ping", "wipe b"]
        async with desk.open() as runtime:
            assert await runtime.approvals() == [a]
            assert len(desk.stub.requests) == 1
            await runtime.deny(a.action, by="maria", reason="keep a")
            run = runtime.run(run.id)
            result = await run.wait()
            assert [message.content for message in result.messages if isinstance(message, ToolMessage)] == [
                "Not started: denied by maria: keep a.",
                "wiped b",
                "pong",
            ]
        assert sorted(desk.world.effects) == ["ping", "wipe b"]
        assert len(desk.stub.requests) == 2


async def test_a_missing_or_foreign_id_changes_nothing(tmp_path: Path) -> None:
    async with office(tmp_path, [WIPES], wipers, done=False) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Wipe.")
        other = await runtime.submit("desk", "Wipe.")
        asked = await pending(runtime, 4)
        await until(runtime, run.id, "awaiting_approval")
        before = await types(run)
        for wrong in ("", run.id, f"{run.id}/", "0.0", f"{run.id}/0", f"{run.id}/0.0.0"):
            with pytest.raises((UnknownAction, UnknownRun)):
                await runtime.approve(wrong, by="maria")
        with pytest.raises(UnknownRun):
            await runtime.approve("01ARZ3NDEKTSV4RRFFQ69G5FAV/0.0", by="maria")
        for wrong in ("0.3", "1.0", "7.7"):
            with pytest.raises(UnknownAction, match=f"no action {wrong}"):
                await runtime.approve(f"{run.id}/{wrong}", by="maria")
        # A free call waits for nobody.
        with pytest.raises(ApprovalError, match="does not wait for a decision"):
            await runtime.approve(f"{run.id}/0.2", by="maria")
        assert await types(run) == before
        assert await runtime.approvals() == asked
        await runtime.approve(f"{other.id}/0.0", by="maria")
        await until(runtime, other.id, "awaiting_approval")
        assert [each.action for each in await runtime.approvals()] == [
            f"{run.id}/0.0",
            f"{run.id}/0.1",
            f"{other.id}/0.1",
        ]


async def test_all_are_approved_and_then_the_model_is_asked_once(tmp_path: Path) -> None:
    async with office(tmp_path, [WIPES, "Both."], wipers) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Wipe.")
        for asked in reversed(await pending(runtime, 2)):
            await runtime.approve(asked.action, by="maria")
        assert (await run.wait()).output == "Both."
        assert told(desk.stub.requests[1].messages) == ["wiped a", "wiped b", "pong"]
        assert sorted(desk.world.effects) == ["ping", "wipe a", "wipe b"]
        assert len(desk.stub.requests) == 2
        with pytest.raises(ApprovalConflict):
            await runtime.deny(f"{run.id}/0.0", by="peter")
