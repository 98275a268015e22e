"""Everything that can happen to one run, as moves of a state machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core.shell import RUN, SALT, FakeTool, Shell, check_status

from trouper.core import events as ev
from trouper.core.commands import (
    Judgement,
    Verdict,
    cancel_run,
    decide_approval,
    raise_limit,
    resolve_action,
    resume_run,
)
from trouper.core.control_commands import extend_deadline, pause_run, steer_run
from trouper.core.conversation import AI, Human, Message, ToolCall, ToolMessage, Usage
from trouper.core.decide import decide
from trouper.core.digests import call_digest
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.replay import check
from trouper.core.state import Phase
from trouper.core.steps import PassDeadline, due
from trouper.errors import ModelError, NotEligible
from trouper.runtime.protocol import Acted, Answered, Replied
from trouper.tools import Timer
from trouper_journal import ERASED, EventRegistry, Value

MARIA = ev.Principal("maria")
TOOLS: Mapping[str, FakeTool] = {
    "look": FakeTool(Effect.READ_ONLY),
    "put": FakeTool(Effect.IDEMPOTENT_WRITE, attempts=2),
    "book": FakeTool(Effect.QUERYABLE_WRITE),
    "send": FakeTool(Effect.UNQUERYABLE_WRITE),
    "wipe": FakeTool(Effect.UNQUERYABLE_WRITE, gated=True, expires=50),
    "sign": FakeTool(Effect.READ_ONLY, gated=True),
    "export": FakeTool(Effect.READ_ONLY, gated=True, permissions=("export",)),
    "guarded": FakeTool(Effect.IDEMPOTENT_WRITE, authorize=True),
    "vetted": FakeTool(Effect.UNQUERYABLE_WRITE, gated=True, authorize=True),
    "direct": FakeTool(Effect.READ_ONLY, direct=True),
    "ask": FakeTool(Effect.READ_ONLY, agent="helper"),
    "hire": FakeTool(Effect.UNQUERYABLE_WRITE, gated=True, agent="worker"),
    "wire": FakeTool(
        Effect.UNQUERYABLE_WRITE,
        gated=True,
        expires=50,
        asks=((ev.Asking(2, separation=True), ("maria", "otto", "ida")), (ev.Asking(), ("ceo",))),
    ),
}
CHANGED: Mapping[str, FakeTool] = {
    name: attrs.evolve(tool, version=2, gated=name in {"wipe", "look"}) for name, tool in TOOLS.items()
}
NAMES = (*TOOLS, "no-such-tool", "final_result")
NEEDS = (ev.Requirement(("put", "send", "look", "book")), ev.Requirement(("look",), 2))
TERMS = (
    ev.NO_TERMS,
    ev.Terms(output=True),
    ev.Terms(output=True, output_tool="final_result", rounds=1),
    ev.Terms(requires=NEEDS[:1]),
    ev.Terms(output=True, output_tool="final_result", requires=NEEDS, rounds=3),
    ev.Terms(binds=True),
    ev.Terms(binds=True, requires=NEEDS[:1]),
)
Failure: TypeAlias = Literal["tool_error", "transient", "retryable", "exception", "cancelled"]
FAILURES: tuple[Failure, ...] = ("tool_error", "transient", "retryable", "exception", "cancelled")
VERDICTS: tuple[Verdict, ...] = ("applied", "not_applied", "run_again", "abandon")


def erased(registry: EventRegistry, event: object) -> object:
    """The event without its content, as it reads once its key is destroyed."""
    content = registry.spec(type(event)).content
    return attrs.evolve(event, **dict.fromkeys(content, ERASED))  # type: ignore[misc]  # events are attrs classes


class Moves(RuleBasedStateMachine):
    """What can happen to a run; what must hold of it is said by those who derive from this."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell(TOOLS)
        self.again: Counter[str] = Counter()
        self.raised = 0
        self.decided: list[object] = []
        self.said: list[str] = []

    @initialize(
        max_steps=st.integers(1, 12),
        on_limit=st.sampled_from(["raise", "finish"]),
        attempts=st.integers(1, 3),
        early_cancel=st.integers(0, 9),
        start_at=st.none() | st.integers(900, 1100),
        deadline=st.none() | st.integers(1101, 1400),
        terms=st.sampled_from(TERMS),
    )
    def submitted(
        self,
        max_steps: int,
        on_limit: Literal["raise", "finish"],
        attempts: int,
        early_cancel: int,
        start_at: int | None,
        deadline: int | None,
        terms: ev.Terms,
    ) -> None:
        self.limits = ev.Limits(max_steps, on_limit, attempts)
        self.shell.terms = terms
        self.shell.submit(self.limits, start_at=start_at, deadline=deadline)
        if early_cancel == 0:
            self.shell.append(ev.CancelRequested(MARIA, "changed my mind"))
        self.shell.drive()

    # ---- the model

    def _model_is_out(self) -> bool:
        return self.shell.model is not None

    @precondition(_model_is_out)
    @rule(
        names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
        cut=st.integers(0, 9),
        told=st.booleans(),
        fits=st.sampled_from(["fits", "not"]),
    )
    def model_calls(self, names: list[str], cut: int, fits: str, *, told: bool) -> None:
        index, attempt = self._land_model()
        refusal = "no" if cut == 1 else None
        calls = tuple(ToolCall("", name, f'{{"n":1,"{fits}":1}}', "x") for name in names)
        message = AI("", None, calls, refusal=refusal)
        usage = Usage(10, 5) if told else Usage()
        self.shell.deliver(Replied(index, attempt, ModelReply(message, "tool_calls", usage, truncated=cut == 0)))
        self.shell.drive()

    @precondition(_model_is_out)
    @rule(odds=st.integers(0, 5), error=st.sampled_from([ModelError("busy", retryable=True, retry_after=3), OSError()]))
    def model_answers_or_fails(self, odds: int, error: Exception) -> None:
        index, attempt = self._land_model()
        reply = ModelReply(AI("", "done"), "stop", Usage(10, 5)) if odds == 0 else None
        if odds > 1 and not isinstance(error, ModelError):
            error = ModelError("overloaded", retryable=True)
        self.shell.deliver(Replied(index, attempt, reply, error))
        self.shell.drive()

    @precondition(lambda self: self.shell.model is not None and self.shell.state.terms != ev.NO_TERMS)
    @rule(said=st.sampled_from(["done", "fits", "no"]), refuses=st.integers(0, 9))
    def model_answers(self, said: str, refuses: int) -> None:
        index, attempt = self._land_model()
        answer = AI("", said, refusal="no" if refuses == 0 else None)
        self.shell.deliver(Replied(index, attempt, ModelReply(answer, "stop", Usage(10, 5))))
        self.shell.drive()

    def _land_model(self) -> tuple[int, int]:
        assert self.shell.model is not None
        landed, self.shell.model = self.shell.model, None
        return landed

    # ---- tools

    def _tool_is_out(self) -> bool:
        return bool(self.shell.attempts)

    @precondition(_tool_is_out)
    @rule(data=st.data())
    def tool_returns(self, data: st.DataObject) -> None:
        name, attempt = self._land(data, self.shell.attempts)
        self.shell.deliver(Acted(name, attempt, "returned", "done", {"n": 1}))
        self.shell.drive()

    @precondition(_tool_is_out)
    @rule(data=st.data(), later=st.integers(0, 100))
    def tool_sets_a_timer(self, data: st.DataObject, later: int) -> None:
        name, attempt = self._land(data, self.shell.attempts)
        timer = Timer(until=self.shell.now + later, text="Look again.")
        self.shell.deliver(Acted(name, attempt, "returned", "", timer=timer))
        self.shell.drive()

    @precondition(_tool_is_out)
    @rule(data=st.data(), kind=st.sampled_from(FAILURES))
    def tool_fails(self, data: st.DataObject, kind: Failure) -> None:
        name, attempt = self._land(data, self.shell.attempts)
        self.shell.deliver(Acted(name, attempt, kind, "it did not work"))
        self.shell.drive()

    @precondition(_tool_is_out)
    @rule(data=st.data())
    def tool_is_left_behind(self, data: st.DataObject) -> None:
        name, attempt = self._land(data, self.shell.attempts)
        self.shell.left[name] = attempt
        self.shell.deliver(Acted(name, attempt, "timeout", "it timed out", lingering=True))
        self.shell.drive()

    @precondition(lambda self: bool(self.shell.left))
    @rule(data=st.data(), kind=st.sampled_from(["returned", "tool_error", "exception"]))
    def tool_comes_back_late(self, data: st.DataObject, kind: Literal["returned", "tool_error", "exception"]) -> None:
        name, attempt = self._land(data, self.shell.left)
        self.shell.deliver(Acted(name, attempt, kind, "late", late=True))
        self.shell.drive()

    @precondition(lambda self: bool(self.shell.queries))
    @rule(data=st.data(), answer=st.sampled_from(["found", "absent", "unknown"]))
    def query_answers(self, data: st.DataObject, answer: Literal["found", "absent", "unknown"]) -> None:
        name, attempt = self._land(data, self.shell.queries)
        self.shell.deliver(Answered(name, attempt, answer, "asked"))
        self.shell.drive()

    def _land(self, data: st.DataObject, held: dict[str, int]) -> tuple[str, int]:
        name = data.draw(st.sampled_from(sorted(held)))
        return name, held.pop(name)

    # ---- sub-agents

    @precondition(lambda self: bool(self.shell.children) and self.shell.up)
    @rule(data=st.data(), status=st.sampled_from(["succeeded", "failed", "cancelled"]))
    def child_ends(self, data: st.DataObject, status: Literal["succeeded", "failed", "cancelled"]) -> None:
        action = data.draw(st.sampled_from(sorted(self.shell.children)))
        run = self.shell.children.pop(action)
        self.shell.append(ev.ChildFinished(action, run, status, text=f"{run} {status}"))
        self.shell.drive()

    # ---- what happens now and then

    @rule(
        what=st.sampled_from(["kill", "stop", "adopt", "cancel", "raise", "resume", "extend"]), odds=st.integers(0, 3)
    )
    def something_happens(self, what: str, odds: int) -> None:
        shell = self.shell
        match what:
            case "kill":
                shell.die()
                shell.start()
            case "stop":
                self._stop()
                shell.start()
            case "adopt":
                self._adopt(CHANGED if odds % 2 else TOOLS)
            case "cancel" if odds == 0:
                shell.command(cancel_run(shell.state, by=MARIA, reason="enough"))
            case "raise" if shell.state.started and (not shell.state.ended or shell.state.failure == "step_limit"):
                shell.command(raise_limit(shell.state, odds + 1, by=MARIA, reason=None))
                self.raised += odds + 1
            case "extend" if shell.state.control.deadline is not None and shell.state.cancel is None:
                if shell.state.ended and shell.state.failure != "deadline":
                    return
                later = max(shell.state.control.deadline, shell.now) + 50 * (odds + 1)
                assert shell.command(extend_deadline(shell.state, later, by=MARIA, reason=None, now=shell.now))
            case "resume" if shell.state.failure not in {None, "step_limit", "deadline"}:
                shell.command(resume_run(shell.state, by=MARIA, reason=None))
            case _:
                return
        shell.drive()

    def _stop(self) -> None:
        """The process ends in order: what is under way is cancelled, and recorded as that."""
        shell = self.shell
        shell.draining = True
        if shell.model is not None:
            shell.deliver(Replied(*shell.model, None))
        for name, attempt in shell.attempts.items():
            shell.deliver(Acted(name, attempt, "cancelled", "stopped"))
        shell.die()

    def _adopt(self, tools: Mapping[str, FakeTool]) -> None:
        state = self.shell.state
        if state.ended or not state.started or state.stopping:
            return
        self.shell.append(ev.RunWaiting("drift", ("contract",)))
        check_status(self.shell.state)
        assert all(isinstance(step, PassDeadline) for step in decide(self.shell.state))
        self.shell.adopt(tools)

    @precondition(lambda self: not self.shell.state.ended and not self.shell.state.stopping)
    @rule(what=st.sampled_from(["steer", "steer", "pause", "resume"]))
    def somebody_steers(self, what: str) -> None:
        shell = self.shell
        before = shell.state
        match what:
            case "steer" if not before.closing:
                shell.command(steer_run(before, (Human("", f"word {len(self.said)}"),), by=MARIA))
                self.said.append(f"word {len(self.said)}")
            case "pause":
                shell.command(pause_run(before, by=MARIA, reason=None))
                assert not shell.command(pause_run(shell.state, by=MARIA, reason=None))
            case "resume":
                shell.command(resume_run(before, by=MARIA, reason=None))
                assert shell.state.control.pause is None
        shell.drive()

    @rule(skip=st.integers(1, 100))
    def time_passes(self, skip: int) -> None:
        moments = [moment for step in decide(self.shell.state) if (moment := due(step)) is not None]
        self.shell.now = max(self.shell.now + skip, min(moments, default=0))
        self.shell.drive()

    @rule(allows=st.booleans())
    def the_authorize_callback_changes_its_mind(self, *, allows: bool) -> None:
        self.shell.allows = allows

    # ---- people

    @precondition(lambda self: bool(self.shell.state.awaiting) and not self.shell.state.stopping)
    @rule(data=st.data(), decision=st.sampled_from(["approve", "approve", "deny", "edit"]))
    def approval_is_decided(self, data: st.DataObject, decision: str) -> None:
        action = data.draw(st.sampled_from(self.shell.state.awaiting))
        who = ev.Principal(data.draw(st.sampled_from(["maria", "otto", "ida", "ceo", "eve"])))
        edit = {"n": 2} if decision == "edit" else None
        judgement = Judgement("deny" if decision == "deny" else "approve", who, "because", edit)
        now = self.shell.now
        try:
            event = decide_approval(self.shell.state, action.action, judgement, now=now)
        except NotEligible:
            assert action.tool == "wire"
            return
        if not self.shell.command(event):
            assert who in [vote.by for vote in action.consent.votes]
            return
        self.decided.append(event)
        decided = self.shell.action(action.action)
        assert decided.arguments is not None
        assert decided.digest == call_digest(SALT, action.tool, action.identity, decided.arguments)
        assert not self.shell.command(decide_approval(self.shell.state, action.action, judgement, now=now))
        self.shell.drive()

    @precondition(lambda self: bool(self.shell.state.in_doubt))
    @rule(data=st.data(), verdict=st.sampled_from(VERDICTS))
    def doubt_is_settled(self, data: st.DataObject, verdict: Verdict) -> None:
        state = self.shell.state
        if verdict == "run_again" and (state.ended or state.stopping):
            return
        action = data.draw(st.sampled_from(state.in_doubt))
        if verdict == "run_again" and action in state.settled:
            return
        event = resolve_action(state, action.action, verdict, by=MARIA, evidence="looked")
        assert self.shell.command(event)
        self.again[action.action] += verdict == "run_again"
        self.shell.drive()

    @precondition(lambda self: len(self.shell.events) > 1)
    @rule(data=st.data())
    def content_is_erased(self, data: st.DataObject) -> None:
        """Any of the events may have lost its content: the fold still takes them all, and knows the same facts."""
        events = list(self.shell.events)
        for place in data.draw(st.sets(st.integers(0, len(events) - 1), min_size=1)):
            events[place] = erased(ev.REGISTRY, events[place])
        state, difference = check(RUN, events)
        assert difference is None
        assert (state.version, state.phase) == (self.shell.state.version, self.shell.state.phase)
        decide(state)

    @precondition(lambda self: bool(self.shell.events))
    @rule(data=st.data())
    def somebody_appends_what_no_rule_would(self, data: st.DataObject) -> None:
        """Anyone may append these events, past the rules if they will: nothing unsafe may come of it."""
        known = [event.action for event in self.shell.events if isinstance(event, ev.ActionPlanned)]
        action = data.draw(st.sampled_from([*known, "0.0", "99.0"]))
        digest = data.draw(st.sampled_from([b"", b"another"]))
        request = data.draw(st.integers(0, 2))
        edit: dict[str, Value] | None = {"n": 3} if data.draw(st.booleans()) else None
        nonsense: list[object] = [
            ev.ApprovalDecided(action, request, "approve", digest, MARIA, None, edit),
            ev.ApprovalDecided(action, request, "deny", digest, MARIA),
            ev.RunSubmitted("other", ev.Limits(1000), (), b"another salt"),
        ]
        if self.shell.state.control.pause is None:
            nonsense.append(ev.ResumeRequested(MARIA))
        found = self.shell.state.action(action)
        if found is not None and found.phase is not Phase.UNRESOLVED:
            nonsense += [ev.ActionResolved(action, verdict, MARIA) for verdict in VERDICTS]
        if found is not None and found.phase is not Phase.AWAITING:
            nonsense.append(ev.ApprovalDecided(action, found.request, "approve", found.digest, MARIA))
            nonsense.append(ev.ApprovalWithdrawn(action, found.request, MARIA))
        before = self.shell.state
        self.shell.append(data.draw(st.sampled_from(nonsense)))
        if not before.ended:
            assert attrs.evolve(self.shell.state, version=before.version) == before
        self.shell.drive()

    @rule(
        messages=st.sampled_from(
            [(AI("", "I", (ToolCall("x", "look", "{}"),)),), (ToolMessage("", "x", "look", "t"),), ()]
        )
    )
    def somebody_signals_what_no_person_can_say(self, messages: tuple[Message, ...]) -> None:
        before = self.shell.state.messages
        self.shell.append(ev.RunSignalled(messages, MARIA))
        assert self.shell.state.messages == before
        self.shell.drive()
