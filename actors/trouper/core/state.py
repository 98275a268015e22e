"""What a run is at a point of its stream: frozen values, built by `evolve` and by nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeVar

from attrs import field, frozen

from trouper.core.action import Action as Action
from trouper.core.action import Decision as Decision
from trouper.core.action import Phase as Phase
from trouper.core.answer import NO_ANSWER, Answer
from trouper.core.base import Base
from trouper.core.budget import NO_BUDGET, NOTHING_SPENT, Budget, Spent
from trouper.core.control import NO_CONTROL, Control
from trouper.core.conversation import AI, Message
from trouper.core.conversation import text as text_of
from trouper.core.events import NO_TERMS, AskedCall, FailureKind, Limits, Principal, Terms
from trouper.core.family import ALONE, Child, Family
from trouper.core.fork import Forked
from trouper.core.hooking import NO_HOOKS, HookState, replaced
from trouper.core.session import Turn
from trouper.core.tooling import NO_TOOLING, Tooling
from trouper_journal import Erased, Plain, Value

_T = TypeVar("_T")


def known(value: _T | Erased, otherwise: _T) -> _T:
    """The value of a content field, or ``otherwise`` where it was erased."""
    return otherwise if isinstance(value, Erased) else value


class RunPhase(StrEnum):
    """Where a run stands in its life."""

    SUBMITTED = "submitted"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@frozen(repr=False, eq=False)
class ModelCall(Plain):
    """The model request that has no reply yet.

    Attributes:
        spent: Attempts made before somebody resumed the run, or a hook chose another model; they no longer count.
        model: Name of the model that was asked, where it is not the agent's own.
        status: HTTP status of the last failure; None where there was none.
    """

    index: int
    attempt: int
    phase: Literal["requested", "failed", "lost"]
    closing: bool
    retry_at: int | None = None
    message: str = ""
    spent: int = 0
    model: str = ""
    status: int | None = None


@frozen(slots=False, repr=False, eq=False)
class Halt(Plain):
    """Why the run must fail, as was found outside of the rules and recorded."""

    kind: Literal["state", "hook"]
    message: str


@frozen(slots=False, repr=False, eq=False)
class Cancel(Plain):
    """Who wanted the run to end, and why."""

    by: Principal | None
    reason: str | None


@frozen(repr=False, eq=False)
class Usage(Plain):
    """Tokens spent, as far as providers told.

    Attributes:
        input_tokens: Sum over the replies that told.
        output_tokens: Sum over the replies that told.
        unknown: How many replies, or lost requests, told nothing: their share is unknown, not zero.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    unknown: int = 0


@frozen(slots=False, repr=False, eq=False)
class RunState(Plain):
    """A run, folded.

    Attributes:
        run: The run's id.
        version: Version of the last event folded.
        base: The history that it starts from; not pinned before the run is taken up.
        turn: Its place in a session, if it has one.
        messages: Its own messages.
        chain: Running digest over the digests of the messages, in order, those of the base included.
        index: Number of the next model call.
        steps: Super-steps taken.
        terms: What the rules must know of the definition.
        unplanned: Calls of the last reply that were not looked at yet.
        batch: Actions of the last reply, in the order asked, until all are closed.
        settled: Actions of earlier replies that were decided on by a person, were cut off, began a child, or are still
            in doubt.
        budget: What it has spent beyond steps, model calls and told tokens, and what it was refused.
        truncations: How many replies in a row were cut off while calling tools.
        finish: Finish reason of the last reply.
        answer: How its answer stands.
        named: The named state, as plain values; never changed in place.
        hooks: What hooks did.
        halt: Why the run must fail, where that was found outside of the rules.
        tools: What it may use.
        drift: What differs between the pinned definition and today's, while the run waits for that.
        control: What people asked of it beside its task.
        family: Where it stands in its tree.
    """

    run: str
    version: int = 0
    phase: RunPhase = RunPhase.SUBMITTED
    agent: str = ""
    by: Principal | None = None
    salt: bytes = b""
    limits: Limits | None = None
    terms: Terms = NO_TERMS
    definition: str = ""
    contract: str = ""
    prose: str = ""
    rules: int = 0
    base: Base | None = None
    turn: Turn | None = None
    messages: tuple[Message, ...] = ()
    chain: bytes = b""
    index: int = 0
    steps: int = 0
    model: ModelCall | None = None
    unplanned: tuple[tuple[str, AskedCall], ...] = ()
    batch: tuple[Action, ...] = ()
    settled: tuple[Action, ...] = ()
    budget: Budget = NO_BUDGET
    usage: Usage = Usage()
    truncated: bool = False
    truncations: int = 0
    closing: bool = False
    finish: str = ""
    answer: Answer = NO_ANSWER
    cancel: Cancel | None = None
    failure: FailureKind | None = None
    failure_message: str = ""
    drift: tuple[str, ...] | None = None
    erased: bool = False
    named: Mapping[str, Value] = field(factory=dict)
    halt: Halt | None = None
    tools: Tooling = NO_TOOLING
    control: Control = NO_CONTROL
    family: Family = ALONE
    hooks: HookState = NO_HOOKS
    forked: Forked | None = None

    @property
    def ended(self) -> bool:
        """Whether the run is over; one that failed at its limit can still be continued."""
        # Asked forty times in a short run: members are compared, because hashing one costs a call.
        phase = self.phase
        return phase is not RunPhase.RUNNING and phase is not RunPhase.SUBMITTED

    @property
    def handed_on(self) -> bool:
        """Whether it is over for good, because whoever called it was told how it ended."""
        return self.family.parent is not None and self.ended

    @property
    def stopping(self) -> bool:
        """Whether the run is being brought to its end: somebody wants it, or its deadline has passed."""
        return self.cancel is not None or self.control.overdue

    @property
    def started(self) -> bool:
        """Whether an agent took the run up."""
        return self.rules > 0

    @property
    def output(self) -> str | None:
        """Text of the last reply as hooks left it, once the run has succeeded; a structured output as JSON text.

        Of a run that ended with a tool's result it is that (see `Tooling.source`).
        """
        if self.phase is not RunPhase.SUCCEEDED:
            return None
        if self.answer.verdict == "accepted":
            return json.dumps(self.answer.value, ensure_ascii=False, separators=(",", ":"))
        if self.tools.source is not None:
            return self._result(self.tools.source)
        return self.said

    def _result(self, action: str) -> str:
        """What a call's tool message says."""
        name = f"{self.run}/{action}"
        found = (message for message in reversed(self.messages) if message.role == "tool" and message.id == name)
        return next((text_of(replaced(message, self.hooks.ops).content) for message in found), "")

    @property
    def said(self) -> str:
        """Text of the model's last reply; of a refusal without any, the refusal."""
        last = next((message for message in reversed(self.messages) if isinstance(message, AI)), None)
        if last is None:
            return ""
        return text_of(replaced(last, self.hooks.ops).content) or last.refusal or ""

    @property
    def path(self) -> tuple[str, ...]:
        """Agent names from the root of its tree to its own."""
        return self.family.path or (self.agent,)

    @property
    def children(self) -> tuple[Child, ...]:
        """The runs that its calls began, in order."""
        return tuple(action.child for action in (*self.settled, *self.batch) if action.child is not None)

    @property
    def model_calls(self) -> int:
        """How many model calls were answered, those of hooks and for summaries among them, not those hooks answered."""
        summaries = 0 if self.turn is None else self.turn.asked
        return self._replies + self.hooks.asked - self.hooks.answered + summaries

    @property
    def _replies(self) -> int:
        """How many replies it got itself."""
        return self.index if self.forked is None else self.index - self.forked.replies

    @property
    def own_spent(self) -> Spent:
        """What the run itself has spent; what its request under way has reserved is not in it."""
        call, usage, budget = self.model, self.usage, self.budget
        # A failed request gives its place back until it is sent again; a lost one may have been answered.
        calling = call is not None and call.phase != "failed"
        return Spent(
            self.model_calls + calling,
            budget.tool_calls,
            budget.by_tool,
            usage.input_tokens,
            usage.output_tokens,
            budget.cached_tokens,
            budget.assumed_tokens,
            usage.unknown,
            budget.cost,
            self._replies - budget.priced + self.hooks.unpriced + (0 if self.turn is None else self.turn.unpriced),
        )

    @property
    def spent(self) -> Spent:
        """What the run and its finished sub-agents have spent."""
        below = self.budget.below
        return self.own_spent if below is NOTHING_SPENT else self.own_spent + below

    def action(self, action: str) -> Action | None:
        """The action of that name, if it is open, was decided on or is in doubt."""
        for found in self.batch:
            if found.action == action:
                return found
        return next((found for found in self.settled if found.action == action), None)

    @property
    def in_doubt(self) -> tuple[Action, ...]:
        """Actions of which nobody knows whether they took place."""
        # A doubt outlives its batch where the run has ended; it may have gone on since, with a later deadline.
        if not self.settled and not self.batch:
            return ()
        everything = (*self.settled, *self.batch)
        return tuple(action for action in everything if action.phase is Phase.UNRESOLVED)

    @property
    def awaiting(self) -> tuple[Action, ...]:
        """Actions that wait for a person's approval."""
        # A run that a hook failed keeps its open calls, but nobody can decide on them before it is resumed.
        return () if self.ended else tuple(action for action in self.batch if action.phase is Phase.AWAITING)
