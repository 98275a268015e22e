"""A run under way, steered, paused, resumed and given more time from another process than the daemon's."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
import trio
from tests.cli.agents import asker
from tests.cli.conftest import Journals
from tests.cli.program import called, complaint, daemon, objects, ok, ok_called, one_object

from trouper import Agent, DeadlineExceeded, Runtime, SubmitOptions
from trouper.testing import ScriptedModel, call
from trouper.timers import wait_until


def test_a_paused_and_steered_run_goes_on_in_the_next_daemon(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "agents.db")
    said = ok("pause", journal, run[:12], "--as", "maria", "--reason", "lunch")
    assert f"run {run} paused by maria" in said
    assert '"lunch"; `trouper resume` lets it go on' in said
    assert [each["label"] for each in objects(ok_called("runs", journal, "--json"))] == ["paused"]
    assert "It is paused, and goes on with:" in ok_called("show", journal, run)
    for _ in range(2):
        ok_called("steer", journal, run, "Be brief.", "--as", "maria", "--command-id", "c1")
    shown = one_object(ok_called("steer", journal, run, "And kind.", "--as", "otto", "--json"))
    assert shown["label"] == "paused"
    ok_called("approve", journal, f"{run}/0.0", "--as", "maria")
    assert one_object(ok_called("resume", journal, run, "--as", "otto", "--json"))["paused"] is None
    with daemon(journal, "desk") as process:
        assert json.loads(process.read_until(process.out, "ended")[-1]) == {"ended": run, "label": "succeeded"}
    story = ok_called("show", journal, run)
    assert story.count('says "Be brief."') == 1
    assert "part of the conversation" in story
    events = one_object(ok_called("show", journal, run, "--json"))["events"]
    assert isinstance(events, list)
    types = [event["type"] for event in events]
    assert types.index("run.heard") > types.index("action.receipted")


def past_its_deadline(journal: Path) -> str:
    """A run that has failed at its deadline."""

    async def main() -> str:
        async with Runtime.open(journal, [asker]) as runtime:
            run = await runtime.submit("asker", "go", options=SubmitOptions(deadline=1))
            with pytest.raises(DeadlineExceeded):
                await run.wait()
            return run.id

    return trio.run(main)


def test_a_run_past_its_deadline_goes_on_when_it_is_given_more_time(tmp_path: Path) -> None:
    journal = tmp_path / "agents.db"
    run = past_its_deadline(journal)
    story = ok_called("show", journal, run)
    assert "the deadline has passed (1970-01-01" in story
    assert "It can go on with a later deadline:" in story
    done = called("resume", journal, run)
    assert (done.returncode, complaint(done)) == (
        4,
        f"run {run} is past its deadline: `trouper extend` lets it go on",
    )
    assert called("extend", journal, run, "--until", "soon").returncode == 2
    local = called("extend", journal, run, "--until", "2031-01-01T00:00")
    assert (local.returncode, "in UTC it is 2031-01-01T00:00:00Z" in complaint(local)) == (2, True)
    said = ok_called("extend", journal, run, "--until", "2231-01-01T00:00Z", "--as", "maria")
    assert "has time until 2231-01-01" in said
    assert "lets the run take its time until 2231-01-01" in ok_called("show", journal, run)
    assert "without end" in ok_called("extend", journal, run, "--until", "never")


def test_what_a_run_waits_for_is_told_with_its_moment(tmp_path: Path) -> None:
    """One is to start, and one to wake, in a time that no test lives to see."""
    journal = tmp_path / "agents.db"

    async def main() -> tuple[str, str]:
        model = ScriptedModel([call("wait_until", time="2231-05-01T00:00:00Z")])
        async with Runtime.open(journal, [asker, Agent("sleeper", tools=[wait_until], model=model)]) as runtime:
            options = SubmitOptions(
                start_at=dt.datetime(2231, 3, 1, tzinfo=dt.UTC), deadline=dt.datetime(2231, 4, 1, tzinfo=dt.UTC)
            )
            later = await runtime.submit("asker", "go", options=options)
            sleeps = await runtime.submit("sleeper", "go")
            async with runtime.journal.news() as news:
                while (await sleeps.result()).status != "sleeping":
                    await news.wait()
            return later.id, sleeps.id

    later, sleeps = trio.run(main)
    story = ok_called("show", journal, later)
    assert "not before 2231-03-01" in story
    assert "It starts at 2231-03-01" in story
    assert "It must have ended by 2231-04-01" in story
    story = ok_called("show", journal, sleeps)
    assert "0.0 sleeps until 2231-05-01" in story
    assert "wait_until (0.0) sleeps until 2231-05-01" in story
    labels = {each["run"]: each["label"] for each in objects(ok_called("runs", journal, "--json"))}
    assert labels == {later: "scheduled", sleeps: "sleeping"}


def test_what_cannot_be_is_at_odds_with_what_is_there(tmp_path: Path, journals: Journals) -> None:
    over = journals.ended(ended := tmp_path / "ended.db")
    commands: list[list[str | Path]] = [
        ["steer", ended, over, "More."],
        ["pause", ended, over],
        ["resume", ended, over],
    ]
    for command in commands:
        done = called(*command)
        assert done.returncode == 4
        assert "it is over" in complaint(done) or "is over: it has succeeded" in complaint(done)
    run = journals.waiting(journal := tmp_path / "agents.db")
    done = called("resume", journal, run)
    assert (done.returncode, "is neither paused nor failed" in complaint(done)) == (4, True)
    ok_called("steer", journal, run, "One.", "--command-id", "c1")
    done = called("steer", journal, run, "Two.", "--command-id", "c1")
    assert done.returncode == 4
    assert called("steer", journal, run, "").returncode == 2
