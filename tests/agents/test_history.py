"""Runs that start from what other runs said."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
from tests.agents.office import Script, asks, happened, of, office, pending, told

from trouper import Base, Commands, HistoryRef, Run, Runtime, Task, UnknownRun
from trouper.core.events import ActionReceipted, ModelRequested, RunStarted
from trouper.runtime.histories import Histories


async def follow(runtime: Runtime, text: str, *refs: HistoryRef) -> Run:
    """Submit a run that starts from stretches of other runs."""
    done = await runtime.commands.submit(Task("desk", text, base=Base(refs)))
    return runtime.run(done.run)


async def whole(run: Run) -> HistoryRef:
    return HistoryRef(run.id, (await run.state()).version)


def said(messages: object) -> list[str]:
    assert isinstance(messages, list | tuple)
    return [str(message["content"]) for message in messages]


async def test_a_run_is_shown_what_it_starts_from_and_keeps_only_its_own(tmp_path: Path) -> None:
    script: Script = [asks(("add", {"n": 1})), "one", "two", "three"]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        first = await runtime.submit("desk", "add 1")
        await first.wait()
        second = await follow(runtime, "and then?", await whole(first))
        assert [m.role for m in (await second.wait()).messages] == ["human", "ai"]
        third = await follow(runtime, "and at last?", await whole(second))
        await third.wait()
        (started,) = await of(third, RunStarted)
        assert started.base is not None
        assert [(ref.run, ref.whole) for ref in started.base.refs] == [(second.id, True)]
        assert started.base.messages == 6
        history = await third.history()
        assert [m.role for m in history] == ["human", "ai", "tool", "ai", "human", "ai", "human", "ai"]
        assert said(desk.stub.requests[-1].messages) == [
            "Do what is asked.", "add 1", "None", "added 1", "one", "and then?", "two", "and at last?"
        ]  # fmt: skip


async def test_the_same_request_goes_out_after_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk:
        async with desk.open() as runtime:
            first = await runtime.submit("desk", "hello")
            await first.wait()
            done = await runtime.commands.submit(Task("desk", "more", base=Base((await whole(first),))), "again")
            await runtime.run(done.run).wait()
            (asked,) = await of(runtime.run(done.run), ModelRequested)
        async with desk.open() as runtime:
            ref = await whole(runtime.run(first.id))
            repeated = await runtime.commands.submit(Task("desk", "more", base=Base((ref,))), "again")
            assert (repeated.run, repeated.repeated) == (done.run, True)
            state = await runtime.commands.state(done.run)
            assert state.base is not None
            assert asked.digest
            assert await runtime.commands.histories.pin(state.base) == state.base


async def test_a_history_may_be_taken_from_the_middle_of_a_batch(tmp_path: Path) -> None:
    script: Script = [asks(("add", {"n": 1}), ("send_email", {"to": "a"})), "after all"]
    async with office(tmp_path, script, lambda world: [world.adder(), world.mailer()]) as desk, desk.open() as runtime:
        first = await runtime.submit("desk", "add and mail")

        await pending(runtime)
        await happened(runtime, first, ActionReceipted)
        second = await follow(runtime, "what is going on?", await whole(first))
        await second.wait()
        assert told(desk.stub.requests[-1].messages) == ["added 1", "Not started."]
        await first.cancel()


async def test_stretches_are_put_together_in_order(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two", "three"], by_turn=False) as desk, desk.open() as runtime:
        first, second = await runtime.submit("desk", "first"), await runtime.submit("desk", "second")
        await first.wait()
        answer = (await second.wait()).output
        versions = [(await run.state()).version for run in (first, second)]
        both = await follow(
            runtime,
            "both",
            HistoryRef(second.id, versions[1], whole=False, skip=1),
            HistoryRef(first.id, versions[0], whole=False, take=1),
        )
        await both.wait()
        assert said(desk.stub.requests[-1].messages)[1:] == [answer, "first", "both"]


async def test_a_history_that_does_not_exist_is_refused_at_the_door(tmp_path: Path) -> None:
    async with office(tmp_path) as desk, desk.open() as runtime:
        with pytest.raises(UnknownRun):
            await follow(runtime, "go", HistoryRef("01NOBODY", 1))


async def test_a_process_without_the_agent_reads_the_history(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk:
        async with desk.open() as runtime:
            first = await runtime.submit("desk", "hello")
            await first.wait()
            second = await follow(runtime, "more", await whole(first))
            await second.wait()
        async with desk.commands() as commands:
            assert isinstance(commands, Commands)
            assert [m.role for m in await commands.history(second.id)] == ["human", "ai", "human", "ai"]


async def test_an_auditor_sees_whether_a_run_started_from_what_it_says(tmp_path: Path) -> None:
    async with office(tmp_path, ["one", "two"]) as desk, desk.open() as runtime:
        first = await runtime.submit("desk", "hello")
        await first.wait()
        second = await follow(runtime, "more", await whole(first))
        await second.wait()
        state = await second.state()
        histories = Histories(runtime.journal)
        assert await histories.difference(state) is None
        assert await histories.difference(await first.state()) is None
        assert state.base is not None
        (ref,) = state.base.refs
        wrong = {
            "is not what it started from": Base((attrs.evolve(ref, version=1),), state.base.chain, 2),
            "which is not there|no run": Base((attrs.evolve(ref, run="01NOBODY"),), state.base.chain, 2),
            "the digest": Base((ref,), b"another", 2),
        }
        for said_of_it, base in wrong.items():
            told_of_it = await histories.difference(attrs.evolve(state, base=base))
            assert told_of_it is not None
            assert re.search(said_of_it, told_of_it)
