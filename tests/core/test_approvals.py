"""The rules of approvals as values: who may decide, what counts, which standing rules fit, what erasure leaves."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.moves import erased
from tests.core.shell import RUN, SALT, FakeTool, Shell, folded

from trouper.core import events as ev
from trouper.core.approvals import Consent, objection, voter_digest
from trouper.core.commands import Already, Judgement, decide_approval
from trouper.core.conversation import AI, ToolCall, Usage
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.replay import check
from trouper.core.rules import Book, Planned, evolve_book, fitting
from trouper.core.state import Phase
from trouper.errors import ApprovalError
from trouper.runtime.protocol import Replied
from trouper_journal import Value

MARIA, OTTO, EVE = map(ev.Principal, ("maria", "otto", "eve"))
TWO = FakeTool(Effect.UNQUERYABLE_WRITE, gated=True, asks=((ev.Asking(2), ("ida", "otto", "eve")),))


def waiting(tool: FakeTool = TWO) -> Shell:
    """A run, asked for by maria, whose one call waits."""
    shell = Shell({"wire": tool})
    shell.submit(None)
    shell.drive()
    message = AI("", None, tool_calls=(ToolCall("", "wire", '{"n":1}', "x"),))
    shell.deliver(Replied(0, 1, ModelReply(message, "tool_calls", Usage(1, 1))))
    shell.drive()
    assert shell.action("0.0").phase is Phase.AWAITING
    return shell


def vote(
    shell: Shell, who: ev.Principal, decision: Literal["approve", "deny"] = "approve", n: int | None = None
) -> bool:
    edit: dict[str, Value] | None = None if n is None else {"n": n}
    judgement = Judgement(decision, who, "because", edit)
    return shell.command(decide_approval(shell.state, "0.0", judgement, now=shell.now))


@pytest.mark.parametrize(
    ("asking", "people", "by", "decision", "broken"),
    [
        (ev.Asking(), (), EVE, "approve", None),
        (ev.Asking(), (), None, "approve", None),
        (ev.Asking(2), (), None, "approve", "unnamed"),
        (ev.Asking(), ("otto",), EVE, "deny", "eligible"),
        (ev.Asking(separation=True), (), MARIA, "approve", "separation"),
        # The same person by another way in is the same person.
        (ev.Asking(separation=True), (), ev.Principal("maria", via="os-user:root"), "approve", "separation"),
        (ev.Asking(separation=True), (), MARIA, "deny", None),
        (ev.Asking(separation=True), ("otto",), MARIA, "approve", "eligible"),
    ],
)
def test_who_may_decide(
    asking: ev.Asking,
    people: tuple[str, ...],
    by: ev.Principal | None,
    decision: Literal["approve", "deny"],
    broken: str | None,
) -> None:
    consent = Consent(ev.Grounds("p", asks=(asking,)), people=(people,))
    assert objection(consent, MARIA, by, decision) == broken


def test_separation_needs_somebody_to_be_kept_apart() -> None:
    consent = Consent(ev.Grounds("p", asks=(ev.Asking(separation=True),)), people=((),))
    assert objection(consent, None, OTTO, "approve") == "unknown_requester"
    assert objection(consent, None, OTTO, "deny") is None


def test_votes_are_for_one_call_as_it_stands() -> None:
    shell = waiting()
    assert vote(shell, OTTO)
    assert not vote(shell, OTTO)
    assert vote(shell, EVE, n=2)
    first = shell.action("0.0")
    assert (first.consent.approvals, first.arguments, first.original) == (1, {"n": 2}, {"n": 1})
    # An edit that gives the model's own arguments back is an edit, too.
    assert vote(shell, OTTO, n=1)
    second = shell.action("0.0")
    assert (second.consent.approvals, second.arguments, second.original) == (1, {"n": 1}, {"n": 1})
    assert vote(shell, EVE)
    assert shell.action("0.0").phase is Phase.APPROVED
    assert isinstance(decide_approval(shell.state, "0.0", Judgement("approve", OTTO, None, {"n": 1}), now=0), Already)


def test_arguments_that_are_the_same_as_approved_restart_nothing() -> None:
    shell = waiting()
    assert vote(shell, OTTO)
    assert vote(shell, EVE, n=1)
    found = shell.action("0.0")
    assert (found.phase, found.original) == (Phase.APPROVED, None)
    for who, n in ((OTTO, None), (EVE, 1), (MARIA, None)):
        assert not vote(shell, who, n=n)


def test_what_is_counted_stays_counted_when_all_content_is_erased() -> None:
    shell = waiting()
    digest, request = shell.action("0.0").digest, shell.action("0.0").request
    # Past the rules: without what tells voters apart for ever, no vote counts, erased or not.
    shell.append(ev.ApprovalDecided("0.0", request, "approve", digest, OTTO))
    assert shell.action("0.0").consent.votes == ()
    assert vote(shell, OTTO)
    assert vote(shell, EVE)
    shell.drive()
    phases = [folded(shell.events[: number + 1]).phase for number in range(len(shell.events))]
    bare = [erased(ev.REGISTRY, event) for event in shell.events]
    state, difference = check(RUN, bare)
    assert difference is None
    assert [folded(bare[: number + 1]).phase for number in range(len(bare))] == phases
    found = state.action("0.0")
    assert found is not None
    assert (found.phase, found.consent.approvals) == (Phase.STARTED, 2)


def test_a_voter_is_told_apart_by_a_keyed_digest_of_the_id_alone() -> None:
    assert voter_digest(SALT, OTTO) == voter_digest(SALT, ev.Principal("otto", "service", "api-2", "signed"))
    assert voter_digest(SALT, OTTO) != voter_digest(SALT, EVE)
    assert voter_digest(SALT, OTTO) != voter_digest(b"t" * 32, OTTO)


def test_replay_sees_that_fewer_were_asked_than_was_planned() -> None:
    shell = waiting()
    events = [
        attrs.evolve(event, quorum=1) if isinstance(event, ev.ApprovalRequested) else event for event in shell.events
    ]
    _, difference = check(RUN, events)
    assert difference is not None
    assert difference.recorded == "ApprovalRequested"


# ---- standing rules

CALL = Planned("01RUN~0.1/2.0", "s-1", "desk", "wire", b"identity", {"to": "a", "n": 1})


def added(**fields: Any) -> ev.RuleAdded:
    made = ev.RuleAdded("r", "01RUN/0.0", "wire", b"identity", {"to": "a"}, by=MARIA)
    return attrs.evolve(made, **fields)


def book(*events: object) -> Book:
    found = Book()
    for event in events:
        found = evolve_book(found, event)
    return found


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, True),
        ({"arguments": {}}, True),
        ({"arguments": {"n": 1, "to": "a"}}, True),
        ({"arguments": {"n": True}}, False),
        ({"arguments": {"n": 1.0}}, False),
        ({"arguments": {"cc": None}}, False),
        ({"tool": "other"}, False),
        ({"identity": b"changed"}, False),
        ({"agent": "desk"}, True),
        ({"agent": "shop"}, False),
        ({"root": "01RUN"}, True),
        ({"root": "02RUN"}, False),
        ({"session": "s-1"}, True),
        ({"session": "s-2"}, False),
        ({"until": 101}, True),
        ({"until": 100}, False),
        ({"uses": 1}, True),
        ({"by": None}, False),
    ],
)
def test_which_calls_a_rule_fits(fields: dict[str, object], fits: bool) -> None:
    assert [rule.rule for rule in fitting(book(added(**fields)), CALL, now=100)] == ["r"] * fits


def test_an_erased_rule_fits_nothing() -> None:
    assert fitting(book(erased(ev.REGISTRY, added())), CALL, now=0) == []


def test_uses_are_counted_with_those_that_are_planned() -> None:
    stands = book(added(uses=2), ev.RuleUsed("r", "01RUN/0.0"))
    assert len(fitting(stands, CALL, now=0)) == 1
    # The same call twice is one use: planned, and then in the book.
    assert len(fitting(stands, CALL, now=0, taken=[("r", "01RUN/0.0")])) == 1
    assert fitting(stands, CALL, now=0, taken=[("r", "01RUN/0.1")]) == []


def test_a_rule_is_revoked_for_good_and_nobody_widens_it() -> None:
    over = book(
        added(), ev.RuleRevoked("r", OTTO), added(arguments={}), ev.RuleRevoked("r", EVE), ev.RuleUsed("x", "y")
    )
    assert fitting(over, CALL, now=0) == []
    assert (over.rules["r"].revoked_by, over.rules["r"].arguments, over.version) == (OTTO, {"to": "a"}, 5)


@given(st.lists(st.sampled_from(["otto", "eve", "ida", "maria"]), max_size=6), st.integers(1, 3))
def test_a_call_is_approved_exactly_when_so_many_different_people_have(names: list[str], quorum: int) -> None:
    shell = waiting(attrs.evolve(TWO, asks=((ev.Asking(quorum, separation=True), ()),)))
    counted: set[str] = set()
    for name in names:
        if len(counted) == quorum:
            break
        try:
            vote(shell, ev.Principal(name))
        except ApprovalError:
            assert name == "maria"
            continue
        counted.add(name)
    assert (shell.action("0.0").phase is Phase.APPROVED) == (len(counted) == quorum)
