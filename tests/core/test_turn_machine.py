"""A turn of a session before it begins, through kills, cancels and summaries that fail: what holds of all of them."""

from __future__ import annotations

from typing import Literal

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.shell import RUN, SALT, Shell, folded

from trouper.core import events as ev
from trouper.core import steps
from trouper.core.base import Base, HistoryRef, base_chain
from trouper.core.commands import cancel_run
from trouper.core.control_commands import pause_run
from trouper.core.conversation import AI, Human, Usage
from trouper.core.decide import RULES, decide
from trouper.core.evolve_session import lead_of
from trouper.core.exchange import ModelReply
from trouper.core.replay import check
from trouper.core.status import AT_ONCE, status
from trouper.core.steps import Step, due
from trouper.errors import ModelError
from trouper.runtime.protocol import SUMMARY, Replied
from trouper_journal import ERASED

MARIA = ev.Principal("maria")
BEFORE = HistoryRef("01BEFORE", 9, digest=b"d" * 32)
KEPT = (HistoryRef("01BEFORE", 9, whole=False, skip=4),)
DROPPED = (HistoryRef("01BEFORE", 9, whole=False, take=4),)


class TurnShell(Shell):
    """Carries out what comes before a turn's start.

    Attributes:
        long: What is to be done about its history: nothing, cut it down, or have it summarised.
    """

    long: Literal["no", "cut", "summarised"] = "no"

    def _take(self, step: Step) -> None:
        match step:
            case steps.Start():
                self._start()
            case steps.Summarise(attempt):
                self._ask(attempt)
            case steps.AbandonSummary(attempt):
                self.append(ev.SummaryFailed(attempt, "cancelled"))
                self.model = None
            case steps.Compact():
                assert self.state.turn is not None
                assert self.state.turn.compaction is not None
                self.append(ev.ContextCompacted(KEPT, DROPPED, 4, reason=self.state.turn.compaction.reason))
            case _:
                super()._take(step)

    def _start(self) -> None:
        turn = self.state.turn
        assert turn is not None
        if turn.compaction is None and self.state.base is not None and self.long == "summarised":
            self._ask(1)
            return
        if turn.compaction is None and self.state.base is not None and self.long == "cut":
            self.append(ev.ContextCompacted(KEPT, DROPPED, 4))
        base = self.state.base
        if base is not None:
            base = Base(base.refs, base_chain(b"lead" if lead_of(self.state) else b"", base.refs), 4)
        self.append(ev.RunStarted("d1", "c1", "p1", RULES, ev.Limits(), base=base))

    def _ask(self, attempt: int) -> None:
        self.append(ev.SummaryRequested(attempt, b"digest", KEPT, DROPPED, 4))
        self.model = (SUMMARY, attempt)

    def start(self) -> None:
        """A process takes the run up: a summary that was waited for is lost."""
        super().start()
        compaction = self.state.turn.compaction if self.state.turn is not None else None
        if compaction is not None and compaction.phase == "requested":
            self.append(ev.SummaryFailed(compaction.attempt, "restart"))


class AnyTurn(RuleBasedStateMachine):
    """A turn, up to its first request."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = TurnShell({})
        self.first = False

    @initialize(
        long=st.sampled_from(["no", "cut", "summarised"]), given=st.booleans(), first=st.booleans(), later=st.booleans()
    )
    def sent(self, long: Literal["no", "cut", "summarised"], *, given: bool, first: bool, later: bool) -> None:
        self.shell.long = long
        self.first = first
        asked = (Human(f"{RUN}/input", "go"),)
        place = ev.SessionTurn("s", 3, 7)
        self.shell.append(ev.RunSubmitted("desk", None, asked, SALT, start_at=1_050 if later else None, turn=place))
        if given:
            self._give()
        self.shell.drive()

    def _give(self) -> None:
        self.shell.append(ev.TurnGiven(None if self.first else BEFORE))

    @precondition(lambda self: not self.shell.state.ended)
    @rule()
    def the_turn_comes(self) -> None:
        """Once, or (as nobody would) again."""
        self._give()
        self.shell.drive()

    @precondition(lambda self: self.shell.model is not None and self.shell.model[0] == SUMMARY)
    @rule(said=st.sampled_from(["in short", "", "busy", "broken", "nothing"]))
    def the_summary_comes(self, said: str) -> None:
        assert self.shell.model is not None
        landed, self.shell.model = self.shell.model, None
        error: Exception | None = None
        reply: ModelReply | None = None
        match said:
            case "busy":
                error = ModelError("busy", retryable=True, retry_after=3)
            case "broken":
                error = OSError("broken")
            case "nothing":
                self.shell.draining = True
            case _:
                reply = ModelReply(AI("", said), "stop", Usage(10, 5))
        self.shell.deliver(Replied(*landed, reply, error))
        if self.shell.draining:
            self.shell.die()
            self.shell.start()
        self.shell.drive()

    @rule(what=st.sampled_from(["kill", "cancel", "pause", "resume", "time"]), skip=st.integers(1, 10**10))
    def something_happens(self, what: str, skip: int) -> None:
        shell = self.shell
        match what:
            case "kill":
                shell.die()
                shell.start()
            case "cancel" if skip % 4 == 0:
                shell.command(cancel_run(shell.state, by=MARIA, reason=None))
            case "pause" if not shell.state.ended and shell.state.cancel is None:
                shell.command(pause_run(shell.state, by=MARIA, reason=None))
            case "resume" if shell.state.control.pause is not None:
                shell.append(ev.ResumeRequested(MARIA))
            case "time":
                shell.now += skip
        shell.drive()

    # ---- what always holds

    @invariant()
    def the_fold_is_the_state_and_replay_agrees(self) -> None:
        shell = self.shell
        assert folded(shell.events) == shell.state == shell.stored
        assert check(RUN, shell.events)[1] is None

    @invariant()
    def erased_it_is_still_folded(self) -> None:
        events = [
            attrs.evolve(event, **dict.fromkeys(ev.REGISTRY.spec(type(event)).content, ERASED))  # type: ignore[misc]  # events are attrs classes
            for event in self.shell.events
        ]
        state, difference = check(RUN, events)
        assert difference is None
        assert (state.version, state.phase, state.base) == (
            self.shell.state.version, self.shell.state.phase, self.shell.state.base,
        )  # fmt: skip

    @invariant()
    def nothing_begins_before_its_turn(self) -> None:
        began = [type(event) for event in self.shell.events]
        for kind in (ev.SummaryRequested, ev.ContextCompacted, ev.RunStarted):
            if kind in began:
                assert ev.TurnGiven in began[: began.index(kind)]
        assert began.count(ev.RunStarted) <= 1
        assert began.count(ev.ContextCompacted) <= 1

    @invariant()
    def a_summary_is_asked_for_at_most_twice(self) -> None:
        asked = [event.attempt for event in self.shell.events if isinstance(event, ev.SummaryRequested)]
        assert asked in ([], [1], [1, 2])
        compacted = [event for event in self.shell.events if isinstance(event, ev.ContextCompacted)]
        if compacted and asked and compacted[0].summary is None:
            assert compacted[0].reason

    @invariant()
    def what_it_starts_from_is_what_is_left(self) -> None:
        state = self.shell.state
        if not state.started:
            return
        compacted = any(isinstance(event, ev.ContextCompacted) for event in self.shell.events)
        refs = () if state.base is None else state.base.refs
        assert refs == (() if self.first else KEPT if compacted else (BEFORE,))

    @invariant()
    def its_status_says_whether_anything_is_to_be_done(self) -> None:
        state = self.shell.state
        told = status(state)
        if state.ended or state.started:
            return
        turn = state.turn
        assert turn is not None
        waits = turn.compaction is not None and turn.compaction.phase == "requested"
        moments = [due(step) for step in decide(state)]
        alarm = min((moment for moment in moments if moment is not None), default=None)
        assert told.wake_at == (AT_ONCE if waits or None in moments else alarm)
        if state.cancel is None and state.control.pause is None and not turn.given:
            assert (told.label, told.wake_at) == ("queued", None)


TestAnyTurn = AnyTurn.TestCase
TestAnyTurn.settings = settings(max_examples=150, stateful_step_count=15, deadline=None)
