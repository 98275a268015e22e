"""Runs of an earlier release under today's code: one has a pending approval in a half-done batch."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from attrs import frozen
from tests.agents.office import AnyTool, Office, World, happened, of, office, told, until

from trouper import AI, DriftPolicy, JournalError, Runtime, tool
from trouper.core.events import ActionStarted, ApprovalRequested, DefinitionAdopted
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.testing import ManualClock
from trouper_journal import EventRegistry, Journal, Value, event

GOLDEN = Path(__file__).parents[1] / "golden"
RUNS = cast("dict[str, dict[str, object]]", json.loads((GOLDEN / "runs-1.json").read_text("utf-8"))["runs"])
ADOPT = DriftPolicy(contract="adopt")


def run_of(asked: str) -> str:
    """The golden run with that input."""
    (run,) = [run for run, facts in RUNS.items() if facts["asked"] == asked]
    return run


HALF, DOUBT = run_of("half done"), run_of("doubt left")


@asynccontextmanager
async def old_office(
    folder: Path, tools: Callable[[World], Sequence[AnyTool]], *, done: bool = True
) -> AsyncIterator[Office]:
    """An office that took over an old journal; its model has answered once already."""
    shutil.copy(GOLDEN / "runs-1.db", folder / "journal.db")
    async with office(folder, ["never", "Done."], tools, clock=ManualClock(), done=done) as desk:
        yield desk


def readers() -> AnyTool:
    @tool(effect="read_only")
    async def lookup(ticket: str) -> str:
        """Read a ticket."""
        raise AssertionError("it was read before")

    return lookup


def as_it_was(world: World) -> list[AnyTool]:
    @tool(requires_approval=True, approval_expires=3600)
    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        world.do(f"wipe {disk}")
        return f"wiped {disk}"

    return [wipe, readers()]


def renamed(world: World) -> list[AnyTool]:
    @tool(name="erase", requires_approval=True)
    async def erase(disk: str) -> str:
        """Wipe a disk."""
        world.do(f"erase {disk}")
        return "erased"

    return [erase, readers()]


def with_a_required_parameter(world: World) -> list[AnyTool]:
    @tool(requires_approval=True)
    async def wipe(disk: str, passes: int) -> str:
        """Wipe a disk."""
        world.do(f"wipe {disk} {passes}")
        return "wiped"

    return [wipe, readers()]


def with_a_default(world: World) -> list[AnyTool]:
    @tool(requires_approval=True)
    async def wipe(disk: str, passes: int = 3) -> str:
        """Wipe a disk."""
        world.do(f"wipe {disk} {passes}")
        return f"wiped {disk} {passes} times"

    return [wipe, readers()]


def deleted(world: World) -> list[AnyTool]:
    return [readers()]


GONE = "Not started: the tool changed meanwhile. There is no tool called 'wipe'. Tools: "


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        (renamed, GONE + "erase, lookup."),
        (deleted, GONE + "lookup."),
        (with_a_required_parameter, "passes: is missing"),
    ],
    ids=["renamed", "deleted", "a required parameter more"],
)
async def test_a_call_that_does_not_fit_any_more_is_an_error_and_the_others_keep_their_results(
    tmp_path: Path, tools: Callable[[World], Sequence[AnyTool]], says: str
) -> None:
    async with old_office(tmp_path, tools) as desk:
        async with desk.open(drift=ADOPT) as runtime:
            run = runtime.run(HALF)
            started = await of(run, ActionStarted)
            # Whoever approves is answered; then the call is looked at again, before anything starts.
            await runtime.approve(f"{HALF}/0.0", by="maria")
            assert (await run.wait()).output == "Done."
            assert await of(run, ActionStarted) == started
            assert len(await of(run, DefinitionAdopted)) == 1
        assert desk.world.effects == []
        first, second, third = told(desk.stub.requests[0].messages)
        assert says in str(first)
        assert str(first).startswith("Not started: the tool changed meanwhile.")
        assert (second, third) == ("wiped b", '{"ticket":"INC-7","status":"open"}')


async def test_a_parameter_with_a_default_still_fits_and_is_asked_for_again(tmp_path: Path) -> None:
    async with old_office(tmp_path, with_a_default) as desk:
        async with desk.open(drift=ADOPT) as runtime:
            run = runtime.run(HALF)
            await runtime.approve(f"{HALF}/0.0", by="maria")
            await happened(runtime, run, ApprovalRequested, 3)
            (asked,) = [each for each in await runtime.approvals() if each.run == HALF]
            assert (asked.action, asked.arguments) == (f"{HALF}/0.0", {"disk": "a"})
            await runtime.approve(asked.action, by="maria")
            await run.wait()
        assert desk.world.effects == ["wipe a 3"]
        assert told(desk.stub.requests[0].messages)[0] == "wiped a 3 times"


async def test_a_changed_prompt_changes_nothing_but_the_prompt(tmp_path: Path) -> None:
    """The contract is another one, because not all tools of then are here; who adopts it keeps the approval."""
    async with old_office(tmp_path, as_it_was) as desk:
        agent = desk.agent(instructions="Mind your words.")
        async with desk.open(agent) as runtime:
            run = runtime.run(HALF)
            await runtime.approve(f"{HALF}/0.0", by="maria")
            await until(runtime, HALF, "drifted")
            await runtime.adopt(HALF, by="maria")
            result = await run.wait()
            assert result.output == "Done."
            # Ids come from the journal: what was asked for then has the name that it had then.
            asked = next(message for message in result.messages if isinstance(message, AI))
            assert [call.id for call in asked.tool_calls] == [f"{HALF}/0.{n}" for n in range(3)]
            assert [message.id for message in result.messages[2:5]] == [f"{HALF}/0.{n}" for n in range(3)]
        assert desk.world.effects == ["wipe a"]
        (request,) = desk.stub.requests
        assert request.messages[0]["content"] == "Mind your words."


async def test_finished_history_is_always_readable(tmp_path: Path) -> None:
    async with old_office(tmp_path, deleted, done=False) as desk, desk.open(desk.agent("another")) as runtime:
        for run_id, facts in RUNS.items():
            result, state = await runtime.run(run_id).result(), await runtime.run(run_id).state()
            assert (state.output, result.steps) == (facts["output"], facts["steps"])
            assert [[message.role, message.id, str(message.content)] for message in result.messages] == facts[
                "messages"
            ]


# ---- events that this release cannot read


@event("run.levitated")
@frozen
class Levitated:
    """An event of a later release."""

    height: int = 3


@event("run.cancel_requested", schema=2)
@frozen
class CancelRequestedLater:
    """An event of today, as a later release has it."""

    why: str = "because"


@event("model.requested")
@frozen
class RequestedWithLess:
    """An event of today that lacks a field."""

    index: int = 1


def unchanged(facts: dict[str, Value], content: object) -> tuple[dict[str, Value], object]:
    return facts, content


LATER = EventRegistry([Levitated])
NEWER = EventRegistry([CancelRequestedLater], upcasters={("run.cancel_requested", 1): unchanged})  # type: ignore[dict-item]  # never called
LESS = EventRegistry([RequestedWithLess])

UNREADABLE = [
    pytest.param(LATER, Levitated(), UnknownEvent, "event run.levitated schema 1 is unknown here", id="unknown type"),
    pytest.param(NEWER, CancelRequestedLater(), UnknownEvent, "schema 2 is newer than 1", id="newer schema"),
    pytest.param(LESS, RequestedWithLess(), JournalCorrupt, "lacks the field", id="a field is missing"),
]


async def settle_the_other(runtime: Runtime) -> None:
    """Another run goes on as if nothing were the matter."""
    await runtime.resolve(f"{DOUBT}/0.0", "not_applied", by="maria")
    assert (await runtime.run(DOUBT).wait()).output == "Done."


@pytest.mark.parametrize(("registry", "odd", "error", "says"), UNREADABLE)
async def test_a_run_that_cannot_be_read_is_refused_and_left_as_it_is_and_others_go_on(
    tmp_path: Path, registry: EventRegistry, odd: object, error: type[JournalError], says: str
) -> None:
    shutil.copy(GOLDEN / "runs-1.db", tmp_path / "journal.db")
    async with Journal.open(tmp_path / "journal.db", registry=registry) as journal:
        await journal.append(f"run/{HALF}", [odd])
        head = await journal.head(f"run/{HALF}")
    world = World(tmp_path / "effects")
    async with office_unchecked(tmp_path, as_it_was(world)) as desk, desk.open(drift=ADOPT) as runtime:
        run = runtime.run(HALF)
        for attempt in (
            run.wait,
            run.state,
            lambda: runtime.approve(f"{HALF}/0.0", by="maria"),
            lambda: runtime.cancel(HALF, by="maria"),
            lambda: runtime.adopt(HALF, by="maria"),
        ):
            with pytest.raises(error, match=says):
                await attempt()
        # The list of what waits leaves it out rather than fail for all.
        assert HALF not in {each.run for each in await runtime.approvals()}
        await settle_the_other(runtime)
        assert await runtime.journal.head(f"run/{HALF}") == head
        found = await runtime.journal.verify()
        assert found.ok, found.problems
    assert world.effects == []


@asynccontextmanager
async def office_unchecked(folder: Path, tools: Sequence[AnyTool]) -> AsyncIterator[Office]:
    """An office whose runs cannot all be read, and so not all be checked."""
    async with office(folder, ["never", "Done."], tools, clock=ManualClock(), checked=False) as desk:
        yield desk
