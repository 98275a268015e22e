"""The rules of a run's answer, and that replay finds a run that did not keep to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest
from tests.core.shell import RUN, FakeTool, Shell, folded, unanswered

from trouper.core import events as ev
from trouper.core.conversation import AI, ToolCall, Usage
from trouper.core.decide import decide
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.replay import check
from trouper.core.state import RunPhase
from trouper.core.steps import CheckOutput, Fail, Reject
from trouper.runtime.protocol import Acted, Replied
from trouper_journal import ERASED

TOOLS: Mapping[str, FakeTool] = {
    "put": FakeTool(Effect.IDEMPOTENT_WRITE),
    "look": FakeTool(Effect.READ_ONLY),
    "sign": FakeTool(Effect.READ_ONLY, gated=True),
}
PUT = ev.Requirement(("put",))
BY_TEXT = ev.Terms(output=True)
BY_CALL = ev.Terms(output=True, output_tool="final_result")


def started(terms: ev.Terms, limits: ev.Limits | None = None) -> Shell:
    shell = Shell(TOOLS, terms)
    shell.submit(limits)
    shell.drive()
    return shell


def reply(shell: Shell, text: str | None = None, *calls: str, refusal: str | None = None) -> None:
    """The model's reply; a call is a tool's name, with ``!`` behind it where its arguments fit."""
    assert shell.model is not None
    made = tuple(
        ToolCall("", name.rstrip("!"), '{"n":1,"fits":1}' if name.endswith("!") else '{"n":1}') for name in calls
    )
    finish = "tool_calls" if calls else "stop"
    message = AI("", text, made, refusal=refusal)
    (index, attempt), shell.model = shell.model, None
    shell.deliver(Replied(index, attempt, ModelReply(message, finish, Usage(1, 1))))
    shell.drive()


def land(shell: Shell, *, ok: bool = True) -> None:
    """All calls under way end."""
    for name, attempt in list(shell.attempts.items()):
        del shell.attempts[name]
        shell.deliver(Acted(name, attempt, "returned" if ok else "tool_error", "done"))
    shell.drive()


def kinds(shell: Shell) -> Sequence[str]:
    return [
        event.kind if isinstance(event, ev.OutputRejected) else "accepted"
        for event in shell.events
        if isinstance(event, ev.OutputRejected | ev.OutputAccepted)
    ]


def sound(shell: Shell) -> None:
    """What holds of every one of these runs."""
    assert check(RUN, shell.events)[1] is None
    assert shell.stored == shell.state == folded(shell.events)
    if shell.state.ended:
        assert unanswered(shell.state.messages) == []


def test_a_run_succeeds_when_all_that_it_needs_is_there_and_not_before() -> None:
    shell = started(attrs.evolve(BY_CALL, requires=(PUT,)))
    reply(shell, None, "final_result!")
    reply(shell, None, "put", "final_result")
    land(shell)
    reply(shell, None, "look", "final_result!")
    land(shell)
    assert kinds(shell) == ["incomplete", "invalid", "accepted"]
    assert shell.state.phase is RunPhase.SUCCEEDED
    assert shell.state.output == '{"n":1}'
    assert shell.state.answer.receipts == {"put": 1, "look": 1}
    sound(shell)


def test_nothing_is_looked_at_while_a_call_beside_it_is_open() -> None:
    shell = started(BY_CALL)
    reply(shell, None, "final_result!", "put", "sign")
    assert not any(isinstance(step, CheckOutput) for step in decide(shell.state))
    land(shell)
    assert not any(isinstance(step, CheckOutput) for step in decide(shell.state))
    assert kinds(shell) == []
    sound(shell)


def test_a_failure_beside_it_hands_it_back_without_a_round() -> None:
    shell = started(attrs.evolve(BY_CALL, rounds=0))
    for _ in range(3):
        reply(shell, None, "final_result!", "put")
        land(shell, ok=False)
    assert kinds(shell) == []
    assert shell.state.answer.rejections == 0
    reply(shell, None, "final_result!")
    assert shell.state.phase is RunPhase.SUCCEEDED
    sound(shell)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_rounds_of_both_kinds_are_counted_together(rounds: int) -> None:
    shell = started(attrs.evolve(BY_TEXT, requires=(PUT,), rounds=rounds))
    reply(shell, "fits")
    if rounds:
        reply(shell, None, "put")
        land(shell)
    for _ in range(rounds):
        reply(shell, "no")
    assert shell.state.failure == ("output" if rounds else "incomplete")
    assert kinds(shell) == ["incomplete", *["invalid"] * rounds]
    sound(shell)


def test_a_success_without_evidence_is_found_by_replay() -> None:
    shell = started(ev.Terms(requires=(PUT,)))
    reply(shell, "done")
    place = next(number for number, event in enumerate(shell.events) if isinstance(event, ev.OutputRejected))
    forged = [*shell.events[:place], ev.RunSucceeded()]
    _, difference = check(RUN, forged)
    assert difference is not None
    assert (difference.version, difference.recorded) == (place + 1, "RunSucceeded")
    assert "Reject" in difference.expected[0]


def test_an_output_that_nobody_may_look_at_yet_is_found_by_replay() -> None:
    shell = started(BY_CALL)
    reply(shell, None, "final_result!", "put")
    _, difference = check(RUN, [*shell.events, ev.OutputAccepted(0, "0.0", {"n": 1})])
    assert difference is not None
    assert difference.recorded == "OutputAccepted"


def test_a_repeat_after_a_refusal_or_a_call_begun_beside_one_is_found_by_replay() -> None:
    shell = started(BY_TEXT)
    reply(shell, None, "put", refusal="no")
    assert shell.state.failure == "refused"
    forged = [*shell.events[:-1], ev.ModelRequested(1, 1, b"")]
    _, difference = check(RUN, forged)
    assert difference is not None
    assert difference.expected == (repr(Fail("refused", shell.state.failure_message)),)
    sound(shell)


def test_erased_outputs_and_remarks_leave_the_same_facts() -> None:
    shell = started(attrs.evolve(BY_TEXT, requires=(PUT,)))
    reply(shell, "fits")
    reply(shell, None, "put")
    land(shell)
    reply(shell, "fits")
    erased: list[object] = []
    for event in shell.events:
        match event:
            case ev.OutputAccepted():
                erased.append(attrs.evolve(event, value=ERASED))
            case ev.OutputRejected():
                erased.append(attrs.evolve(event, text=ERASED))
            case _:
                erased.append(event)
    state, difference = check(RUN, erased)
    assert difference is None
    assert (state.phase, state.answer.verdict, state.answer.value) == (RunPhase.SUCCEEDED, "accepted", None)


def test_at_the_limit_the_last_answer_is_looked_at_once() -> None:
    shell = started(attrs.evolve(BY_TEXT, rounds=5), ev.Limits(max_steps=1, on_limit="finish"))
    reply(shell, None, "look")
    assert shell.state.model is not None
    assert shell.state.model.closing
    reply(shell, "no")
    assert shell.state.failure == "output"
    sound(shell)


def test_handing_in_takes_no_step_and_is_possible_at_the_limit() -> None:
    shell = started(BY_CALL, ev.Limits(max_steps=1))
    reply(shell, None, "final_result!")
    assert (shell.state.phase, shell.state.steps) == (RunPhase.SUCCEEDED, 1)
    sound(shell)


def test_rules_name_what_is_missing_from_the_state_alone() -> None:
    shell = started(ev.Terms(requires=(ev.Requirement(("put", "look"), 2),), rounds=9))
    reply(shell, None, "look")
    land(shell)
    reply(shell, "done")
    (rejected,) = [event for event in shell.events if isinstance(event, ev.OutputRejected)]
    at = shell.events.index(rejected)
    (step,) = decide(folded(shell.events[:at]))
    assert isinstance(step, Reject)
    assert "2 calls of put or look that succeed (so far: 1)" in step.text
