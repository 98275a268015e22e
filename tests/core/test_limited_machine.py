"""Any run of an agent with hooks and limits of everything: what holds of each holds of both."""

from __future__ import annotations

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.core.moves import MARIA, TERMS
from tests.core.test_hooked_machine import GOOD, NAMES, HookedRun, Kind

from trouper.core import events as ev
from trouper.core.budget import Raise
from trouper.core.decide import decide
from trouper.core.decide_budget import stalled
from trouper.core.hook_ops import POINTS, Point
from trouper.core.raising import raise_limit
from trouper.core.state import Phase
from trouper.core.steps import due
from trouper.errors import TrouperError

RAISES = (Raise(steps=2), Raise(model_calls=1), Raise(tool_calls=1), Raise(by_tool={"look": 1}), Raise(seconds=2e-7))


class LimitedRun(HookedRun):
    """A run with hooks and limits."""

    @initialize(
        limits=st.builds(
            ev.Limits,
            st.integers(2, 12),
            st.sampled_from(["raise", "finish", "wait"]),
            st.integers(1, 3),
            max_model_calls=st.none() | st.integers(1, 5),
            max_tool_calls=st.none() | st.integers(1, 4),
            tool_calls=st.sampled_from([{}, {"look": 1}]),
            max_seconds=st.none() | st.sampled_from([1e-7, 5e-7]),
            soft=st.none() | st.just(0.5),
        ),
        terms=st.sampled_from(TERMS),
        points=st.sets(st.sampled_from(POINTS)),
        kinds=st.lists(st.sampled_from(GOOD), max_size=20),
        names=NAMES,
        deadline=st.none() | st.integers(1101, 1400),
    )
    def submitted(
        self,
        limits: ev.Limits,
        terms: ev.Terms,
        points: set[Point],
        kinds: list[Kind],
        names: list[str],
        deadline: int | None,
    ) -> None:
        self.limits = limits
        self.shell.terms = attrs.evolve(terms, hooks=tuple(point for point in POINTS if point in points))
        self.shell.submit(self.limits, deadline=deadline)
        self.shell.drive()
        self._go_on(kinds, names)

    @precondition(lambda self: bool(self.shell.events))
    @rule(more=st.sampled_from(RAISES))
    def a_limit_is_raised(self, more: Raise) -> None:
        try:
            event = raise_limit(self.shell.state, more, by=MARIA, reason=None, now=self.shell.now)
        except TrouperError:
            return
        self.raised += more.steps
        self.shell.append(event)
        self.shell.drive()

    @rule(
        what=st.sampled_from(["kill", "stop", "adopt", "cancel", "raise", "resume", "extend"]), odds=st.integers(0, 3)
    )
    def something_happens(self, what: str, odds: int) -> None:
        # What ended at a limit is not resumed: that is raised.
        if what != "resume" or self.shell.state.failure != "budget":
            super().something_happens(what, odds)

    @rule(passed=st.sampled_from([60, 300]))
    def some_time_passes(self, passed: int) -> None:
        self.shell.now += passed
        self.shell.drive()

    @invariant()
    def nothing_hangs(self) -> None:
        shell, state = self.hooked, self.shell.state
        if state.ended or not shell.events or not shell.up:
            return
        out = shell.model or shell.attempts or shell.queries or shell.left or shell.children or shell.hook
        waits = any(due(step) is not None for step in decide(state))
        people = state.awaiting or any(action.phase is Phase.UNRESOLVED for action in state.batch)
        assert out or waits or people or state.control.pause is not None or stalled(state)


LimitedRun.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLimitedRun = LimitedRun.TestCase
