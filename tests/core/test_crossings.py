"""Rules where two things meet: time that is up and hooks, an accepted output and what is said after it."""

from __future__ import annotations

from tests.core.shell import RUN, SALT, FakeTool, Shell, folded_by
from tests.core.test_hooked_machine import HookShell

from trouper.core import events as ev
from trouper.core.commands import Already, Judgement, decide_approval
from trouper.core.conversation import AI, Human, ToolCall, Usage
from trouper.core.decide import decide
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.fork import Fork
from trouper.core.history import closed_history
from trouper.core.hook_events import HookDone
from trouper.core.hook_ops import Insert, Spend
from trouper.core.replay import check
from trouper.core.state import Phase
from trouper.core.steps import RequestModel, RunHook, Succeed
from trouper.runtime.protocol import Acted, Hooked, Replied
from trouper.tools import Timer
from trouper_journal import Value

MARIA = ev.Principal("maria")
HOOKED = ev.Terms(hooks=("after_model",))


def late_reply(*calls: ToolCall) -> Shell:
    """A reply that comes just when the time is up, of an agent with hooks behind its model."""
    made = Shell({"put": FakeTool(Effect.IDEMPOTENT_WRITE)}, HOOKED)
    made.submit(ev.Limits(max_seconds=1, on_limit="finish"))
    made.drive()
    made.deliver(Replied(0, 1, ModelReply(AI("", "secret", calls), "tool_calls" if calls else "stop", Usage(1, 1))))
    made.append(ev.BudgetRefused("seconds", RUN, 10**9, 10**9, on_limit="finish"))
    return made


def test_no_reply_passes_the_hooks_because_the_time_is_up() -> None:
    """What redacts a reply must see it before it is the output, or is shown to the model again."""
    for calls in ((), (ToolCall("", "put", "{}"),)):
        made = late_reply(*calls)
        assert decide(made.state) == (RunHook("after_model", "0"),)
        made.append(ev.HookApplied("after_model", "0"))
        made.drive()
        if calls:
            assert made.starts.total() == 0
            assert made.model == (1, 1)
            assert made.state.closing
        else:
            assert made.state.output == "secret"


def test_an_output_that_was_overtaken_is_not_the_output_of_another_definition() -> None:
    made = Shell({}, ev.Terms(output=True))
    made.submit(None)
    made.drive()
    made.deliver(Replied(0, 1, ModelReply(AI("", "fits"), "stop", Usage(1, 1))))
    made.append(ev.OutputAccepted(0, None, {"n": 1}))
    made.append(ev.RunSignalled((Human("", "one more thing"),), MARIA))
    made.drive()
    assert made.model == (1, 1)
    made.append(ev.DefinitionAdopted("d2", "c2", "p2", MARIA, ev.NO_TERMS))
    made.deliver(Replied(1, 1, ModelReply(AI("", "in words"), "stop", Usage(1, 1))))
    assert decide(made.state) == (Succeed(),)
    made.drive()
    assert made.state.output == "in words"
    assert made.state.answer.verdict is None


def test_a_call_that_sleeps_is_not_said_to_be_not_started() -> None:
    made = Shell({"put": FakeTool(Effect.IDEMPOTENT_WRITE)})
    made.submit(None)
    made.drive()
    made.deliver(Replied(0, 1, ModelReply(AI("", None, (ToolCall("", "put", "{}"),)), "tool_calls", Usage(1, 1))))
    made.drive()
    made.deliver(Acted("0.0", 1, "returned", "ok", timer=Timer(seconds=60)))
    assert made.action("0.0").phase is Phase.SLEEPING
    assert str(closed_history(made.state)[-1].content).startswith("No result yet")


def test_a_history_has_results_that_are_more_than_text_as_they_are() -> None:
    made = Shell({"put": FakeTool(Effect.IDEMPOTENT_WRITE)})
    made.submit(None)
    made.drive()
    both = (ToolCall("", "put", "{}"), ToolCall("", "put", "{}"))
    made.deliver(Replied(0, 1, ModelReply(AI("", None, both), "tool_calls", Usage(1, 1))))
    made.drive()
    picture: list[Value] = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    made.append(ev.ActionReceipted("0.0", 1, "ok", text="[image]", parts=picture))
    whole = folded_by(made.state, [ev.ActionReceipted("0.1", 1, "ok", text="fine")])
    assert closed_history(made.state)[-2].content == whole.messages[-2].content == tuple(picture)


def test_a_fork_has_not_asked_for_the_reply_that_it_begins_with() -> None:
    reply = AI(f"{RUN}/0", None, (ToolCall(f"{RUN}/0.0", "put", "{}"),))
    made = Shell({"put": FakeTool(Effect.READ_ONLY)})
    asked = (Human(f"{RUN}/input", "go"), reply)
    limits = ev.Limits(max_model_calls=1)
    made.append(ev.RunSubmitted("desk", limits, asked, SALT, MARIA, fork=Fork("01OTHER", 9)))
    made.drive()
    made.deliver(Acted("0.0", 1, "returned", "there"))
    assert made.state.spent.model_calls == 0
    assert made.state.spent.unpriced == 0
    assert RequestModel(1, 1) in decide(made.state)
    made.drive()
    assert made.state.spent.model_calls == 1


def test_the_same_arguments_are_no_edit_that_restarts_a_quorum() -> None:
    two = ((ev.Asking(2), ()),)
    made = Shell({"sign": FakeTool(Effect.READ_ONLY, gated=True, asks=two)})
    made.submit(None)
    made.drive()
    made.deliver(Replied(0, 1, ModelReply(AI("", None, (ToolCall("", "sign", "{}"),)), "tool_calls", Usage(1, 1))))
    made.drive()
    for who, arguments in (("ann", {"n": 2}), ("bob", {"n": 2})):
        event = decide_approval(made.state, "0.0", Judgement("approve", ev.Principal(who), None, arguments), now=1)
        assert not isinstance(event, Already)
        made.append(event)
    action = made.action("0.0")
    assert action.phase is Phase.APPROVED
    assert action.arguments == {"n": 2}
    assert action.original == {"n": 1}
    assert action.decision is not None


def test_a_deadline_and_a_limit_of_time_that_have_passed_together_are_not_both_taken() -> None:
    made = Shell({"sign": FakeTool(Effect.READ_ONLY, gated=True)})
    made.submit(ev.Limits(max_seconds=1e-7), deadline=1_050)
    made.drive()
    made.deliver(Replied(0, 1, ModelReply(AI("", None, (ToolCall("", "sign", "{}"),)), "tool_calls", Usage(1, 1))))
    made.drive()
    made.now = 5_000
    made.drive()
    assert made.state.failure == "deadline"
    assert not any(isinstance(event, ev.BudgetRefused) for event in made.events)
    assert check(RUN, made.events)[1] is None


def test_hooks_before_the_model_see_the_warning_that_they_have_brought_about() -> None:
    made = HookShell({})
    made.terms = ev.Terms(hooks=("before_model",))
    made.submit(ev.Limits(max_model_calls=2, soft=0.5))
    made.drive()
    for _ in range(2):
        assert made.hook is not None
        (step, chain), made.hook = made.hook, None
        asked = (HookDone("h", (Spend("m", 1, 1),)),) if made.state.hooks.asked == 0 else ()
        made.deliver(Hooked(step.point, step.subject, chain, asked, (), ""))
        made.drive()
    assert [type(event).__name__ for event in made.events[-4:]] == [
        "HookApplied", "BudgetWarned", "HookApplied", "ModelRequested",
    ]  # fmt: skip
    assert check(RUN, made.events)[1] is None


def called(made: HookShell) -> tuple[RunHook, bytes]:
    """The hooks that are out come back."""
    assert made.hook is not None
    found, made.hook = made.hook, None
    return found


def test_what_hooks_spent_counts_though_the_run_has_moved_on_meanwhile() -> None:
    made = HookShell({})
    made.terms = ev.Terms(hooks=("before_model",))
    made.submit(ev.Limits(max_model_calls=3))
    made.drive()
    step, chain = called(made)
    made.append(ev.RunSignalled((Human("", "wait"),), MARIA))
    made.drive()
    asked = (HookDone("h", (Insert(Human("x", "y")), Spend("m", 7, 2))),)
    made.deliver(Hooked(step.point, step.subject, chain, asked, (), ""))
    assert made.state.spent.model_calls == 1
    assert (made.state.usage.input_tokens, made.state.usage.output_tokens) == (7, 2)
    assert made.state.hooks.ops == ()
    # They are called again, now that they can see what was said.
    made.drive()
    assert called(made)[1] == made.state.chain != chain
    assert check(RUN, made.events)[1] is None


def test_nothing_is_said_before_a_call_has_its_answer_because_the_time_is_up() -> None:
    """The call is over and its hooks have not seen it yet: the run fails, and what was said is heard if it goes on."""
    made = Shell({"look": FakeTool(Effect.READ_ONLY)}, ev.Terms(hooks=("after_tool",)))
    made.submit(ev.Limits(max_seconds=1))
    made.drive()
    made.deliver(Replied(0, 1, ModelReply(AI("", None, (ToolCall("", "look", "{}"),)), "tool_calls", Usage(1, 1))))
    made.drive()
    made.append(ev.ActionReceipted("0.0", 1, "ok", text="seen"))
    made.append(ev.RunSignalled((Human("", "hurry"),), MARIA))
    made.append(ev.BudgetRefused("seconds", RUN, 10**9, 10**9, on_limit="raise"))
    made.drive()
    assert made.state.failure == "budget"
    assert [message.role for message in closed_history(made.state)] == ["human", "ai", "tool"]
    assert len(made.state.control.inbox) == 1
