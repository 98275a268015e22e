"""An approver changes the arguments: what runs, what the history says, and what the model is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from tests.agents.office import AnyTool, World, asks, of, office, pending, told, types, until

from trouper import AI, ApprovalConflict, Principal, ToolMessage, tool
from trouper.core.commands import Judgement
from trouper.core.digests import call_digest
from trouper.core.events import ActionPlanned, ActionStarted, ApprovalDecided, RunSubmitted
from trouper.errors import EditError
from trouper.testing._answers import Answer

MAIL = asks(("send_email", {"to": "a"}))
TOLD = '[maria changed the arguments; what ran: {"to":"b"}]\nsent to b'


@pytest.mark.parametrize("restart", [False, True])
async def test_the_edit_runs_once_and_everybody_is_told(tmp_path: Path, *, restart: bool) -> None:
    async with office(tmp_path, [MAIL, "Sent to b."], lambda world: [world.mailer()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Write to a.")
            (asked,) = await pending(runtime)
            if not restart:
                await runtime.approve(asked.action, by="maria", arguments={"to": "b"})
                await run.wait()
        if restart:
            # Decided while no runtime lives: the journal alone knows of the edit.
            async with desk.commands() as commands:
                await commands.decide(asked.action, Judgement("approve", Principal("maria"), arguments={"to": "b"}))
        async with desk.open() as runtime:
            run = runtime.run(run.id)
            result = await run.wait()
            assert result.output == "Sent to b."
            _, called, answered, _ = result.messages
            assert isinstance(called, AI)
            assert called.tool_calls[0].arguments == '{"to": "a"}'
            assert isinstance(answered, ToolMessage)
            assert (answered.content, answered.status) == (TOLD, "ok")
            (planned,) = await of(run, ActionPlanned)
            (decided,) = await of(run, ApprovalDecided)
            assert (planned.arguments, decided.arguments) == ({"to": "a"}, {"to": "b"})
            assert len(await of(run, ActionStarted)) == 1
        assert desk.world.effects == ["mail b"]
        assert told(desk.stub.requests[1].messages) == [TOLD]


async def test_the_decision_is_bound_to_the_digest_of_what_the_person_wrote(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Sent."], lambda world: [world.mailer()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write to a.")
        (asked,) = await pending(runtime)
        action = await runtime.approve(asked.action, by="maria", arguments={"to": "b"})
        (submitted,) = await of(run, RunSubmitted)
        assert isinstance(submitted.salt, bytes)
        (decided,) = await of(run, ApprovalDecided)
        identity = desk.agent().identities["send_email"]
        assert decided.digest == call_digest(submitted.salt, "send_email", identity, {"to": "b"})
        assert asked.digest == call_digest(submitted.salt, "send_email", identity, {"to": "a"}).hex()
        assert (action.arguments, action.original) == ({"to": "b"}, {"to": "a"})
        await run.wait()
        # The same decision again is no conflict, any other is.
        await runtime.approve(asked.action, by="peter", arguments={"to": "b"})
        for other in ({"to": "c"}, None):
            with pytest.raises(ApprovalConflict, match="decided before: approve by maria"):
                await runtime.approve(asked.action, by="maria", arguments=other)
        assert desk.world.effects == ["mail b"]


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        ({"to": 7}, "to: 7 is not of type 'string'"),
        ({}, "'to' is a required property"),
        ({"to": "b", "cc": "c"}, "'cc' was unexpected"),
        # The name of the tool is no argument: which tool runs cannot be edited.
        ({"to": "b", "name": "wipe"}, "'name' was unexpected"),
    ],
)
@pytest.mark.parametrize("here", [True, False])
async def test_an_edit_that_does_not_fit_is_refused_to_the_approver_and_the_call_still_waits(
    tmp_path: Path, edit: dict[str, object], place: str, *, here: bool
) -> None:
    async with office(tmp_path, [MAIL], lambda world: [world.mailer()], done=False) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Write to a.")
        (asked,) = await pending(runtime)
        await until(runtime, run.id, "awaiting_approval")
        before = await types(run)
        if here:
            with pytest.raises(EditError, match=place):
                await runtime.approve(asked.action, by="maria", arguments=edit)  # type: ignore[arg-type]  # on purpose
        else:
            async with desk.commands() as commands:
                with pytest.raises(EditError, match=place):
                    await commands.decide(
                        asked.action,
                        Judgement("approve", Principal("maria"), arguments=edit),  # type: ignore[arg-type]  # on purpose
                    )
        assert await types(run) == before
        assert await runtime.approvals() == [asked]
        assert desk.world.effects == []


def dated(world: World) -> list[AnyTool]:
    @tool(requires_approval=True)
    def book(day: date) -> str:
        """Book a day."""
        world.do(f"book {day:%d.%m.}")
        return "booked"

    return [book]


async def test_an_edit_that_only_the_tool_can_judge_is_refused_where_the_tool_is_at_hand(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("book", {"day": "2026-01-31"})), "Booked."], dated) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Book.")
            (asked,) = await pending(runtime)
            with pytest.raises(EditError, match="day: "):
                await runtime.approve(asked.action, by="maria", arguments={"day": "2026-02-31"})
            assert await runtime.approvals() == [asked]
            await runtime.approve(asked.action, by="maria", arguments={"day": "2026-02-28"})
            await run.wait()
        assert desk.world.effects == ["book 28.02."]


async def test_an_edit_that_only_the_tool_can_judge_becomes_an_error_where_it_was_not_at_hand(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("book", {"day": "2026-01-31"})), "Not booked."]
    async with office(tmp_path, script, dated) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Book.")
            (asked,) = await pending(runtime)
            async with desk.commands() as commands:
                edit = Judgement("approve", Principal("maria"), arguments={"day": "2026-02-31"})
                await commands.decide(asked.action, edit)
            await run.wait()
        assert desk.world.effects == []
        (answer,) = told(desk.stub.requests[1].messages)
        assert str(answer).startswith("Not started: ")
        assert "day: " in str(answer)
