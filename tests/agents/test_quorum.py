"""Several people must approve: who counts, who counts once, who does not count, and what an edit undoes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio.testing
from tests.agents.child import Job, Said, child, do
from tests.agents.office import Office, asks, happened, of, office, pending, told, types, until

from trouper import (
    ApprovalConflict,
    ApprovalError,
    Judgement,
    NotEligible,
    People,
    Principal,
    Run,
    Runtime,
)
from trouper.core.approvals import voter_digest
from trouper.core.events import ActionStarted, ApprovalDecided, ApprovalExpired, ApprovalRequested, RunSubmitted
from trouper.runtime import PendingApproval
from trouper.testing import ManualClock
from trouper_journal import Write

MAIL = asks(("send_email", {"to": "a"}))
TWO = People(quorum=2, from_=("maria", "otto", "ida"), separation=True)


@asynccontextmanager
async def waiting(
    folder: Path, people: People = TWO, *, by: str | None = "ida", done: bool = True, clock: ManualClock | None = None
) -> AsyncIterator[tuple[Office, Runtime, Run, PendingApproval]]:
    """A runtime whose one run waits for people."""
    async with (
        office(folder, [MAIL, "Well."], lambda world: [world.mailer()], done=done, clock=clock) as desk,
        desk.open(attrs.evolve(desk.agent(), approvals=[people])) as runtime,
    ):
        run = await runtime.submit("desk", "Write to a.", by=by)
        (asked,) = await pending(runtime)
        yield desk, runtime, run, asked


async def test_two_different_people_let_a_call_run(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (desk, runtime, run, asked):
        assert (asked.quorum, asked.eligible, asked.separation) == (2, ("maria", "otto", "ida"), True)
        action = await runtime.approve(asked.action, by="maria", reason="fine")
        assert (action.phase.value, action.decision) == ("awaiting", None)
        await until(runtime, run.id, "awaiting_approval")
        (still,) = await runtime.approvals()
        assert still == attrs.evolve(asked, approved_by=("maria",))
        # It waits for the second as it did for the first: in the journal, not in memory.
        while runtime.active:
            await trio.testing.wait_all_tasks_blocked()
        assert desk.world.effects == []
        action = await runtime.approve(asked.action, by="otto")
        assert action.decision is not None
        assert (await run.wait()).output == "Well."
        assert desk.world.effects == ["mail a"]
        (requested,) = await of(run, ApprovalRequested)
        assert (requested.quorum, requested.separation, requested.eligible) == (2, True, ("maria", "otto", "ida"))
        assert [event.by.id for event in await of(run, ApprovalDecided)] == ["maria", "otto"]  # type: ignore[union-attr]  # not erased


async def test_one_person_does_not_count_twice(tmp_path: Path) -> None:
    async with waiting(tmp_path, done=False) as (desk, runtime, run, asked):
        # Neither as often as she likes nor by another way in.
        for again in (
            "maria",
            "maria",
            Principal("maria", via="os-user:maria"),
            Principal("maria", assurance="signed"),
        ):
            action = await runtime.approve(asked.action, by=again)
            assert action.decision is None
        assert len(await of(run, ApprovalDecided)) == 1
        assert desk.world.effects == []


async def test_one_denial_denies_also_by_who_has_approved(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (desk, runtime, run, asked):
        await runtime.approve(asked.action, by="maria")
        await runtime.deny(asked.action, by="maria", reason="on second thoughts")
        await run.wait()
        with pytest.raises(ApprovalConflict, match="decided before: deny by maria"):
            await runtime.approve(asked.action, by="otto")
        assert told(desk.stub.requests[1].messages) == ["Not started: denied by maria: on second thoughts."]
        assert desk.world.effects == []


async def test_the_requester_cannot_approve_but_may_deny(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (desk, runtime, run, asked):
        await until(runtime, run.id, "awaiting_approval")
        before = await types(run)
        with pytest.raises(NotEligible, match="ida asked for the run") as caught:
            await runtime.approve(asked.action, by="ida")
        assert (caught.value.rule, caught.value.action) == ("separation", asked.action)
        assert isinstance(caught.value, ApprovalError)
        assert await types(run) == before
        assert await runtime.approvals() == [asked]
        await runtime.deny(asked.action, by="ida", reason="not needed any more")
        await run.wait()
        assert desk.world.effects == []


async def test_who_may_not_decide_changes_nothing_in_any_process(tmp_path: Path) -> None:
    async with waiting(tmp_path, done=False) as (desk, runtime, run, asked):
        await until(runtime, run.id, "awaiting_approval")
        before = await types(run)
        for decide in (runtime.approve, runtime.deny):
            with pytest.raises(NotEligible, match=r"eve is not among those who may decide \(maria, otto, ida\)"):
                await decide(asked.action, by="eve")
        # Without the agent's code.
        said = await do(Job("approve", str(desk.path), action=asked.action, by="eve"))
        assert said["error"] == "NotEligible"
        assert await types(run) == before


async def test_where_nobody_said_who_asked_separation_cannot_be_kept(tmp_path: Path) -> None:
    async with waiting(tmp_path, People(separation=True), by=None) as (_, runtime, run, asked):
        with pytest.raises(NotEligible, match="nobody said who asked") as caught:
            await runtime.approve(asked.action, by="maria")
        assert caught.value.rule == "unknown_requester"
        await runtime.deny(asked.action, by="maria")
        await run.wait()


async def test_an_edit_restarts_the_quorum_and_the_editor_counts_for_the_edit(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (desk, runtime, run, asked):
        await runtime.approve(asked.action, by="maria")
        action = await runtime.approve(asked.action, by="otto", arguments={"to": "b"})
        assert action.decision is None
        assert (action.arguments, action.original) == ({"to": "b"}, {"to": "a"})
        (still,) = await runtime.approvals()
        assert (still.arguments, still.approved_by) == ({"to": "b"}, ("otto",))
        assert still.digest != asked.digest
        # The editor is one voter, however often.
        await runtime.approve(asked.action, by="otto")
        await runtime.approve(asked.action, by="otto", arguments={"to": "b"})
        assert (await runtime.approvals()) == [still]
        with pytest.raises(ApprovalError, match="not the call that was shown"):
            await runtime.approve(asked.action, by="maria", digest=asked.digest)
        await runtime.approve(asked.action, by="maria", digest=still.digest)
        await run.wait()
        assert desk.world.effects == ["mail b"]
        (answer,) = told(desk.stub.requests[1].messages)
        assert answer == '[otto changed the arguments; what ran: {"to":"b"}]\nsent to b'
        # Each may repeat what they said; nobody may say otherwise now.
        await runtime.approve(asked.action, by="maria")
        await runtime.approve(asked.action, by="otto", arguments={"to": "b"})
        with pytest.raises(ApprovalConflict):
            await runtime.approve(asked.action, by="otto", arguments={"to": "c"})


async def test_what_went_round_the_rules_does_not_count(tmp_path: Path) -> None:
    """Whoever can write to the file can append a decision; the fold counts none that a rule would have refused."""
    async with waiting(tmp_path) as (desk, runtime, run, asked):
        await until(runtime, run.id, "awaiting_approval")
        (submitted,) = await of(run, RunSubmitted)
        assert isinstance(submitted.salt, bytes)
        salt, digest = submitted.salt, bytes.fromhex(asked.digest)

        def vote(who: str, claimed: str | None = None) -> ApprovalDecided:
            voter = voter_digest(salt, Principal(claimed or who))
            return ApprovalDecided("0.0", 1, "approve", digest, Principal(who), voter=voter)

        await runtime.approve(asked.action, by="maria")
        forged = [
            vote("maria"),
            vote("ida"),
            vote("eve"),
            vote("maria", "otto"),
            vote("otto", "maria"),
            ApprovalDecided("0.0", 1, "approve", digest, Principal("otto")),
            ApprovalDecided("0.0", 1, "approve", digest, None, voter=voter_digest(salt, Principal("otto"))),
            ApprovalDecided("0.0", 1, "deny", digest, Principal("eve"), voter=voter_digest(salt, Principal("eve"))),
        ]
        async with desk.journal() as journal:
            await journal.commit([Write(f"run/{run.id}", forged)])
        (still,) = await runtime.approvals()
        assert still.approved_by == ("maria",)
        await runtime.approve(asked.action, by="otto")
        await run.wait()
        assert desk.world.effects == ["mail a"]
        assert len(await of(run, ActionStarted)) == 1


@pytest.mark.parametrize(("first", "second"), [("approve", "approve"), ("approve", "deny"), ("deny", "deny")])
async def test_two_processes_decide_at_once(tmp_path: Path, first: str, second: str) -> None:
    async with waiting(tmp_path) as (desk, _, run, asked):
        jobs = [
            Job(what, str(desk.path), action=asked.action, by=name, barrier=True)  # type: ignore[arg-type]  # one of the two
            for what, name in ((first, "maria"), (second, "otto"))
        ]
        async with child(jobs[0]) as one, child(jobs[1]) as other:
            await one.ready()
            await other.ready()
            await one.go()
            await other.go()
            said: list[Said] = [await one.said(), await other.said()]
        await run.wait()
        allowed = {first, second} == {"approve"}
        assert desk.world.effects == (["mail a"] if allowed else [])
        # Two approvals are two votes; of an approval and a denial, whichever came first, the call is denied.
        assert [each.get("error") for each in said].count("ApprovalConflict") <= (first != second)
        assert len(await of(run, ApprovalDecided)) == 2 - (first == "deny") - sum("error" in each for each in said)


async def test_votes_survive_restarts_and_are_cast_while_nobody_drives(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "Well."], lambda world: [world.mailer()]) as desk:
        agent = attrs.evolve(desk.agent(), approvals=[TWO])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Write to a.", by="ida")
            (asked,) = await pending(runtime)
        assert await do(Job("vote", str(desk.path), action=asked.action, by="maria")) == {"votes": ["maria"]}
        async with desk.open(agent) as runtime:
            (still,) = await pending(runtime)
            assert still.approved_by == ("maria",)
            # Who asked for it has no vote in this life either, and who has voted has no second one.
            with pytest.raises(NotEligible, match="ida asked for the run"):
                await runtime.approve(asked.action, by="ida")
            await runtime.approve(asked.action, by="maria")
            assert await runtime.approvals() == [still]
            assert desk.world.effects == []
        assert await do(Job("vote", str(desk.path), action=asked.action, by="otto")) == {"votes": ["maria", "otto"]}
        async with desk.open(agent) as runtime:
            assert (await runtime.run(run.id).wait()).output == "Well."
        assert desk.world.effects == ["mail a"]


# ---- expiry


async def test_a_request_lapses_with_the_votes_it_had(tmp_path: Path) -> None:
    clock = ManualClock()
    people = People(quorum=2, expires=60)
    async with waiting(tmp_path, people, clock=clock) as (desk, runtime, run, asked):
        assert asked.expires_at == clock.now() + 60 * 10**9
        await runtime.approve(asked.action, by="maria")
        clock.advance(60)
        await run.wait()
        with pytest.raises(ApprovalError, match="closed"):
            await runtime.approve(asked.action, by="otto")
        assert desk.world.effects == []
        assert told(desk.stub.requests[1].messages) == [
            "Not started: the request for approval expired before anybody decided."
        ]


async def test_when_a_request_lapses_others_are_asked_about_the_models_own_call(tmp_path: Path) -> None:
    clock = ManualClock()
    people = People(quorum=2, expires=60, on_expiry=People(from_=["ceo"], expires=600))
    async with waiting(tmp_path, people, clock=clock) as (desk, runtime, run, asked):
        await runtime.approve(asked.action, by="maria", arguments={"to": "b"})
        clock.advance(60)
        await happened(runtime, run, ApprovalRequested, 2)
        (next_one,) = await runtime.approvals()
        assert (next_one.quorum, next_one.approved_by, next_one.arguments) == (1, (), {"to": "a"})
        assert (next_one.digest, next_one.expires_at) == (asked.digest, clock.now() + 600 * 10**9)
        with pytest.raises(NotEligible):
            await runtime.approve(asked.action, by="otto")
        await runtime.approve(asked.action, by="ceo")
        await run.wait()
        assert [event.reason for event in await of(run, ApprovalExpired)] == ["time"]
        assert [event.request for event in await of(run, ApprovalRequested)] == [1, 2]
        assert desk.world.effects == ["mail a"]


async def test_the_last_request_that_lapses_denies(tmp_path: Path) -> None:
    clock = ManualClock()
    people = People(expires=60, on_expiry=People(from_=["ceo"], expires=600))
    async with office(tmp_path, [MAIL, "Well."], lambda world: [world.mailer()], clock=clock) as desk:
        agent = attrs.evolve(desk.agent(), approvals=[people])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Write to a.")
            await pending(runtime)
        clock.advance(60)
        async with desk.commands() as commands:
            # Nobody has said so yet, and still it is too late.
            assert await commands.approvals() == []
        async with desk.open(agent) as runtime:
            (asked,) = await pending(runtime)
            assert asked.eligible == ("ceo",)
            clock.advance(600)
            assert (await runtime.run(run.id).wait()).output == "Well."
        async with desk.commands() as commands:
            with pytest.raises(ApprovalError):
                await commands.decide(asked.action, Judgement("approve", Principal("ceo")))
        assert desk.world.effects == []
