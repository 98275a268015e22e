"""Any run of an agent with hooks: what holds of every run, and that hooks are called once for each thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.core.moves import TERMS, TOOLS
from tests.core.shell import RUN, FakeTool, Shell, unanswered
from tests.core.test_machine import AnyRun

from trouper.core import events as ev
from trouper.core.conversation import AI, Human, ToolCall, Usage
from trouper.core.decide import decide
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.history import closed_history
from trouper.core.hook_events import HookDone
from trouper.core.hook_ops import (
    POINTS,
    Answer,
    Fail,
    Insert,
    Op,
    Point,
    Replace,
    Reply,
    SetArguments,
    Spend,
    UseModel,
)
from trouper.core.hooking import CallEdit, broken_pairs, shown
from trouper.core.state import Phase, RunPhase
from trouper.core.steps import RequestModel, RunHook, Step, due
from trouper.runtime.protocol import Acted, Hooked, Replied

Kind = Literal["nothing", "change", "answer", "call", "model", "fail"]
KINDS: tuple[Kind, ...] = ("nothing", "change", "answer", "call", "model", "fail", "nothing")
GOOD = tuple(kind for kind in KINDS if kind != "fail")
NAMES = st.lists(st.sampled_from(["look", "put", "send", "sign", "final_result"]), min_size=1, max_size=3)


class HookShell(Shell):
    """A shell that calls hooks beside its turns."""

    def __init__(self, tools: Mapping[str, FakeTool]) -> None:
        super().__init__(tools)
        self.hook: tuple[RunHook, bytes] | None = None

    def _takes(self, step: Step) -> bool:
        if isinstance(step, RunHook) and self.hook is not None:
            return False
        return super()._takes(step)

    def _take(self, step: Step) -> None:
        match step:
            case RunHook():
                self.hook = (step, self.state.chain)
            case _:
                super()._take(step)

    def drive(self) -> None:
        super().drive()
        if not any(isinstance(step, RunHook) for step in decide(self.state)):
            self.hook = None

    def die(self) -> None:
        super().die()
        self.hook = None

    def _planned(self, action: str, refuse: str | None) -> ev.ActionPlanned:
        edit = self.state.hooks.calls.get(action, CallEdit())
        if refuse is None and edit.answer is not None:
            asked = next(call for name, call in self.state.unplanned if name == action)
            answer: Literal["ok", "error"] = "ok" if edit.ok else "error"
            return ev.ActionPlanned(action, asked.name, Effect.READ_ONLY, "hook", refusal=edit.answer, answer=answer)
        planned = super()._planned(action, refuse)
        return planned if edit.arguments is None else attrs.evolve(planned, asked={"n": 0})


class HookedRun(AnyRun):
    """A run with hooks at some points."""

    def __init__(self) -> None:
        super().__init__()
        self.hooked = HookShell(TOOLS)
        self.shell = self.hooked
        self.replies = 0

    @initialize(
        max_steps=st.integers(3, 20),
        on_limit=st.sampled_from(["raise", "finish"]),
        attempts=st.integers(1, 3),
        terms=st.sampled_from(TERMS),
        points=st.sets(st.sampled_from(POINTS), min_size=1),
        kinds=st.lists(st.sampled_from(GOOD), max_size=30),
        names=NAMES,
    )
    def submitted(
        self,
        max_steps: int,
        on_limit: Literal["raise", "finish"],
        attempts: int,
        terms: ev.Terms,
        points: set[Point],
        kinds: list[Kind],
        names: list[str],
    ) -> None:
        self.limits = ev.Limits(max_steps, on_limit, attempts)
        self.shell.terms = attrs.evolve(terms, hooks=tuple(point for point in POINTS if point in points))
        self.shell.submit(self.limits)
        self.shell.drive()
        self._go_on(kinds, names)

    @precondition(lambda self: self.hooked.hook is not None and self.shell.up)
    @rule(kind=st.sampled_from(KINDS))
    def hooks_are_through(self, kind: Kind) -> None:
        self._through(kind)

    def _through(self, kind: Kind) -> None:
        shell = self.hooked
        assert shell.hook is not None
        (step, chain), shell.hook = shell.hook, None
        ops = self._ops(step.point, step.subject, kind)
        failed = "no" if kind == "fail" else ""
        before = len(shell.events)
        shell.deliver(Hooked(step.point, step.subject, chain, (HookDone("h", tuple(ops)),), (), failed))
        taken = len(shell.events) > before
        self.replies += taken and not failed and any(isinstance(op, Reply) for op in ops) and step.point != "on_error"
        shell.drive()

    @precondition(lambda self: self.shell.up and not self.shell.state.ended)
    @rule(kinds=st.lists(st.sampled_from(GOOD), min_size=4, max_size=12), names=NAMES)
    def it_goes_on(self, kinds: list[Kind], names: list[str]) -> None:
        """Several things in a row, so that runs come further than by chance."""
        self._go_on(kinds, names)

    def _go_on(self, kinds: list[Kind], names: list[str]) -> None:
        shell = self.hooked
        for kind in kinds:
            if shell.hook is not None:
                self._through(kind)
            elif shell.model is not None:
                calls = tuple(ToolCall("", name, '{"n":1,"fits":1}', "x") for name in names)
                reply = ModelReply(AI("", None, calls), "tool_calls", Usage(10, 5))
                shell.deliver(Replied(*self._land_model(), reply))
                shell.drive()
            elif shell.attempts:
                name = min(shell.attempts)
                shell.deliver(Acted(name, shell.attempts.pop(name), "returned", "done", {"n": 1}))
                shell.drive()

    def _ops(self, point: Point, subject: str, kind: Kind) -> Sequence[Op]:
        state = self.shell.state
        last = next(iter(reversed(shown(state.messages, state.hooks.ops))), None)
        after = last.id if last is not None else ""
        name = f"{RUN}/hook/{len(self.shell.events)}"
        match point, kind:
            case _, "fail":
                return [Fail("no")]
            case "before_model" | "on_error", "change":
                return [Insert(Human(name, "inserted"), after), Spend("m", 1, None)]
            case "before_model" | "on_error", "answer":
                return [Reply(AI("", "done"))]
            case "before_model" | "on_error", "call":
                return [Reply(AI("", None, (ToolCall("", "look", "{}"),)))]
            case "before_model" | "on_error", "model":
                return [UseModel("other")]
            case "after_model", "change" if isinstance(last, AI) and last.id == f"{RUN}/{subject}":
                return [Replace(attrs.evolve(last, reasoning="masked"))]
            case "before_tool", "change":
                return [SetArguments({"n": 1})]
            case "before_tool" | "after_tool", "answer" | "call":
                return [Answer("instead", ok=kind == "answer")]
            case _:
                return []

    @precondition(lambda self: self.shell.state.started and not self.shell.state.ended)
    @rule(points=st.sets(st.sampled_from(POINTS)), odds=st.integers(0, 4))
    def other_hooks_are_adopted(self, points: set[Point], odds: int) -> None:
        if odds == 0 and not self.shell.state.stopping:
            self.shell.terms = attrs.evolve(self.shell.terms, hooks=tuple(sorted(points)))
            self._adopt(TOOLS)
            self.shell.drive()

    # ---- what always holds

    @invariant()
    def an_ended_run_asks_for_nothing(self) -> None:
        state = self.shell.state
        if state.ended:
            assert decide(state) == ()
            assert not state.awaiting
            assert all(action.phase is not Phase.STARTED for action in state.batch)
            if state.failure != "hook":
                assert not state.batch
                assert not state.unplanned

    @invariant()
    def every_call_is_answered_once_in_order(self) -> None:
        state = self.shell.state
        asks = any(isinstance(step, RequestModel) for step in decide(state))
        if state.ended:
            assert unanswered(closed_history(state)) == []
        elif asks or (state.model is not None and state.model.phase == "requested"):
            assert unanswered(state.messages) == []
            assert broken_pairs(shown(state.messages, state.hooks.ops)) == set()
        receipts = Counter(event.action for event in self.shell.events if isinstance(event, ev.ActionReceipted))
        assert max(receipts.values(), default=0) <= 1

    @invariant()
    def steps_never_exceed_the_limit(self) -> None:
        state = self.shell.state
        # A hook that answers for the model is held to the limit like the model, but for the run's last word.
        assert state.steps <= self.limits.max_steps + self.raised

    @invariant()
    def hooks_are_called_once_for_each_thing(self) -> None:
        done: Counter[tuple[str, str]] = Counter()
        for event in self.shell.events:
            counts = isinstance(event, ev.HookApplied) and not event.failed and not event.overtaken
            if isinstance(event, ev.HookApplied) and counts and event.point != "before_model":
                done[event.point, event.subject] += 1
        assert max(done.values(), default=0) <= 1

    @invariant()
    def a_run_succeeds_only_with_evidence_and_one_output(self) -> None:
        state = self.shell.state
        tools = {event.action: event.tool for event in self.shell.events if isinstance(event, ev.ActionPlanned)}
        ok = Counter(
            tools[event.action]
            for event in self.shell.events
            # What a hook said in place of a tool is no evidence.
            if isinstance(event, ev.ActionReceipted) and event.outcome == "ok" and event.evidence != "hook"
        )
        del ok["final_result"]
        assert state.answer.receipts == dict(ok)
        if state.phase is RunPhase.SUCCEEDED:
            assert all(sum(ok[tool] for tool in each.tools) >= each.count for each in state.terms.requires)

    @invariant()
    def what_hooks_answered_was_never_started(self) -> None:
        answered = {
            event.action for event in self.shell.events if isinstance(event, ev.ActionPlanned) and event.gate == "hook"
        }
        assert not answered & self.shell.starts.keys()

    @invariant()
    def nothing_hangs(self) -> None:
        shell, state = self.hooked, self.shell.state
        if state.ended or not shell.events:
            return
        out = shell.model or shell.attempts or shell.queries or shell.left or shell.children or shell.hook
        waits = any(due(step) is not None for step in decide(state))
        people = state.awaiting or any(action.phase is Phase.UNRESOLVED for action in state.batch)
        assert out or waits or people or state.control.pause is not None


HookedRun.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestHookedRun = HookedRun.TestCase
