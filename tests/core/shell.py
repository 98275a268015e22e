"""The runtime's shell without actors, loop or files: carries out what the rules ask for, as a test says it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from trouper.core import events as ev
from trouper.core import steps as st
from trouper.core.commands import Already
from trouper.core.conversation import AI, Human, Message, ToolMessage
from trouper.core.decide import RULES, decide
from trouper.core.decide_control import overtaken, preempted
from trouper.core.digests import call_digest, request_digest
from trouper.core.effects import Effect
from trouper.core.evolve import evolve
from trouper.core.family import child_id
from trouper.core.state import Action, Phase, RunState
from trouper.core.status import AT_ONCE, AT_START, status
from trouper.core.steps import Step, due
from trouper.runtime.protocol import Outcome
from trouper.runtime.recording import Recorder
from trouper_journal import Record, Value

RUN = "01RUN"
STREAM = f"run/{RUN}"
SALT = b"s" * 32


@attrs.frozen
class FakeTool:
    """As much of a tool as the rules know."""

    effect: Effect
    gated: bool = False
    attempts: int = 3
    expires: int | None = None
    version: int = 1
    permissions: tuple[str, ...] = ()
    authorize: bool = False
    direct: bool = False
    agent: str = ""
    asks: tuple[tuple[ev.Asking, tuple[str, ...]], ...] = ()

    @property
    def grounds(self) -> ev.Grounds:
        return ev.Grounds("policy", asks=tuple(asking for asking, _ in self.asks)) if self.asks else ev.Grounds()

    @property
    def people(self) -> tuple[tuple[str, ...], ...]:
        return tuple(people for _, people in self.asks)

    def identity(self, name: str) -> bytes:
        return f"{name}/{self.effect}/{self.gated}/{self.version}".encode()


def roundtrip(event: object, version: int) -> object:
    """The event as it is read back from its stored bytes."""
    encoded = ev.REGISTRY.encode(event, stream=STREAM, domain=None, salt16=bytes(16))
    record = Record(
        position=version,
        stream=STREAM,
        version=version,
        type=encoded.type,
        schema=encoded.schema,
        recorded_at=0,
        key=None,
        label=None,
        wake_at=None,
        key_id=None,
        meta=b"",
        facts=encoded.facts,
        content=encoded.content,
        leaf=b"",
    )
    return ev.REGISTRY.decode(record)


def folded_by(state: RunState, events: Iterable[object]) -> RunState:
    """The state after these events."""
    for event in events:
        state = evolve(state, event)
    return state


def folded(events: Iterable[object]) -> RunState:
    """The state of a run with these events."""
    return folded_by(RunState(RUN), events)


def _asks_the_host(step: Step) -> bool:
    return isinstance(step, st.BindTools | st.Authorize)


class Shell:
    """One run, its events and what is under way for it."""

    def __init__(self, tools: Mapping[str, FakeTool], terms: ev.Terms = ev.NO_TERMS) -> None:
        self.terms = terms
        self.tools = dict(tools)
        self.state = RunState(RUN)
        self.stored = RunState(RUN)
        self.events: list[object] = []
        self.now = 1_000
        self.up = True
        self.draining = False
        self.model: tuple[int, int] | None = None
        self.attempts: dict[str, int] = {}
        self.queries: dict[str, int] = {}
        self.left: dict[str, int] = {}
        self.children: dict[str, str] = {}
        self.starts: Counter[str] = Counter()
        self.allows = True
        self.recorder = Recorder(lambda: self.now, lambda: 0.5, lambda: self.draining)

    # ---- the stream

    def append(self, *events: object) -> None:
        for event in events:
            self.events.append(event)
            self.state = evolve(self.state, event)
            self.stored = evolve(self.stored, roundtrip(event, len(self.events)))

    def submit(self, limits: ev.Limits | None, *, start_at: int | None = None, deadline: int | None = None) -> None:
        asked: tuple[Message, ...] = (Human(f"{RUN}/input", "go"),)
        self.append(
            ev.RunSubmitted("desk", limits, asked, SALT, ev.Principal("maria"), start_at=start_at, deadline=deadline)
        )

    def command(self, event: object) -> bool:
        """Append what a command's rule said; False where it said that nothing needs to be."""
        if isinstance(event, Already):
            return False
        self.append(event)
        return True

    # ---- the driver

    def drive(self) -> None:
        """Take every step that the rules ask for now, as the agent actor does."""
        if not self.up or self.draining:
            return
        done: set[Step] = set()
        while steps := [step for step in decide(self.state) if step not in done and self._takes(step)]:
            before = self.state
            # The host's callbacks answer in a turn of their own, when all else that was named is on its way.
            for step in sorted(preempted(steps), key=_asks_the_host):
                done.add(step)
                if _asks_the_host(step) and step not in decide(self.state):
                    continue
                self._take(step)
                if overtaken(before, self.state):
                    break

    def _takes(self, step: Step) -> bool:
        moment = due(step)
        if moment is not None and moment > self.now:
            return False
        return not (isinstance(step, st.StartAction | st.QueryAction) and self.busy(step.action))

    def busy(self, action: str) -> bool:
        return action in self.attempts or action in self.queries or action in self.left

    def _take(self, step: Step) -> None:
        match step:
            case st.Start():
                limits = self.state.limits or ev.Limits()
                self.append(ev.RunStarted("d1", "c1", "p1", RULES, limits, self.terms, deadline=self._up(limits)))
            case st.RequestModel(index, attempt, closing):
                digest = request_digest(
                    self.state.chain, self.state.definition, closing, self.state.tools.offers(index)
                )
                self.append(ev.ModelRequested(index, attempt, digest, closing))
                self.model = (index, attempt)
            case st.AbandonModel(index, attempt):
                self.append(ev.ModelLost(index, attempt, "deadline" if self.state.cancel is None else "cancelled"))
                self.model = None
            case st.Plan(action, refuse):
                self.append(self._planned(action, refuse))
            case st.AskApproval(action, request, quorum, separation):
                found = self.action(action)
                expires = self.tools[found.tool].expires
                until = None if expires is None else self.now + expires
                eligible = found.consent.eligible or ()
                self.append(ev.ApprovalRequested(action, request, found.digest, until, quorum, separation, eligible))
            case st.Deny(action, missing):
                self.append(ev.ActionDenied(action, "permissions", missing))
            case st.BindTools() | st.Authorize():
                self.append(self._answered_by_the_host(step))
            case st.StartAction(action, attempt) if agent := self.tools[self.action(action).tool].agent:
                run = child_id(RUN, action)
                self.append(ev.ChildStarted(action, run, agent), ev.ActionStarted(action, attempt))
                self.children[action] = run
                self.starts[action] += 1
            case st.CancelChild(action, run):
                self.append(ev.ChildCancelRequested(action, run))
            case st.StartAction(action, attempt):
                self.append(ev.ActionStarted(action, attempt))
                self.attempts[action] = attempt
                self.starts[action] += 1
            case st.QueryAction(action, attempt):
                self.queries[action] = attempt
            case st.AbortAction():
                return
            case st.CheckOutput(index):
                self.append(self._checked(index))
            case _:
                self.append(self._spending(step) or _consequence(step))

    def _up(self, limits: ev.Limits) -> int | None:
        return None if limits.nanoseconds is None else self.now + limits.nanoseconds

    def _spending(self, step: Step) -> object | None:
        match step:
            case st.Refuse(resource, limit, spent, action):
                on_limit = self.state.limits.on_limit if self.state.limits else "raise"
                return ev.BudgetRefused(resource, RUN, limit, spent, action, on_limit=on_limit)
            case st.Warn(resource, limit, spent):
                return ev.BudgetWarned(resource, limit, spent, "it is running out")
            case _:
                return None

    def _answered_by_the_host(self, step: st.BindTools | st.Authorize) -> object:
        if isinstance(step, st.BindTools):
            return ev.ToolsBound(step.index, tuple(self.tools), failed=not self.allows, error="no idea")
        denied = ev.ActionDenied(step.action, "runtime", reason="not now")
        return ev.ActionAuthorized(step.action) if self.allows else denied

    def action(self, name: str) -> Action:
        found = self.state.action(name)
        assert found is not None
        return found

    def _planned(self, action: str, refuse: str | None) -> ev.ActionPlanned:
        asked = next(call for name, call in self.state.unplanned if name == action)
        if refuse is None and self.state.terms.hands_in(asked.name):
            return ev.ActionPlanned(action, asked.name, Effect.READ_ONLY, "output", arguments={"n": 1})
        tool = self.tools.get(asked.name)
        if refuse is not None or tool is None:
            effect = tool.effect if tool else Effect.READ_ONLY
            gate = "limit" if refuse == "limit" else "refused"
            return ev.ActionPlanned(action, asked.name, effect, gate, refusal=f"refused: {refuse}")  # type: ignore[arg-type]  # one of the two
        arguments: dict[str, Value] = {"n": 1}
        identity = tool.identity(asked.name)
        digest = call_digest(SALT, asked.name, identity, arguments)
        return ev.ActionPlanned(
            action,
            asked.name,
            tool.effect,
            "person" if tool.gated else "free",
            identity,
            digest,
            tool.attempts,
            arguments,
            permissions=tool.permissions,
            authorize=tool.authorize,
            direct=tool.direct,
            grounds=tool.grounds,
            people=tool.people,
        )

    def _checked(self, index: int) -> object:
        """An output fits if the reply says ``fits``, in its text or in a call."""
        reply = next(message for message in reversed(self.state.messages) if isinstance(message, AI))
        held = [action.action for action in self.state.batch if action.gate == "output"]
        fitting = [
            call.id.rpartition("/")[2]
            for call in reply.tool_calls
            if call.id.rpartition("/")[2] in held and "fits" in call.arguments
        ]
        if fitting or (not held and "fits" in str(reply.content)):
            return ev.OutputAccepted(index, fitting[0] if fitting else None, {"n": 1})
        return ev.OutputRejected(index, "invalid", "it does not fit")

    # ---- outcomes

    def deliver(self, outcome: Outcome) -> None:
        self.append(*self.recorder.record(self.state, outcome))

    def start(self) -> None:
        """A process takes the run up: what the journal shows as under way is lost."""
        self.up, self.draining = True, False
        call = self.state.model
        if call is not None and call.phase == "requested":
            self.append(ev.ModelLost(call.index, call.attempt, "restart"))
        for action in self.state.batch:
            if action.phase is Phase.STARTED and action.child is None:
                self.append(ev.ActionInterrupted(action.action, action.attempt, "lost"))

    def die(self) -> None:
        """The process is gone, and with it all that was under way."""
        self.up = False
        self.model = None
        for held in (self.attempts, self.queries, self.left):
            held.clear()

    def adopt(self, tools: Mapping[str, FakeTool]) -> None:
        """The definition changes; the new one is adopted, and calls that had not started are looked at anew."""
        self.tools = dict(tools)
        self.append(
            ev.DefinitionAdopted(f"d{len(self.events)}", "c2", "p2", ev.Principal("drift", "policy"), self.terms)
        )
        for action in self.state.batch:
            waiting = action.phase in {Phase.PLANNED, Phase.AWAITING, Phase.APPROVED}
            if not waiting or action.gate not in {"free", "person"} or action.arguments is None:
                continue
            tool = tools[action.tool]
            identity = tool.identity(action.tool)
            if identity == action.identity:
                continue
            if action.phase is Phase.AWAITING:
                self.append(ev.ApprovalExpired(action.action, action.request, "changed"))
            digest = call_digest(SALT, action.tool, identity, action.arguments)
            self.append(
                ev.ActionReplanned(
                    action.action,
                    tool.effect,
                    "person" if tool.gated else "free",
                    identity,
                    digest,
                    tool.attempts,
                    tool.permissions,
                    tool.authorize,
                    tool.direct,
                    grounds=tool.grounds,
                    people=tool.people,
                )
            )


def _consequence(step: Step) -> object:
    match step:
        case st.Expire(action, request):
            return ev.ApprovalExpired(action, request, "time")
        case st.Close(action, attempt, outcome, evidence, text):
            return ev.ActionReceipted(action, attempt, outcome, evidence, text)
        case st.Doubt(action, attempt, text):
            return ev.ActionUnresolved(action, attempt, text)
        case st.PassDeadline(moment):
            return ev.DeadlinePassed(moment)
        case st.PauseChild(action, run, paused):
            return ev.ChildPauseRequested(action, run, paused)
        case st.FireTimer(action, attempt):
            return ev.TimerFired(action, attempt, "It is later.")
        case st.Hear(through):
            return ev.RunHeard(through)
        case st.Reject(index, text):
            return ev.OutputRejected(index, "incomplete", text)
        case st.Succeed(source):
            return ev.RunSucceeded(source)
        case st.Fail(kind, message):
            return ev.RunFailed(kind, message)
        case st.EndCancelled():
            return ev.RunCancelled()
        case _:
            raise TypeError(f"nobody carries out {step!r}")


# ---- what must always hold


def unanswered(messages: Iterable[Message]) -> list[str]:
    """What is wrong with the answers: each call needs one tool message, in the order asked, right behind its reply."""
    wrong: list[str] = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if isinstance(message, ToolMessage):
            wrong.append(f"{message.id} answers nothing")
        if not isinstance(message, AI):
            continue
        for asked in message.tool_calls:
            answer = rest.pop(0) if rest else None
            if not isinstance(answer, ToolMessage) or answer.call_id != asked.id:
                wrong.append(f"{asked.id} is answered by {answer}")
    return wrong


def check_status(state: RunState) -> None:
    """The label says what the rules say."""
    told = status(state)
    steps = decide(state)
    if state.ended:
        assert steps == ()
        assert told.wake_at is None
        assert told.label == state.phase.value + ("-in-doubt" if state.in_doubt else "")
        return
    moments = [due(step) for step in steps]
    out = (state.model is not None and state.model.phase == "requested") or any(
        action.phase is Phase.STARTED and action.child is None for action in state.batch
    )
    at_work = out or None in moments
    if state.drift is not None and not state.stopping:
        # Nothing moves until somebody adopts: that comes first, and only a new start can find it settled.
        assert told.label == "drifted"
        assert told.wake_at == (AT_ONCE if out else AT_START)
        return
    alarm = min((moment for moment in moments if moment is not None), default=None)
    assert told.wake_at == (AT_ONCE if at_work else alarm)
    if state.stopping:
        assert told.label == "running"
    elif state.control.pause is not None:
        assert told.label == "paused"
    elif state.in_doubt:
        assert told.label == "in_doubt"
    elif state.awaiting:
        assert told.label == "awaiting_approval"
    elif told.label == "over_budget":
        # Nothing begins until somebody allows more; at the step limit another attempt is no beginning.
        assert state.budget.refused is not None or (state.limits is not None and state.steps >= state.limits.max_steps)
        assert state.model is None or state.budget.refused is not None
        retries = {action.retry_at for action in state.batch}
        assert told.wake_at in {None, state.budget.deadline, state.control.deadline, *retries}
    elif told.label == "waiting_for_child":
        assert told.wake_at in {None, state.budget.deadline, state.control.deadline}
        assert any(action.child is not None and not action.child.ended for action in state.batch)
    else:
        # Whatever waits for nobody waits for a moment, or for a run that a call began.
        assert told.wake_at is not None
        asleep = any(action.phase is Phase.SLEEPING for action in state.batch)
        waits = "sleeping" if asleep else "retrying" if state.started else "scheduled"
        assert told.label == ("running" if at_work else waits)
