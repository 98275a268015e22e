"""Events that anyone may append past the rules: they are folded everywhere alike, and never break or revive a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.core.shell import RUN, SALT, Shell, folded

from trouper.core import events as ev
from trouper.core.conversation import AI, Human
from trouper.core.decide import decide
from trouper.core.exchange import ModelReply
from trouper.core.family import Parent
from trouper.core.state import RunPhase
from trouper.core.status import status
from trouper.errors import ModelError
from trouper.runtime.protocol import Replied

MARIA = ev.Principal("maria")
NONSENSE: Sequence[ev.BudgetRaised] = (
    ev.BudgetRaised(-1000, MARIA),
    ev.BudgetRaised(model_calls=-1000),
    ev.BudgetRaised(by_tool={"add": -7}),
    ev.BudgetRaised(seconds=-1e9),
    ev.BudgetRaised(seconds=1e308),
)
LIMITS = ev.Limits(max_model_calls=5, tool_calls={"add": 3}, max_seconds=60)


@pytest.mark.parametrize("event", NONSENSE, ids=repr)
@pytest.mark.parametrize("first", [False, True], ids=["later", "before it is taken up"])
def test_limits_are_only_ever_raised(event: ev.BudgetRaised, *, first: bool) -> None:
    made = Shell({})
    made.submit(LIMITS)
    if not first:
        made.drive()
    made.append(event)
    made.drive()
    assert made.state.limits == LIMITS
    assert made.state.budget.deadline == 1_000 + 60 * 10**9
    assert made.model == (0, 1)
    # One that raises one thing and takes from another does the first.
    made.append(ev.BudgetRaised(2, MARIA, model_calls=-4))
    assert made.state.limits is not None
    assert (made.state.limits.max_steps, made.state.limits.max_model_calls) == (52, 5)


def _failed_child(deadline: int | None = None, limits: ev.Limits | None = None) -> Shell:
    made = Shell({})
    asked = (Human(f"{RUN}/input", "go"),)
    parent = Parent("01TOP", "0.0")
    made.append(ev.RunSubmitted("desk", limits, asked, SALT, MARIA, parent=parent, deadline=deadline))
    made.drive()
    return made


def test_a_sub_agent_whose_caller_was_told_of_its_end_does_not_go_on() -> None:
    broken = _failed_child()
    assert broken.model is not None
    broken.deliver(Replied(0, 1, None, ModelError("no")))
    late = _failed_child(deadline=2_000)
    late.now = 2_000
    late.drive()
    spent = _failed_child(limits=ev.Limits(max_steps=1))
    assert spent.model is not None
    spent.deliver(Replied(0, 1, ModelReply(AI("", None, ()), "length", truncated=True)))
    for made in (broken, late):
        made.drive()
        assert made.state.phase is RunPhase.FAILED
        for event in (ev.ResumeRequested(MARIA), ev.DeadlineExtended(9_000), ev.BudgetRaised(5, MARIA)):
            made.append(event)
            assert made.state.phase is RunPhase.FAILED
            assert decide(made.state) == ()


def test_what_anyone_appends_is_read_back_as_it_was() -> None:
    made = Shell({})
    made.submit(LIMITS)
    made.append(*NONSENSE)
    made.drive()
    assert folded(made.events) == made.stored == made.state


def test_a_run_that_asks_its_model_again_at_its_step_limit_waits_for_nobody() -> None:
    made = Shell({})
    made.submit(ev.Limits(max_steps=1, on_limit="wait"))
    made.drive()
    made.deliver(Replied(0, 1, None, ModelError("busy", retryable=True)))
    told = status(made.state)
    assert told.label == "retrying"
    assert made.state.model is not None
    assert told.wake_at == made.state.model.retry_at
