"""What was done is held against the definition: an approval that was skipped is found, though all digests are right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import trio
from attrs import evolve
from tests.audit.rewriting import rewritten
from tests.cli.program import called, objects, ok_called

from trouper.audit import ReplayProblem, replay_streams
from trouper.core import events as ev
from trouper.core.approvals import Asking, Grounds
from trouper.core.effects import Effect
from trouper_journal import Journal

Forge = Callable[[ev.ActionPlanned], ev.ActionPlanned | None]


async def problems(path: Path) -> list[ReplayProblem]:
    async with aclosing(replay_streams(path, jobs=1)) as results:
        return [each.problem async for each in results if each.problem is not None and each.problem.kind == "promise"]


def asked_by(plan: ev.ActionPlanned, how: Callable[[Asking], Asking]) -> ev.ActionPlanned | None:
    """The call that two of three people must agree to, where they are asked otherwise."""
    if plan.gate != "person" or not plan.grounds.policy or plan.grounds.asks[0].quorum != 2:
        return None
    first = how(plan.grounds.asks[0])
    return evolve(plan, grounds=evolve(plan.grounds, asks=(first, *plan.grounds.asks[1:])))


def open_to_the_asker(plan: ev.ActionPlanned) -> ev.ActionPlanned | None:
    return asked_by(plan, lambda asks: evolve(asks, separation=False))


def unending(plan: ev.ActionPlanned) -> ev.ActionPlanned | None:
    return asked_by(plan, lambda asks: evolve(asks, expires=None))


def ruled(plan: ev.ActionPlanned) -> ev.ActionPlanned | None:
    return evolve(plan, grounds=evolve(plan.grounds, rules=("made-up",))) if plan.grounds.rules else None


def with_mallory(plan: ev.ActionPlanned) -> ev.ActionPlanned | None:
    people = plan.people
    return evolve(plan, people=(("mallory",), *people[1:])) if isinstance(people, tuple) and people else None


def more(plan: ev.ActionPlanned) -> ev.ActionPlanned | None:
    if not isinstance(plan.arguments, dict):
        return None
    return evolve(plan, arguments={**plan.arguments, "more": 1})


FORGED: list[tuple[str, Forge, str]] = [
    (
        "nobody was asked",
        lambda plan: evolve(plan, gate="free") if plan.gate == "person" and not plan.grounds.policy else None,
        "by the definition every call of its tool needs one",
    ),
    (
        "nobody was asked, where a policy names people",
        lambda plan: (
            evolve(plan, gate="free", grounds=Grounds(), people=()) if plan.gate == "person" and plan.people else None
        ),
        "needed nobody's approval",
    ),
    (
        "a policy that asks people let it run",
        lambda plan: evolve(plan, gate="free") if plan.gate == "person" and plan.grounds.policy else None,
        "does not lead to the gate 'free'",
    ),
    (
        "a policy that the definition has not",
        lambda plan: (
            evolve(plan, gate="free", grounds=Grounds("agent.approvals[7] AutoApprove"))
            if plan.gate == "person"
            else None
        ),
        "has no such policy",
    ),
    ("one instead of two", lambda plan: asked_by(plan, lambda asks: evolve(asks, quorum=1)), "its quorum is 1, and by"),
    (
        "whoever asked may approve",
        open_to_the_asker,
        "its separation is False",
    ),
    (
        "a request that never lapses",
        unending,
        "its expires is None",
    ),
    (
        "somebody else may decide",
        with_mallory,
        "are not those whom",
    ),
    (
        "nobody is asked after them",
        lambda plan: (
            evolve(plan, grounds=evolve(plan.grounds, asks=plan.grounds.asks[:1]))
            if len(plan.grounds.asks) > 1
            else None
        ),
        "for after the expiry are not asked",
    ),
    ("a standing rule that nobody made", ruled, "had not been made"),
    (
        "it was told to be harmless",
        lambda plan: evolve(plan, effect=Effect.READ_ONLY) if plan.effect is Effect.UNQUERYABLE_WRITE else None,
        "its effect is 'read_only', and by the definition 'unqueryable_write'",
    ),
    ("more attempts", lambda plan: evolve(plan, attempts=9), "its attempts is 9"),
    (
        "no permission needed",
        lambda plan: evolve(plan, permissions=()) if plan.permissions else None,
        "its permissions is []",
    ),
    (
        "nobody to authorize it",
        lambda plan: evolve(plan, authorize=False) if plan.authorize else None,
        "by the definition somebody is",
    ),
    ("another promise", lambda plan: evolve(plan, identity=bytes(32)), "its identity is not the digest"),
    (
        "other arguments than the model's",
        lambda plan: None if plan.asked else more(plan),
        "its arguments are not those that the model gave",
    ),
    (
        "other arguments than the hook's",
        lambda plan: more(plan) if plan.asked else None,
        "its arguments are not those that a hook gave",
    ),
    (
        "a tool that there is not",
        lambda plan: evolve(plan, tool="made_up") if plan.gate == "free" else None,
        "is no tool of the definition",
    ),
]


@pytest.mark.parametrize(("forge", "says"), [each[1:] for each in FORGED], ids=[each[0] for each in FORGED])
async def test_a_call_that_was_planned_otherwise_than_the_definition_has_it_is_found(
    golden_runs: Path, tmp_path: Path, forge: Forge, says: str
) -> None:
    forged: list[str] = []

    def change(stream: str, event: object) -> object:
        other = forge(event) if isinstance(event, ev.ActionPlanned) and not forged else None
        if other is None:
            return event
        forged.append(f"version 1 {stream}")
        return other

    path = await rewritten(golden_runs, tmp_path / "forged.db", change)
    assert forged, "no call of the golden runs is of this kind"
    (found,) = await problems(path)
    assert says in found.message
    assert f"version 1 {found.stream}" == forged[0]
    assert found.recorded is not None
    assert found.recorded["type"] == "action.planned"


async def test_a_journal_that_was_only_written_anew_contradicts_nothing(golden_runs: Path, tmp_path: Path) -> None:
    path = await rewritten(golden_runs, tmp_path / "anew.db", lambda _, event: event)
    assert await problems(path) == []
    async with Journal.open(path, read_only=True) as journal:
        assert (await journal.verify()).ok


async def test_a_rule_that_had_been_revoked_or_was_for_something_else_let_nothing_run(
    golden_runs: Path, tmp_path: Path
) -> None:
    def other_tool(_: str, event: object) -> object:
        return evolve(event, tool="other") if isinstance(event, ev.RuleAdded) else event

    found = await problems(await rewritten(golden_runs, tmp_path / "other.db", other_tool))
    assert found
    assert all("did not speak for it" in problem.message for problem in found)


async def test_a_rule_that_had_been_used_up_let_nothing_run(golden_runs: Path, tmp_path: Path) -> None:
    def used_up(_: str, event: object) -> object:
        return evolve(event, uses=0) if isinstance(event, ev.RuleAdded) else event

    found = await problems(await rewritten(golden_runs, tmp_path / "used.db", used_up))
    assert found
    assert all("had been used up" in problem.message for problem in found)


async def test_a_run_whose_definition_was_taken_away_is_named(golden_runs: Path, tmp_path: Path) -> None:
    def without(_: str, event: object) -> object | None:
        return None if isinstance(event, ev.DefinitionRecorded) else event

    found = await problems(await rewritten(golden_runs, tmp_path / "without.db", without))
    assert found
    assert all("is not in the journal" in problem.message for problem in found)


async def test_a_looser_definition_that_was_adopted_is_the_one_that_holds(golden_runs: Path) -> None:
    """Calls that were planned anew under an adopted definition are held against that one; the record has such calls."""
    replanned = 0
    async with Journal.open(golden_runs, registry=ev.REGISTRY, read_only=True) as journal:
        async for record in journal.read_all():
            replanned += isinstance(ev.REGISTRY.decode(record), ev.ActionReplanned)
    assert replanned
    assert await problems(golden_runs) == []


def test_why_says_of_a_call_that_nobody_was_asked(golden_runs: Path, tmp_path: Path) -> None:
    forged: list[str] = []

    def change(stream: str, event: object) -> object:
        if not forged and isinstance(event, ev.ActionPlanned) and event.gate == "person" and not event.grounds.policy:
            forged.append(f"{stream.removeprefix('run/')}/{event.action}")
            return evolve(event, gate="free")
        return event

    path = trio.run(rewritten, golden_runs, tmp_path / "forged.db", change)
    (call,) = forged
    told = called("why", path, call)
    assert told.returncode == 1
    assert "NOT as the definition has it: it needed nobody's approval" in " ".join(told.stdout.split())
    (found,) = objects(called("why", path, call, "--json").stdout)
    assert str(found["breach"]).startswith("it needed nobody's approval")
    (found,) = objects(ok_called("why", golden_runs, call, "--json"))
    assert found["breach"] is None
