"""Standing rules: an approval that reaches further than its call, as far as was said and no further."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.agents.office import AnyTool, Office, World, asks, of, office, pending, until

from trouper import (
    ApprovalError,
    DefinitionError,
    Judgement,
    People,
    Principal,
    Run,
    Runtime,
    Scope,
    UnknownRule,
    tool,
)
from trouper.audit import assert_replays
from trouper.core.events import ActionPlanned, ApprovalDecided, RuleAdded, RuleUsed
from trouper.core.rule_events import APPROVALS
from trouper.errors import InvalidValue
from trouper.testing import ManualClock
from trouper.testing._answers import Answer
from trouper_journal import Value


def mail(to: str, **more: str) -> Answer:
    return asks(("send_email", {"to": to, **more}))


def mailers(world: World) -> list[AnyTool]:
    return [world.mailer()]


def by_input(request: dict[str, Value]) -> Answer:
    """Writes to whom the input names, once for each letter."""
    messages = request["messages"]
    assert isinstance(messages, list)
    if any(isinstance(message, dict) and message["role"] == "tool" for message in messages):
        return "Sent."
    asked = messages[-1]
    assert isinstance(asked, dict)
    return asks(*(("send_email", {"to": letter}) for letter in str(asked["content"])))


async def first_approved(runtime: Runtime, scope: Scope, *, to: str = "a", by: str = "maria") -> Run:
    """A run whose call was approved, and remembered."""
    run = await runtime.submit("desk", to)
    (asked,) = await pending(runtime)
    await runtime.approve(asked.action, by=by, reason="weekly report", remember=scope)
    await run.wait()
    return run


async def log(desk: Office) -> list[object]:
    async with desk.journal() as journal:
        return [journal.registry.decode(record) async for record in journal.read(APPROVALS)]


async def test_everything_like_it_runs_and_the_record_says_by_whose_leave(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk:
        async with desk.open() as runtime:
            first = await first_approved(runtime, Scope())
            (rule,) = await runtime.commands.rules()
            assert (rule.tool, rule.agent, rule.arguments, rule.uses) == ("send_email", "desk", {"to": "a"}, None)
            assert (rule.action, rule.by, rule.reason) == (f"{first.id}/0.0", Principal("maria"), "weekly report")
        async with desk.open() as runtime:
            second = await runtime.submit("desk", "ab")
            (asked,) = await pending(runtime)
            assert asked.arguments == {"to": "b"}
            await runtime.deny(asked.action, by="otto")
            await second.wait()
            free, gated = await of(second, ActionPlanned)
            assert (free.gate, free.grounds.rules) == ("free", (rule.rule,))
            assert free.reason == "standing approval of maria (weekly report)"
            assert (gated.gate, gated.grounds.rules) == ("person", ())
        assert desk.world.effects == ["mail a", "mail a"]
        # Without a number of uses there is nothing to count.
        assert [type(event) for event in await log(desk)] == [RuleAdded]


async def test_the_rule_is_made_in_the_same_commit_as_the_approval(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk, desk.open() as runtime:
        run = await first_approved(runtime, Scope())
        (added,) = [record async for record in runtime.journal.read(APPROVALS)]
        (decided,) = [record for record, event in await run.events() if isinstance(event, ApprovalDecided)]
        assert added.position == decided.position + 1


async def test_arguments_that_were_not_named_may_be_anything(tmp_path: Path) -> None:
    @tool(effect="idempotent_write", requires_approval=True)
    def send(to: str, urgent: bool = False) -> str:
        """Send."""
        return "sent"

    script: list[Answer] = [
        asks(("send", {"to": "a"})),
        asks(("send", {"to": "a", "urgent": True})),
        asks(("send", {"to": "b"})),
        "Done.",
    ]
    async with office(tmp_path, script, [send], by_turn=True) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        (asked,) = await pending(runtime)
        with pytest.raises(ApprovalError, match="the scope does not cover the call itself: to is not that"):
            await runtime.approve(asked.action, by="maria", remember=Scope(arguments={"to": "b"}))
        assert await runtime.commands.rules() == []
        await runtime.approve(asked.action, by="maria", remember=Scope(arguments={"to": "a"}))
        (asked,) = await pending(runtime)
        assert asked.action == f"{run.id}/2.0"
        await runtime.deny(asked.action, by="maria")
        await run.wait()


async def test_values_that_python_takes_for_equal_are_not_the_same(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def put(n: int | bool) -> str:
        """Put."""
        return "put"

    script: list[Answer] = [asks(("put", {"n": 1})), asks(("put", {"n": True})), "Done."]
    async with office(tmp_path, script, [put]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        (asked,) = await pending(runtime)
        await runtime.approve(asked.action, by="maria", remember=Scope())
        (asked,) = await pending(runtime)
        assert asked.arguments == {"n": True}
        await runtime.deny(asked.action, by="maria")
        await run.wait()


async def test_uses_are_counted_over_parallel_calls_runs_and_restarts(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk:
        async with desk.open() as runtime:
            await first_approved(runtime, Scope(uses=3))
            # Two in one reply, and two runs at once for what is left.
            await (await runtime.submit("desk", "aa")).wait()
        async with desk.open() as runtime:
            (rule,) = await runtime.commands.rules()
            assert rule.left == 1
            runs = [await runtime.submit("desk", "aa") for _ in range(2)]
            asked = await pending(runtime, 3)
            assert (await runtime.commands.rules())[0].left == 0
            for each in asked:
                await runtime.deny(each.action, by="otto")
            for run in runs:
                await run.wait()
        assert desk.world.effects == ["mail a"] * 4
        used = [event for event in await log(desk) if isinstance(event, RuleUsed)]
        assert len({event.action for event in used}) == len(used) == 3
        # The last use that a rule allows contradicts nothing.
        assert_replays(tmp_path / "journal.db")


async def test_a_rule_ends_at_its_time(tmp_path: Path) -> None:
    clock = ManualClock()
    until = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=1)
    async with office(tmp_path, by_input, mailers, clock=clock) as desk, desk.open() as runtime:
        await first_approved(runtime, Scope(until=until))
        assert (await runtime.commands.rules())[0].until == clock.now() + 3600 * 10**9
        clock.advance(3599)
        await (await runtime.submit("desk", "a")).wait()
        clock.advance(1)
        run = await runtime.submit("desk", "a")
        (asked,) = await pending(runtime)
        with pytest.raises(ApprovalError, match="the scope's time is over"):
            await runtime.approve(asked.action, by="maria", remember=Scope(until=until))
        await runtime.deny(asked.action, by="maria")
        await run.wait()
        assert desk.world.effects == ["mail a", "mail a"]


async def test_a_revoked_rule_is_over_and_says_by_whom(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk, desk.open() as runtime:
        await first_approved(runtime, Scope())
        (rule,) = await runtime.commands.rules()
        revoked = await runtime.commands.revoke_rule(rule.rule, by=Principal("otto"), reason="he left")
        assert (revoked.revoked, revoked.revoked_by) == (True, Principal("otto"))
        # Once more is no error, and changes nothing.
        assert await runtime.commands.revoke_rule(rule.rule, by=Principal("ida")) == revoked
        assert len(await log(desk)) == 2
        with pytest.raises(UnknownRule):
            await runtime.commands.revoke_rule("nothing", by=Principal("otto"))
        run = await runtime.submit("desk", "a")
        (asked,) = await pending(runtime)
        await runtime.deny(asked.action, by="maria")
        await run.wait()
        assert desk.world.effects == ["mail a"]


async def test_a_rule_for_one_run_is_for_that_run(tmp_path: Path) -> None:
    script: list[Answer] = [mail("a"), mail("a"), "Twice."]
    async with office(tmp_path, script, mailers) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        (asked,) = await pending(runtime)
        await runtime.approve(asked.action, by="maria", remember=Scope(run=True))
        await run.wait()
        assert desk.world.effects == ["mail a", "mail a"]
        other = await runtime.submit("desk", "Go.")
        await pending(runtime)
        await until(runtime, other.id, "awaiting_approval")
        await runtime.cancel(other.id)


async def test_a_rule_is_for_the_agent_whose_call_it_was_unless_said_otherwise(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk:
        agents = [desk.agent(name) for name in ("desk", "shop", "bank")]
        async with desk.open(*agents) as runtime:
            await first_approved(runtime, Scope())
            run = await runtime.submit("shop", "a")
            (asked,) = await pending(runtime)
            await runtime.approve(asked.action, by="maria", remember=Scope(agent="*"))
            await run.wait()
            await (await runtime.submit("bank", "a")).wait()
        assert desk.world.effects == ["mail a"] * 3


async def test_a_tool_that_changed_is_another_tool(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk:
        async with desk.open() as runtime:
            await first_approved(runtime, Scope())
        changed = desk.agent(tools=[desk.world.mailer(version="2")])
        async with desk.open(changed) as runtime:
            run = await runtime.submit("desk", "a")
            (asked,) = await pending(runtime)
            await runtime.deny(asked.action, by="maria")
            await run.wait()
        assert desk.world.effects == ["mail a"]


async def test_a_rule_is_one_persons_approval_and_no_more(tmp_path: Path) -> None:
    """Where two must approve, two must have made a rule; and nobody's rule lets through what they asked for."""
    two = People(quorum=2, from_=("maria", "otto", "ida"), separation=True)
    async with (
        office(tmp_path, by_input, mailers) as desk,
        desk.open(attrs.evolve(desk.agent(), approvals=[two])) as runtime,
    ):
        run = await runtime.submit("desk", "a", by="eve")
        (asked,) = await pending(runtime)
        await runtime.approve(asked.action, by="maria", remember=Scope())
        await runtime.approve(asked.action, by="otto")
        await run.wait()
        run = await runtime.submit("desk", "a", by="eve")
        (asked,) = await pending(runtime)
        assert asked.approved_by == ()
        await runtime.approve(asked.action, by="maria")
        await runtime.approve(asked.action, by="otto", remember=Scope(agent="*"))
        await run.wait()
        # Both have rules now.
        run = await runtime.submit("desk", "a", by="eve")
        await run.wait()
        (planned,) = await of(run, ActionPlanned)
        assert planned.grounds.rules == tuple(rule.rule for rule in await runtime.commands.rules())
        assert planned.reason == "standing approval of maria and otto"
        # But what one of them asks for needs somebody else.
        run = await runtime.submit("desk", "a", by="maria")
        (asked,) = await pending(runtime)
        await runtime.deny(asked.action, by="ida")
        await run.wait()


async def test_an_approval_given_before_can_be_remembered_once_and_only_by_whose_it_is(tmp_path: Path) -> None:
    async with office(tmp_path, by_input, mailers) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "a")
        (asked,) = await pending(runtime)
        await runtime.approve(asked.action, by="maria")
        await run.wait()
        with pytest.raises(ApprovalError, match="only who approved it"):
            await runtime.approve(asked.action, by="otto", remember=Scope())
        for _ in range(2):
            await runtime.approve(asked.action, by="maria", remember=Scope())
        assert len(await runtime.commands.rules()) == 1


async def test_what_is_no_scope_is_refused(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"uses": 0},
        {"agent": ""},
        {"arguments": [("to", "a")]},
    ]
    for given in wrong:
        with pytest.raises(DefinitionError):
            Scope(**given)
    with pytest.raises(InvalidValue, match="no time zone"):
        Scope(until=datetime(2026, 1, 1))  # noqa: DTZ001 -- on purpose
    async with office(tmp_path, by_input, mailers, done=False) as desk, desk.open() as runtime:
        await runtime.submit("desk", "a")
        (asked,) = await pending(runtime)
        with pytest.raises(InvalidValue):
            await runtime.approve(asked.action, by="maria", remember="always")  # type: ignore[arg-type]  # on purpose
        denial = Judgement("deny", Principal("maria"))
        with pytest.raises(InvalidValue):
            await runtime.commands.decide(asked.action, denial, remember=Scope())
        assert await runtime.approvals() == [asked]
