"""Any run, driven by the rules through outcomes, kills, people and erasure in any order: what holds of all of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis.stateful import invariant
from tests.core.moves import Moves
from tests.core.shell import RUN, check_status, folded, unanswered

from trouper.core import events as ev
from trouper.core.decide import decide
from trouper.core.effects import Effect
from trouper.core.replay import check
from trouper.core.state import Phase, RunPhase, known
from trouper.core.steps import RequestModel, due


class AnyRun(Moves):
    """A run under everything that can happen to one."""

    @invariant()
    def the_fold_is_the_state(self) -> None:
        assert folded(self.shell.events) == self.shell.state
        assert self.shell.stored == self.shell.state
        assert self.shell.state.version == len(self.shell.events)

    @invariant()
    def an_ended_run_asks_for_nothing(self) -> None:
        state = self.shell.state
        if state.ended:
            assert not self.shell.children, "a child is left behind"
            assert decide(state) == ()
            assert not state.batch
            assert not state.unplanned

    @invariant()
    def every_call_is_answered_once_in_order(self) -> None:
        state = self.shell.state
        asks = any(isinstance(step, RequestModel) for step in decide(state))
        if state.ended or asks or (state.model is not None and state.model.phase == "requested"):
            assert unanswered(state.messages) == []
        receipts = Counter(event.action for event in self.shell.events if isinstance(event, ev.ActionReceipted))
        assert max(receipts.values(), default=0) <= 1

    @invariant()
    def a_call_that_several_must_approve_starts_when_so_many_have(self) -> None:
        votes: dict[str, set[str]] = {}
        asked: dict[str, ev.ApprovalRequested] = {}
        stands: dict[str, bytes] = {}
        tools = {event.action: event.tool for event in self.shell.events if isinstance(event, ev.ActionPlanned)}
        for event in self.shell.events:
            match event:
                case ev.ActionReplanned(action):
                    asked.pop(action, None)
                case ev.ApprovalRequested(action):
                    votes[action], asked[action], stands[action] = set(), event, event.digest
                case ev.ApprovalDecided(action) if event in self.decided and isinstance(event.by, ev.Principal):
                    if event.digest != stands[action]:
                        votes[action], stands[action] = set(), event.digest
                    votes[action].add(event.by.id)
                case ev.ActionStarted(action, 1) if action in asked and tools.get(action) == "wire":
                    assert len(votes[action]) >= asked[action].quorum
                    assert not asked[action].separation or "maria" not in votes[action]
                    assert votes[action] <= set(known(asked[action].eligible, ()))
                case _:
                    pass

    @invariant()
    def an_unqueryable_write_never_starts_twice_by_itself(self) -> None:
        free = Counter(
            event.action
            for event in self.shell.events
            if isinstance(event, ev.ActionInterrupted) and event.cause == "transient"
        )
        for event in self.shell.events:
            if isinstance(event, ev.ActionPlanned) and event.effect is Effect.UNQUERYABLE_WRITE:
                allowed = 1 + free[event.action] + self.again[event.action]
                assert self.shell.starts[event.action] <= allowed

    @invariant()
    def a_call_that_is_a_run_begins_once_and_is_never_interrupted(self) -> None:
        begun = Counter(event.action for event in self.shell.events if isinstance(event, ev.ChildStarted))
        assert max(begun.values(), default=0) <= 1
        cut = {event.action for event in self.shell.events if isinstance(event, ev.ActionInterrupted)}
        assert not cut & begun.keys()
        for event in self.shell.events:
            if isinstance(event, ev.ActionReceipted) and event.action in begun:
                assert (event.evidence, event.action in self.shell.children) == ("child", False)

    @invariant()
    def a_gated_call_starts_only_when_a_person_agreed(self) -> None:
        gates: dict[str, str] = {}
        agreed: dict[str, bool] = {}
        for event in self.shell.events:
            match event:
                case ev.ActionPlanned() | ev.ActionReplanned():
                    gates[event.action] = event.gate
                    agreed[event.action] = False
                case ev.ApprovalDecided() if event in self.decided:
                    agreed[event.action] = event.decision == "approve"
                case ev.ActionStarted():
                    assert gates[event.action] == "free" or agreed[event.action]
                case _:
                    pass

    @invariant()
    def what_was_denied_never_starts_and_what_must_be_authorized_was(self) -> None:
        denied: set[str] = set()
        asked: set[str] = set()
        for event in self.shell.events:
            match event:
                case ev.ActionDenied(action):
                    denied.add(action)
                case ev.ActionPlanned(action) | ev.ActionReplanned(action):
                    asked = asked | {action} if event.authorize else asked - {action}
                case ev.ActionAuthorized(action):
                    asked.discard(action)
                case ev.ActionStarted(action):
                    assert action not in denied | asked
                    started = self.shell.action(action) if self.shell.state.action(action) else None
                    assert started is None or started.tool != "export"
                case _:
                    pass

    @invariant()
    def steps_never_exceed_the_limit(self) -> None:
        state = self.shell.state
        first = [event for event in self.shell.events if isinstance(event, ev.ModelRequested) and event.attempt == 1]
        batches: set[str] = set()
        overdue = False
        for event in self.shell.events:
            if isinstance(event, ev.CancelRequested):
                break
            overdue = isinstance(event, ev.DeadlinePassed) or (overdue and not isinstance(event, ev.DeadlineExtended))
            if overdue:
                continue
            final = isinstance(event, ev.ActionPlanned) and state.terms.hands_in(event.tool)
            if isinstance(event, ev.ActionPlanned) and event.gate != "limit" and not final:
                batches.add(event.action.partition(".")[0])
        assert state.steps == len([event for event in first if not event.closing]) + len(batches)
        assert state.steps <= self.limits.max_steps + self.raised
        assert [event.index for event in first] == list(range(len(first)))

    @invariant()
    def what_is_said_is_heard_once_and_in_order(self) -> None:
        state = self.shell.state
        heard = [str(message.content) for message in state.messages if "/signal-" in message.id]
        unheard = [str(message.content) for signal in state.control.inbox for message in signal.messages]
        assert [*heard, *unheard] == self.said
        if state.phase is RunPhase.SUCCEEDED and not state.closing:
            assert unheard == []

    @invariant()
    def nothing_begins_while_it_is_paused_or_past_its_deadline(self) -> None:
        paused = overdue = False
        for event in self.shell.events:
            if isinstance(event, ev.PauseRequested):
                paused = True
            elif isinstance(event, ev.ResumeRequested | ev.CancelRequested):
                paused = False
            elif isinstance(event, ev.DeadlinePassed):
                overdue = True
            elif isinstance(event, ev.DeadlineExtended):
                overdue = False
            begins = ev.RunStarted | ev.ModelRequested | ev.ActionStarted | ev.ApprovalRequested | ev.RunSucceeded
            assert not ((paused or overdue) and isinstance(event, begins))

    @invariant()
    def a_run_succeeds_only_with_evidence_and_one_output(self) -> None:
        state = self.shell.state
        tools = {event.action: event.tool for event in self.shell.events if isinstance(event, ev.ActionPlanned)}
        ok = Counter(
            tools[event.action]
            for event in self.shell.events
            if isinstance(event, ev.ActionReceipted) and event.outcome == "ok"
        )
        del ok["final_result"]
        assert state.answer.receipts == dict(ok)
        accepted = [event for event in self.shell.events if isinstance(event, ev.OutputAccepted)]
        if state.phase is RunPhase.SUCCEEDED:
            assert all(sum(ok[tool] for tool in each.tools) >= each.count for each in state.terms.requires)
            assert not state.answer.refused
            assert not state.terms.output or accepted[-1].index == state.index - 1
        assert len(accepted) <= (1 if state.terms.output else 0)

    @invariant()
    def an_answer_is_sent_back_only_so_often(self) -> None:
        resumes = sum(isinstance(event, ev.ResumeRequested) for event in self.shell.events)
        sent_back = sum(isinstance(event, ev.OutputRejected) for event in self.shell.events)
        rounds = self.shell.state.terms.rounds
        assert sent_back <= rounds + 1 + max(1, rounds) * resumes

    @invariant()
    def replay_finds_no_difference(self) -> None:
        assert check(RUN, self.shell.events)[1] is None

    @invariant()
    def the_label_agrees_with_the_rules(self) -> None:
        if self.shell.events:
            check_status(self.shell.state)

    @invariant()
    def a_timer_fires_once_at_its_time(self) -> None:
        sleeps: dict[str, int] = {}
        for event in self.shell.events:
            if isinstance(event, ev.TimerSet):
                sleeps[event.action] = event.until
            elif isinstance(event, ev.TimerFired):
                assert sleeps.pop(event.action) <= self.shell.now

    @invariant()
    def nothing_hangs(self) -> None:
        """Whatever is not over waits for something under way, for a moment, or for a person."""
        shell, state = self.shell, self.shell.state
        if state.ended or not shell.events:
            return
        out = shell.model or shell.attempts or shell.queries or shell.left or shell.children
        waits = any(due(step) is not None for step in decide(state))
        people = state.awaiting or any(action.phase is Phase.UNRESOLVED for action in state.batch)
        assert out or waits or people or state.control.pause is not None
        assert state.phase in {RunPhase.SUBMITTED, RunPhase.RUNNING}


AnyRun.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyRun = AnyRun.TestCase
