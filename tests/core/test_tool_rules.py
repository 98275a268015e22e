"""The rules about tools, on states alone: what may start, what is tried again, what ends a run, what replay sees."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from tests.core.shell import RUN, SALT, folded

from trouper.core import events as ev
from trouper.core.conversation import Human
from trouper.core.decide import RULES, decide
from trouper.core.digests import call_digest, request_digest
from trouper.core.effects import Effect
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.core.steps import (
    AskApproval,
    Authorize,
    BindTools,
    Close,
    Deny,
    Doubt,
    Fail,
    QueryAction,
    RequestModel,
    StartAction,
    Step,
    Succeed,
)
from trouper.core.tooling import Denial
from trouper_journal import Value

ARGUMENTS: dict[str, Value] = {"n": 1}
DIGEST = call_digest(SALT, "act", b"identity", ARGUMENTS)


def planned(action: str = "0.0", **fields: object) -> ev.ActionPlanned:
    """A call of ``act`` as it was looked at."""
    plain = ev.ActionPlanned(action, "act", Effect.READ_ONLY, "free", b"identity", DIGEST, 2, ARGUMENTS)
    return attrs.evolve(plain, **fields)  # type: ignore[arg-type]  # the test's


def began(*calls: ev.ActionPlanned, grants: tuple[str, ...] = (), terms: ev.Terms = ev.NO_TERMS) -> list[object]:
    """A run whose model has asked for these calls."""
    asked = tuple(ev.AskedCall("act", '{"n": 1}') for _ in calls)
    submitted = ev.RunSubmitted("desk", None, (Human(f"{RUN}/input", "go"),), SALT, grants=grants)
    events: list[object] = [submitted, ev.RunStarted("d", "c", "p", RULES, ev.Limits(), terms)]
    digest = request_digest(folded(events).chain, "d", closing=False)
    events += [ev.ModelRequested(0, 1, digest), ev.ModelResponded(0, 1, "tool_calls", calls=asked), *calls]
    return events


def steps(events: Sequence[object]) -> tuple[Step, ...]:
    return decide(folded(events))


# ---- who may


def test_permissions_come_before_approval_and_authorisation_just_before_the_start() -> None:
    gated = planned(permissions=("a", "b"), authorize=True, gate="person")
    assert steps(began(gated, grants=("a",))) == (Deny("0.0", ("b",)),)
    granted = began(gated, grants=("a", "b", "c"))
    assert steps(granted) == (AskApproval("0.0", 1),)
    approved = [*granted, ev.ApprovalRequested("0.0", 1, DIGEST), ev.ApprovalDecided("0.0", 1, "approve", DIGEST)]
    assert steps(approved) == (Authorize("0.0"),)
    assert steps([*approved, ev.ActionAuthorized("0.0")]) == (StartAction("0.0", 1),)


@pytest.mark.parametrize(
    ("denied", "text"),
    [
        (
            ev.ActionDenied("0.0", "permissions", ("b",)),
            "Not started: this run lacks the permission b, which act takes.",
        ),
        (ev.ActionDenied("0.0", "tool", reason="no"), "Not started: denied: no."),
        (ev.ActionDenied("0.0", "runtime"), "Not started: denied."),
    ],
)
def test_a_denied_call_is_closed_with_its_reason(denied: ev.ActionDenied, text: str) -> None:
    events = [*began(planned(authorize=True)), denied]
    assert steps(events) == (Close("0.0", 0, "error", "not_started", text),)
    action = folded(events).action("0.0")
    assert action is not None
    assert action.denial == Denial(denied.policy, denied.missing, str(denied.reason))


def test_a_second_attempt_asks_nobody_again() -> None:
    events = [*began(planned(authorize=True)), ev.ActionAuthorized("0.0"), ev.ActionStarted("0.0", 1)]
    assert steps([*events, ev.ActionInterrupted("0.0", 1, "transient")]) == (StartAction("0.0", 2),)


@pytest.mark.parametrize("call", [planned(permissions=("a",)), planned(authorize=True)])
def test_an_auditor_sees_a_start_that_nobody_allowed(call: ev.ActionPlanned) -> None:
    events = began(call)
    assert check(RUN, events)[1] is None
    _, difference = check(RUN, [*events, ev.ActionStarted("0.0", 1)])
    assert difference is not None
    assert (difference.version, difference.recorded) == (len(events) + 1, "ActionStarted")


def test_an_auditor_sees_a_denial_for_want_of_what_was_granted() -> None:
    events = began(planned(permissions=("a",)), grants=("a",))
    _, difference = check(RUN, [*events, ev.ActionDenied("0.0", "permissions", ("a",))])
    assert difference is not None
    assert difference.recorded == "ActionDenied"


# ---- attempts


@pytest.mark.parametrize(
    ("effect", "first", "last"),
    [
        (Effect.READ_ONLY, StartAction, Close),
        (Effect.IDEMPOTENT_WRITE, StartAction, Doubt),
        (Effect.QUERYABLE_WRITE, QueryAction, QueryAction),
        (Effect.UNQUERYABLE_WRITE, Doubt, Doubt),
    ],
)
def test_what_follows_a_declared_error(effect: Effect, first: type, last: type) -> None:
    events = [*began(planned(effect=effect)), ev.ActionStarted("0.0", 1)]
    events.append(ev.ActionInterrupted("0.0", 1, "retryable", 77, "reset"))
    (step,) = steps(events)
    assert isinstance(step, first)
    if isinstance(step, StartAction):
        assert step == StartAction("0.0", 2, 77)
    events += [ev.ActionStarted("0.0", 2), ev.ActionInterrupted("0.0", 2, "retryable", 99, "reset")]
    (step,) = steps(events)
    assert isinstance(step, last)


def test_a_queried_write_keeps_to_its_wait() -> None:
    events = [*began(planned(effect=Effect.QUERYABLE_WRITE)), ev.ActionStarted("0.0", 1)]
    events += [ev.ActionInterrupted("0.0", 1, "retryable", 77), ev.ActionQueried("0.0", 1, "absent")]
    assert steps(events) == (StartAction("0.0", 2, 77),)


# ---- the course of a run


def ended(*oks: bool, kinds: Sequence[bool] | None = None, terms: ev.Terms = ev.NO_TERMS) -> list[object]:
    """A run whose calls have ended so; ``kinds`` says which of them return directly."""
    direct = kinds or [True] * len(oks)
    calls = [planned(f"0.{place}", direct=each) for place, each in enumerate(direct)]
    events = began(*calls, terms=terms)
    for place, ok in enumerate(oks):
        events.append(ev.ActionStarted(f"0.{place}", 1))
        events.append(ev.ActionReceipted(f"0.{place}", 1, "ok" if ok else "error", text=f"result {place}"))
    return events


def test_results_end_a_run_only_all_together() -> None:
    assert steps(ended(True)) == (Succeed("0.0"),)
    assert steps(ended(True, True)) == (Succeed("0.1"),)
    assert steps(ended(True, False)) == (RequestModel(1, 1),)
    assert steps(ended(True, True, kinds=[True, False])) == (RequestModel(1, 1),)


def test_the_result_is_the_output_unless_somebody_spoke_or_evidence_is_missing() -> None:
    state = folded([*ended(True, True), ev.RunSucceeded("0.1")])
    assert (state.output, state.tools.source) == ("result 1", "0.1")
    spoke = [*ended(True), ev.RunSignalled((Human("", "wait"),), ev.Principal("maria"))]
    spoke.append(ev.RunHeard(len(spoke)))
    assert steps(spoke) == (RequestModel(1, 1),)
    needs = ev.Terms(requires=(ev.Requirement(("another",)),))
    assert steps(ended(True, terms=needs)) == (RequestModel(1, 1),)


def test_an_auditor_sees_an_output_from_another_call() -> None:
    events = ended(True, True)
    assert check(RUN, [*events, ev.RunSucceeded("0.1")])[1] is None
    for source in ("0.0", None):
        _, difference = check(RUN, [*events, ev.RunSucceeded(source)])
        assert difference is not None


def bound(*events: object) -> RunState:
    started = ev.RunStarted("d", "c", "p", RULES, ev.Limits(), ev.Terms(binds=True))
    return folded([ev.RunSubmitted("desk", None, (Human(f"{RUN}/input", "go"),), SALT), started, *events])


def test_tools_are_chosen_before_each_call_of_the_model_and_not_before_each_attempt() -> None:
    assert decide(bound()) == (BindTools(0),)
    chosen = ev.ToolsBound(0, ("act",))
    assert decide(bound(chosen)) == (RequestModel(0, 1),)
    failed = (chosen, ev.ModelRequested(0, 1, b""), ev.ModelFailed(0, 1, 50))
    assert decide(bound(*failed)) == (RequestModel(0, 2, not_before=50),)
    assert bound(chosen).tools.offers(0) == ("act",)
    assert bound(chosen).tools.offers(1) is None
    wrong = bound(ev.ToolsBound(0, failed=True, error="no idea"))
    assert decide(wrong) == (Fail("binding", "no idea"),)


def test_tools_chosen_for_a_request_are_part_of_its_digest() -> None:
    plain = request_digest(b"chain", "d", closing=False)
    assert plain == request_digest(b"chain", "d", closing=False, tools=None)
    digests = {request_digest(b"chain", "d", closing=False, tools=each) for each in ((), ("a",), ("a", "b"), ("b",))}
    assert len(digests | {plain}) == 5
