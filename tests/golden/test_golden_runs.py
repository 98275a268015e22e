"""Runs that released versions recorded: they fold, replay and verify for ever, and go on where they stood."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from tests.golden.company import Company
from tests.golden.desk import Desk
from tests.golden.found import GOLDEN, Described, Facts, described, run_of
from tests.golden.make_golden_runs import NAME, describe_runs, write_golden_runs

from trouper import REGISTRY, Commands, RunCancelled, Runtime, SubAgent
from trouper._clock import SystemClock
from trouper._ids import SystemEntropy
from trouper.core.events import DefinitionAdopted
from trouper.errors import OutputTruncated
from trouper.narration.narrate import Narrator
from trouper.testing import ManualClock
from trouper_journal import Journal


async def test_golden_runs_verify_fold_and_replay(golden: Path) -> None:
    """Facts, labels, alarms, messages and digests are found as they were written; replay finds no difference."""
    assert await describe_runs(golden) == described(golden.stem)


async def test_labels_and_alarms_in_the_index_are_those_of_the_fold(golden: Path) -> None:
    facts = described(golden.stem)["runs"]
    async with Journal.open(golden, registry=REGISTRY) as journal:
        heads = {head.stream.removeprefix("run/"): head async for head in journal.streams(prefix="run/")}
    assert {run: head.label for run, head in heads.items()} == {run: each["label"] for run, each in facts.items()}


def test_the_golden_runs_have_every_event_of_their_release() -> None:
    seen: set[str] = set()
    for each in map(described, GOLDEN):
        for told in (*each["runs"].values(), *each["sessions"].values(), each["rules"]):
            seen.update(told["events"])
    in_other_streams = {"definition.recorded", "driver.started"}
    came_later = {"erasure.ordered", "erasure.carried_out", "archive.made", "journal.restored", "restore.carried_out"}
    assert seen == {spec.type for spec in REGISTRY} - in_other_streams - came_later


async def test_definitions_have_the_digests_that_they_had(golden: Path) -> None:
    """Another digest for the same agent would make drift of every run that sleeps."""
    recorded = {facts["definition"] for facts in described(golden.stem)["runs"].values()}
    desk = Desk()
    agents = [
        desk.agent(),
        desk.agent(instructions="Do it well."),
        desk.agent(instructions="Do it well.", tools=desk.tools(version="2")),
        *Company().agents(),
    ]
    below = [tool.agent for agent in agents for tool in agent.tools if isinstance(tool, SubAgent)]
    # A run whose turn has not come has none.
    assert recorded - {""} == {agent.definition.digest for agent in (*agents, *below)}


async def test_golden_runs_go_on_where_they_stood(golden: Path) -> None:
    desk, clock = Desk(), ManualClock()
    half, doubt = run_of(golden, "half done"), run_of(golden, "doubt left")
    async with Runtime.open(golden, [desk.agent()], clock=clock) as runtime:
        (asked,) = [each for each in await runtime.approvals() if each.agent == "desk"]
        assert asked.action == f"{half}/0.0"
        await runtime.approve(asked.action, by="maria")
        assert (await runtime.run(half).wait()).output == "Wiped."
        await runtime.resolve(f"{doubt}/0.0", "not_applied", by="maria")
        assert (await runtime.run(doubt).wait()).output == "Well."
        # Repeated commands are the runs of then, and what had ended stays ended.
        again = await runtime.submit("desk", "answer", command_id="answer", by="maria")
        assert (again.id, again.repeated) == (run_of(golden, "answer"), True)
        with pytest.raises(OutputTruncated):
            await runtime.run(run_of(golden, "cut off")).wait()
        with pytest.raises(RunCancelled):
            await runtime.run(run_of(golden, "cancel")).wait()
    # Only what had not been done before was done now.
    assert desk.effects == ["wipe a"]
    async with Journal.open(golden, registry=REGISTRY) as journal:
        found = await journal.verify()
        assert found.ok, found.problems


async def test_a_golden_run_goes_on_under_other_prose(golden: Path) -> None:
    desk, clock = Desk(), ManualClock()
    half = run_of(golden, "half done")
    async with Runtime.open(golden, [desk.agent(instructions="Be quick.")], clock=clock) as runtime:
        await runtime.deny(f"{half}/0.0", by="maria")
        assert (await runtime.run(half).wait()).output == "Wiped."
        assert DefinitionAdopted in [type(event) for _, event in await runtime.run(half).events()]
    assert desk.effects == []


async def test_golden_runs_read_without_the_agents_code(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY) as journal:
        commands = Commands(journal, SystemClock(), SystemEntropy())
        state = await commands.state(run_of(golden, "edit"))
        assert state.output == "Wiped another."
        assert '[maria changed the arguments; what ran: {"disk":"z"}]' in str(state.messages[2].content)


async def test_every_golden_event_is_told_in_words(golden: Path) -> None:
    async with Journal.open(golden, registry=REGISTRY) as journal:
        async for head in journal.streams():
            narrator = Narrator()
            async for record in journal.read(head.stream):
                line = narrator.tell(record, journal.registry.decode(record))
                assert line.who != "?", record.type
                assert line.text, record.type


async def test_this_release_writes_runs_that_come_to_the_same(tmp_path: Path) -> None:
    """Its order of events within a turn may differ; what a run came to may not."""
    await write_golden_runs(tmp_path / "again.db")
    again = cast("Described", await describe_runs(tmp_path / "again.db"))
    before = described(NAME)
    then, now = before["runs"].values(), again["runs"].values()

    def came_to(facts: Facts) -> tuple[object, ...]:
        # How often a driver says that it has seen what others appended is a matter of when it looks.
        events = sorted(event for event in facts["events"] if event != "run.waiting")
        return facts["asked"], facts["label"], facts["output"], facts["definition"], events

    def said(told: Described) -> dict[str, object]:
        turns = {name: [turn[:3] for turn in session["turns"]] for name, session in told["sessions"].items()}
        return {name: (session["events"], turns[name]) for name, session in told["sessions"].items()}

    assert [came_to(facts) for facts in now] == [came_to(facts) for facts in then]
    assert (said(again), again["rules"]) == (said(before), before["rules"])


async def test_a_resumed_failure_stays_in_the_record(golden: Path) -> None:
    async with Runtime.open(golden, [Desk().agent()], clock=ManualClock()) as runtime:
        names = [record.type for record, _ in await runtime.run(run_of(golden, "give up")).events()]
        assert names.index("run.failed") < names.index("run.resume_requested") < names.index("run.succeeded")
        assert names[-1] == "run.succeeded"
