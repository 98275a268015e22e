"""Approval policies in a chain: what the first that speaks for a call says, and what the record tells of it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.agents.office import Office, asks, of, office, pending, told

from trouper import Agent, AutoApprove, AutoDeny, DefinitionError, People, Policy, ProposedCall, RuntimeOptions
from trouper.core.events import ActionPlanned, ActionStarted
from trouper.testing._answers import Answer

MAIL = asks(("send_email", {"to": "a"}))


def under(desk: Office, *policies: Policy) -> Agent:
    return attrs.evolve(desk.agent(), approvals=policies)


def to_a(call: ProposedCall) -> bool:
    return call.arguments["to"] == "a"


def broken(call: ProposedCall) -> bool:
    raise KeyError("amount")


async def test_an_auto_approved_call_runs_and_the_record_says_by_which_policy(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("send_email", {"to": "a"}), ("send_email", {"to": "b"})), "Sent."]
    async with office(tmp_path, script, lambda world: [world.mailer()]) as desk:
        agent = under(desk, AutoDeny(tools=["add"]), AutoApprove(tools=["send_email"], when=to_a, reason="a is us"))
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Write.")
            (asked,) = await pending(runtime)
            assert (asked.arguments, asked.quorum, asked.policy) == ({"to": "b"}, 1, "")
            await runtime.deny(asked.action, by="maria")
            await run.wait()
            first, second = await of(run, ActionPlanned)
            assert (first.gate, first.grounds.policy, first.reason) == (
                "free",
                "agent.approvals[1] AutoApprove",
                "a is us",
            )
            assert (second.gate, second.grounds.policy, second.reason) == ("person", "", None)
        assert desk.world.effects == ["mail a"]


async def test_a_denied_call_never_runs_and_the_model_is_told_why(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1}), ("add", {"n": 2})), "I may not."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        deny = AutoDeny(tools=["add"], when=lambda call: call.arguments["n"] == 1, reason="one is enough")
        async with desk.open(under(desk, deny)) as runtime:
            run = await runtime.submit("desk", "Add.")
            await run.wait()
            (planned, _) = await of(run, ActionPlanned)
            assert (planned.gate, planned.grounds.policy) == ("refused", "agent.approvals[0] AutoDeny")
            assert len(await of(run, ActionStarted)) == 1
        assert desk.world.effects == ["add 2"]
        assert told(desk.stub.requests[1].messages) == ["Not started: denied by policy: one is enough.", "added 2"]


async def test_without_tools_and_when_a_policy_speaks_for_calls_that_require_approval(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1}), ("send_email", {"to": "a"})), "Done."]
    async with office(tmp_path, script, lambda world: [world.adder(), world.mailer()]) as desk:
        async with desk.open(under(desk, AutoDeny())) as runtime:
            await (await runtime.submit("desk", "Go.")).wait()
        assert desk.world.effects == ["add 1"]


async def test_people_may_be_asked_for_a_tool_that_does_not_ask_itself(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": 1})), "Added."]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk:
        people = People(tools=["add"], from_={"finance": ["otto"], "desk": ("maria", "otto")}, reason="adds up")
        async with desk.open(under(desk, people)) as runtime:
            run = await runtime.submit("desk", "Add.", by="ida")
            (asked,) = await pending(runtime)
            assert (asked.quorum, asked.eligible, asked.approved_by) == (1, ("otto", "maria"), ())
            assert (asked.policy, asked.reason) == ("agent.approvals[0] People", "adds up")
            await runtime.approve(asked.action, by="otto")
            await run.wait()
        assert desk.world.effects == ["add 1"]


@pytest.mark.parametrize(
    ("policies", "quorum", "policy"),
    [
        ((AutoApprove(when=broken),), 1, ""),
        ((AutoDeny(when=broken), AutoApprove(), People(quorum=2)), 2, "agent.approvals[2] People"),
        ((People(when=broken, quorum=3), AutoApprove()), 3, "agent.approvals[0] People"),
        # An answer that is none is no yes.
        ((AutoApprove(when=lambda _: "yes"),), 1, ""),  # type: ignore[arg-type, return-value]  # on purpose
    ],
)
async def test_a_predicate_that_fails_means_that_people_are_asked(
    tmp_path: Path, policies: tuple[Policy, ...], quorum: int, policy: str
) -> None:
    async with office(tmp_path, [asks(("add", {"n": 1})), "No."], lambda world: [world.adder()]) as desk:
        async with desk.open(under(desk, *policies)) as runtime:
            run = await runtime.submit("desk", "Add.")
            (asked,) = await pending(runtime)
            assert (asked.quorum, asked.policy) == (quorum, policy)
            assert asked.reason is not None
            assert asked.reason.startswith("the predicate of agent.approvals[0] ")
            await runtime.deny(asked.action, by="maria")
            await run.wait()
        assert desk.world.effects == []


async def test_a_predicate_cannot_change_what_runs(tmp_path: Path) -> None:
    def changes(call: ProposedCall) -> bool:
        call.arguments["to"] = "eve"  # type: ignore[index]  # on purpose
        return True

    async with office(tmp_path, [MAIL, "Sent."], lambda world: [world.mailer()]) as desk:
        async with desk.open(under(desk, AutoApprove(when=changes))) as runtime:
            await (await runtime.submit("desk", "Go.")).wait()
        assert desk.world.effects == ["mail a"]


async def test_the_runtimes_policies_come_before_the_agents(tmp_path: Path) -> None:
    async with office(tmp_path, [MAIL, "I may not."], lambda world: [world.mailer()]) as desk:
        options = RuntimeOptions(approvals=[AutoDeny(tools=["send_email"], reason="freeze")])
        async with desk.open(under(desk, AutoApprove()), options=options) as runtime:
            run = await runtime.submit("desk", "Go.")
            await run.wait()
            (planned,) = await of(run, ActionPlanned)
            assert planned.grounds.policy == "runtime.approvals[0] AutoDeny"
        assert desk.world.effects == []


async def test_policies_stand_in_the_definition_only_where_there_are_any(tmp_path: Path) -> None:
    async with office(tmp_path, (), lambda world: [world.mailer()]) as desk:
        bare, guarded = desk.agent(), under(desk, People(quorum=2, on_expiry=People(from_=["ceo"]), expires=60))
        assert "approvals" not in bare.definition.contract
        policies = guarded.definition.contract["approvals"]
        assert isinstance(policies, list)
        assert isinstance(policies[0], dict)
        assert policies[0]["quorum"] == 2
        assert under(desk).definition.digest == bare.definition.digest
        # What a tool promises is the same, and so are the digests that approvals bind to.
        assert guarded.identities == bare.identities


@pytest.mark.parametrize(
    "make",
    [
        lambda: People(quorum=0),
        lambda: People(quorum=3, from_=("maria", "otto")),
        # The same person in two roles is one person.
        lambda: People(quorum=2, from_={"finance": ["otto"], "desk": ["otto"]}),
        lambda: People(from_="maria"),
        lambda: People(from_={"desk": "maria"}),
        lambda: People(expires=0),
        lambda: People(on_expiry="approve"),  # type: ignore[arg-type]  # on purpose
        lambda: People(separation="yes"),  # type: ignore[arg-type]  # on purpose
        lambda: AutoApprove(tools="send_email"),
        lambda: AutoApprove(tools=[]),
        lambda: AutoApprove(when=True),  # type: ignore[arg-type]  # on purpose
        lambda: AutoDeny(reason=None),  # type: ignore[arg-type]  # on purpose
        lambda: RuntimeOptions(approvals=[Policy()]),
        lambda: RuntimeOptions(approvals=People()),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_what_cannot_be_meant_is_refused_at_the_door(make: object) -> None:
    with pytest.raises(DefinitionError):
        make()  # type: ignore[operator]  # a lambda


async def test_an_agent_takes_policies_only(tmp_path: Path) -> None:
    async with office(tmp_path) as desk:
        with pytest.raises(DefinitionError, match="agent desk, approvals: 'maria' is neither"):
            attrs.evolve(desk.agent(), approvals=["maria"])  # type: ignore[list-item]  # on purpose
