"""The same command is the same run, for ever and from anywhere; the same id for something else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from tests.agents.child import Job, child
from tests.agents.office import asks, office

from trouper import Human, IdempotencyConflict, Limits, Principal, System
from trouper.core.conversation import Message
from trouper.runtime import Task


async def test_a_repeated_command_is_the_run_that_it_began(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("add", {"n": 1})), "Done."], lambda world: [world.adder()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Add.", command_id="c-1", by="maria")
            twin = await runtime.submit("desk", "Add.", command_id="c-1", by="peter")
            assert (run.repeated, twin.repeated, twin.id) == (False, True, run.id)
            result = await twin.wait()
            after = await runtime.submit("desk", "Add.", command_id="c-1")
            assert (after.id, after.repeated) == (run.id, True)
        async with desk.open() as runtime:
            again = await runtime.submit("desk", "Add.", command_id="c-1")
            assert (again.id, again.repeated) == (run.id, True)
            assert await again.wait() == result
            assert len([head async for head in runtime.commands.runs()]) == 1
        assert desk.world.effects == ["add 1"]
        assert len(desk.stub.requests) == 2


async def test_without_a_command_id_every_submit_is_a_run_of_its_own(tmp_path: Path) -> None:
    async with office(tmp_path, ["Done."]) as desk, desk.open() as runtime:
        first, second = await runtime.submit("desk", "Add."), await runtime.submit("desk", "Add.")
        assert first.id != second.id
        for run in (first, second):
            await run.wait()


CHANGED: list[tuple[str | list[Message], Limits | None]] = [
    ("Add!", None),
    ("Add.", Limits(max_steps=3)),
    ([Human("", "Add.")], None),
    ([System("", "Add.")], None),
]


@pytest.mark.parametrize(("given", "limits"), CHANGED)
@pytest.mark.parametrize("restart", [False, True])
async def test_a_known_command_id_with_another_content_is_a_conflict(
    tmp_path: Path, given: str | list[Message], limits: Limits | None, *, restart: bool
) -> None:
    async with office(tmp_path, ["Done."]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Add.", command_id="c-1")
            await run.wait()
            if not restart:
                with pytest.raises(IdempotencyConflict, match="submit:c-1 already stands for another command"):
                    await runtime.submit("desk", given, command_id="c-1", limits=limits)
        if restart:
            async with desk.open() as runtime:
                with pytest.raises(IdempotencyConflict):
                    await runtime.submit("desk", given, command_id="c-1", limits=limits)
        async with desk.commands() as commands:
            assert len([head async for head in commands.runs()]) == 1
            with pytest.raises(IdempotencyConflict):
                await commands.submit(Task("other", "Add."), "c-1")


async def test_tasks_that_submit_the_same_command_at_once_begin_one_run(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("add", {"n": 1})), "Done."], lambda world: [world.adder()]) as desk:
        ids: list[tuple[str, bool]] = []
        async with desk.open() as runtime, trio.open_nursery() as nursery:

            async def submit() -> None:
                run = await runtime.submit("desk", "Add.", command_id="c-1")
                ids.append((run.id, run.repeated))
                await run.wait()

            for _ in range(10):
                nursery.start_soon(submit)
        assert len({run for run, _ in ids}) == 1
        assert sorted(repeated for _, repeated in ids) == [False, *[True] * 9]
        assert desk.world.effects == ["add 1"]


@pytest.mark.parametrize("alike", [True, False])
async def test_two_processes_submit_the_same_command_at_once(tmp_path: Path, *, alike: bool) -> None:
    async with office(tmp_path, [asks(("add", {"n": 1})), "Done."], lambda world: [world.adder()]) as desk:
        async with desk.open() as runtime:
            jobs = [
                Job("submit", str(desk.path), input=text, command_id="c-1", barrier=True)
                for text in ("Add.", "Add." if alike else "Add more.")
            ]
            async with child(jobs[0]) as first, child(jobs[1]) as second:
                await first.ready()
                await second.ready()
                await first.go()
                await second.go()
                said = [await first.said(), await second.said()]
            (head,) = [head async for head in runtime.commands.runs()]
            run = runtime.run(head.stream.removeprefix("run/"))
            # Submitted elsewhere, driven here.
            assert (await run.wait()).output == "Done."
        if alike:
            assert {str(each["run"]) for each in said} == {run.id}
            assert sorted(bool(each["repeated"]) for each in said) == [False, True]
        else:
            assert sorted(each.get("error", "") == "IdempotencyConflict" for each in said) == [False, True]
        assert desk.world.effects == ["add 1"]


async def test_a_run_submitted_by_a_process_without_the_agents_code_is_driven_when_a_runtime_opens(
    tmp_path: Path,
) -> None:
    async with office(tmp_path, ["Done."]) as desk:
        async with desk.commands() as commands:
            done = await commands.submit(Task("desk", "Add.", by=Principal("mailbox", "service")))
        async with desk.open() as runtime:
            run = runtime.run(done.run)
            assert (await run.wait()).output == "Done."
            assert (await run.state()).by == Principal("mailbox", "service")
