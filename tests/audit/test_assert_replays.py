"""``assert_replays``: new code against journals from production, in the users' own test suites."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.audit.tampering import OF_STREAM, forged
from tests.golden.company import Company
from tests.golden.desk import Desk
from tests.golden.found import FOLDER, described, run_of

from trouper import Agent, DriftPolicy
from trouper.audit import ReplayFailed, assert_replays

NAME = "runs-1"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / f"{NAME}.db", tmp_path / f"{NAME}.db"))


def agents(instructions: str = "Do it.") -> list[Agent]:
    return [Desk().agent(instructions=instructions), *Company().agents()]


def test_a_journal_replays_without_agents(journal: Path) -> None:
    found = assert_replays(journal)
    assert (found.runs, found.records) == (len(described(NAME)["runs"]), described(NAME)["records"])
    assert (found.not_compared, found.drifts) == (0, ())


async def test_it_may_be_called_within_a_trio_run(journal: Path) -> None:
    assert assert_replays(journal, agents(), drift=DriftPolicy(contract="adopt")).runs > 0


def test_changed_prose_is_named_and_does_not_fail(journal: Path) -> None:
    found = assert_replays(journal, agents(instructions="Be quick."))
    (drift,) = [each for each in found.drifts if each.run == run_of(journal, "half done")]
    assert (drift.agent, drift.what, drift.held) == ("desk", ("prose",), False)
    assert drift.changes == ("prose.instructions changed",)


def test_a_run_that_would_be_held_fails_and_says_what_changed(journal: Path) -> None:
    changed = [Desk().agent(tools=Desk().tools(version="2")), *Company().agents()]
    with pytest.raises(ReplayFailed) as caught:
        assert_replays(journal, changed)
    assert isinstance(caught.value, AssertionError)
    held = {drift.run: drift for drift in caught.value.drifts}
    half = held[run_of(journal, "half done")]
    assert "contract" in half.what
    assert "contract of agent desk changed: contract.tools." in str(caught.value)
    assert assert_replays(journal, changed, drift=DriftPolicy(contract="adopt")).drifts


def test_an_agent_that_is_gone_fails(journal: Path) -> None:
    with pytest.raises(ReplayFailed, match="no agent called desk is given"):
        assert_replays(journal, Company().agents())


def test_a_step_that_differs_is_shown_with_both_sides(journal: Path) -> None:
    stream = f"run/{run_of(journal, 'answer')}"
    other = "UPDATE events SET type = 'run.cancelled', facts = x'80' WHERE type = 'run.succeeded'"
    assert forged(journal, f"{other} AND {OF_STREAM}", stream) == 1
    with pytest.raises(ReplayFailed) as caught:
        assert_replays(journal)
    (problem,) = caught.value.problems
    assert (problem.kind, problem.stream) == ("step", stream)
    text = str(caught.value)
    assert "recorded: run.cancelled {}" in text
    assert 'the rules name: Succeed {"source": null}' in text
    assert 'the run then: {"phase": "running"' in text


def test_what_is_no_journal_is_an_error_and_no_failure(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        assert_replays(tmp_path / "missing.db")
