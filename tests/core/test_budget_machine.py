"""Any run with limits, through replies, failures, kills, refusals from above and top-ups: none is exceeded."""

from __future__ import annotations

from typing import Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.shell import RUN, FakeTool, Shell, check_status, folded, unanswered

from trouper.core import events as ev
from trouper.core import steps
from trouper.core.budget import Raise, Reserve
from trouper.core.conversation import AI, ToolCall, Usage
from trouper.core.decide import decide
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.raising import raise_limit
from trouper.core.replay import check
from trouper.core.spending import bound
from trouper.core.steps import Step, due
from trouper.errors import ModelError, TrouperError
from trouper.runtime.protocol import Acted, Replied

MARIA = ev.Principal("maria")
ABOVE = "01RUN-ABOVE"
TOOLS = {
    "look": FakeTool(Effect.READ_ONLY),
    "put": FakeTool(Effect.IDEMPOTENT_WRITE, attempts=2),
    "sign": FakeTool(Effect.READ_ONLY, gated=True),
}
RAISES = [
    Raise(steps=2),
    Raise(model_calls=1),
    Raise(tool_calls=2),
    Raise(by_tool={"look": 1}),
    Raise(tokens=30),
    Raise(seconds=2e-7),
]
OnLimit = Literal["raise", "finish", "wait"]


class SpendingShell(Shell):
    """A shell that reckons tokens and asks above, as the runtime's planner does."""

    refusals = 0

    def _take(self, step: Step) -> None:
        if not isinstance(step, steps.RequestModel):
            super()._take(step)
            return
        limits, spent = self.state.limits, self.state.spent
        if self.refusals:
            self.refusals -= 1
            self.append(ev.BudgetRefused("tokens", ABOVE, 10, 9, on_limit="wait" if self.refusals % 2 else "raise"))
            return
        reserve = None
        if limits is not None and limits.max_tokens is not None:
            reserve = Reserve(10, 5)
            if not step.closing and spent.tokens + reserve.tokens > limits.max_tokens:
                self.append(ev.BudgetRefused("tokens", RUN, limits.max_tokens, spent.tokens, on_limit=limits.on_limit))
                return
        self.append(ev.ModelRequested(step.index, step.attempt, b"", step.closing, reserve=reserve))
        self.model = (step.index, step.attempt)


class AnySpending(RuleBasedStateMachine):
    """A run that has limits of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = SpendingShell(TOOLS)

    @initialize(
        max_steps=st.sampled_from([3, 50]),
        on_limit=st.sampled_from(["raise", "finish", "wait"]),
        model_calls=st.none() | st.integers(1, 4),
        tool_calls=st.none() | st.integers(1, 4),
        looks=st.none() | st.integers(0, 2),
        rest=st.tuples(
            st.none() | st.integers(1, 80), st.none() | st.sampled_from([1e-7, 5e-7]), st.none() | st.just(0.5)
        ),
    )
    def submitted(
        self,
        max_steps: int,
        on_limit: OnLimit,
        model_calls: int | None,
        tool_calls: int | None,
        looks: int | None,
        rest: tuple[int | None, float | None, float | None],
    ) -> None:
        tokens, seconds, soft = rest
        self.limits = ev.Limits(
            max_steps,
            on_limit,
            max_model_calls=model_calls,
            max_tool_calls=tool_calls,
            tool_calls={} if looks is None else {"look": looks},
            max_tokens=tokens,
            max_seconds=seconds,
            soft=soft,
        )
        self.shell.submit(self.limits)
        self.shell.drive()

    @precondition(lambda self: self.shell.model is not None)
    @rule(names=st.lists(st.sampled_from(sorted(TOOLS)), min_size=1, max_size=4), told=st.booleans())
    def model_calls_tools(self, names: list[str], *, told: bool) -> None:
        index, attempt = self._land()
        message = AI("", None, tuple(ToolCall("", name, "{}", "x") for name in names))
        usage = Usage(10, 5) if told else Usage()
        self.shell.deliver(Replied(index, attempt, ModelReply(message, "tool_calls", usage)))
        self.shell.drive()

    @precondition(lambda self: self.shell.model is not None)
    @rule(what=st.sampled_from(["answers", "fails", "fails", "dies"]))
    def model_does_something_else(self, what: str) -> None:
        if what == "dies":
            self.shell.die()
            self.shell.start()
        else:
            index, attempt = self._land()
            reply = ModelReply(AI("", "done"), "stop", Usage(10, 5)) if what == "answers" else None
            error = None if reply else ModelError("busy", retryable=True)
            self.shell.deliver(Replied(index, attempt, reply, error))
        self.shell.drive()

    def _land(self) -> tuple[int, int]:
        assert self.shell.model is not None
        landed, self.shell.model = self.shell.model, None
        return landed

    @precondition(lambda self: bool(self.shell.attempts))
    @rule(data=st.data(), result=st.sampled_from(["returned", "returned", "transient", "tool_error", "cancelled"]))
    def tool_ends(
        self, data: st.DataObject, result: Literal["returned", "transient", "tool_error", "cancelled"]
    ) -> None:
        name = data.draw(st.sampled_from(sorted(self.shell.attempts)))
        attempt = self.shell.attempts.pop(name)
        self.shell.deliver(Acted(name, attempt, result, "so"))
        self.shell.drive()

    @precondition(lambda self: bool(self.shell.state.awaiting))
    @rule(data=st.data())
    def somebody_approves(self, data: st.DataObject) -> None:
        action = data.draw(st.sampled_from(self.shell.state.awaiting))
        self.shell.append(ev.ApprovalDecided(action.action, action.request, "approve", action.digest, MARIA))
        self.shell.drive()

    @rule(more=st.sampled_from(RAISES))
    def somebody_raises(self, more: Raise) -> None:
        try:
            event = raise_limit(self.shell.state, more, by=MARIA, reason="go on", now=self.shell.now)
        except TrouperError:
            return
        failed = self.shell.state.ended
        self.shell.append(event)
        assert not (failed and self.shell.state.ended)
        self.shell.drive()

    @precondition(lambda self: not self.shell.state.ended)
    @rule()
    def the_tree_has_no_more(self) -> None:
        self.shell.refusals = 1

    @precondition(lambda self: self.shell.state.budget.refused is not None)
    @rule()
    def somebody_raises_above(self) -> None:
        refused = self.shell.state.budget.refused
        assert refused is not None
        if refused.owner == ABOVE and not self.shell.state.ended:
            self.shell.append(ev.BudgetRaised(by=MARIA, owner=ABOVE))
            self.shell.drive()

    @rule(later=st.sampled_from([10, 100, 1_000_000_000]))
    def time_passes(self, later: int) -> None:
        self.shell.now += later
        self.shell.drive()

    # ---- what always holds

    @invariant()
    def counts_are_exact_and_within_their_limits(self) -> None:
        state, limits = self.shell.state, self.shell.state.limits
        started = {event.action for event in self.shell.events if isinstance(event, ev.ActionStarted)}
        assert state.spent.tool_calls == len(started) == sum(state.spent.by_tool.values())
        if limits is None or not state.started:
            return
        closing = any(isinstance(event, ev.ModelRequested) and event.closing for event in self.shell.events)
        assert limits.max_tool_calls is None or state.spent.tool_calls <= limits.max_tool_calls
        assert all(state.spent.by_tool.get(tool, 0) <= calls for tool, calls in limits.tool_calls.items())
        assert limits.max_model_calls is None or state.spent.model_calls <= limits.max_model_calls + closing

    @invariant()
    def tokens_hold_up_to_the_reserve(self) -> None:
        state, limits = self.shell.state, self.shell.state.limits
        if limits is not None and limits.max_tokens is not None and state.started:
            closing = [event for event in self.shell.events if isinstance(event, ev.ModelRequested) and event.closing]
            assert bound(state).tokens <= limits.max_tokens + 15 * len(closing)
        lost = sum(isinstance(event, ev.ModelLost) for event in self.shell.events)
        assert state.spent.unknown >= lost

    @invariant()
    def turn_ids_never_repeat(self) -> None:
        first = [
            event.index for event in self.shell.events if isinstance(event, ev.ModelRequested) and event.attempt == 1
        ]
        assert first == list(range(len(first)))

    @invariant()
    def nothing_begins_when_the_time_is_up(self) -> None:
        up = False
        for event in self.shell.events:
            if isinstance(event, ev.BudgetRefused) and event.resource == "seconds":
                up = True
            elif isinstance(event, ev.BudgetRaised) and event.seconds:
                up = False
            elif up:
                assert not isinstance(event, ev.ActionStarted | ev.ApprovalRequested)
                assert not isinstance(event, ev.ModelRequested) or event.closing

    @invariant()
    def history_is_valid_for_the_wire(self) -> None:
        state = self.shell.state
        if state.ended or (state.model is not None and state.model.phase == "requested"):
            assert unanswered(state.messages) == []

    @invariant()
    def it_waits_for_something(self) -> None:
        shell, state = self.shell, self.shell.state
        if not shell.events:
            return
        check_status(state)
        if state.ended:
            return
        under_way = shell.model or shell.attempts or any(due(step) is not None for step in decide(state))
        people = state.awaiting or state.in_doubt or state.budget.refused is not None
        at_steps = state.limits is not None and state.steps >= state.limits.max_steps
        assert under_way or people or at_steps

    @invariant()
    def fold_and_replay_agree(self) -> None:
        assert folded(self.shell.events) == self.shell.state == self.shell.stored
        assert check(RUN, self.shell.events)[1] is None


AnySpending.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestAnySpending = AnySpending.TestCase
