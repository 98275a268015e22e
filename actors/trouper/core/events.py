"""What happens to a run: one class for each fact, in the past tense.

*Driver* events are appended by the run's agent alone, under the journal's fence. The others may come from anyone,
from any process. Names and schema numbers are what the journal stores: a class may be renamed, its event name may not.
A default is part of the schema, because fields equal to their defaults are not stored.

Actions are named within their run by ``<model index>.<call index>``, such as ``0.1``; with the run's id in front
that is the action id everywhere else, and the effect key.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.core.action_events import ActionInterrupted as ActionInterrupted
from trouper.core.action_events import ActionPlanned as ActionPlanned
from trouper.core.action_events import ActionQueried as ActionQueried
from trouper.core.action_events import ActionReceipted as ActionReceipted
from trouper.core.action_events import ActionReplanned as ActionReplanned
from trouper.core.action_events import ActionResolved as ActionResolved
from trouper.core.action_events import ActionReturnedLate as ActionReturnedLate
from trouper.core.action_events import ActionStarted as ActionStarted
from trouper.core.action_events import ActionUnresolved as ActionUnresolved
from trouper.core.action_events import ApprovalDecided as ApprovalDecided
from trouper.core.action_events import ApprovalExpired as ApprovalExpired
from trouper.core.action_events import ApprovalRequested as ApprovalRequested
from trouper.core.approvals import Asking as Asking
from trouper.core.approvals import Grounds as Grounds
from trouper.core.base import Base as Base
from trouper.core.base import HistoryRef as HistoryRef
from trouper.core.budget import Reserve
from trouper.core.budget_events import BudgetRaised as BudgetRaised
from trouper.core.budget_events import BudgetRefused as BudgetRefused
from trouper.core.budget_events import BudgetWarned as BudgetWarned
from trouper.core.child_events import ChildCancelRequested as ChildCancelRequested
from trouper.core.child_events import ChildFinished as ChildFinished
from trouper.core.child_events import ChildStarted as ChildStarted
from trouper.core.control_events import ChildPauseRequested as ChildPauseRequested
from trouper.core.control_events import DeadlineExtended as DeadlineExtended
from trouper.core.control_events import DeadlinePassed as DeadlinePassed
from trouper.core.control_events import PauseRequested as PauseRequested
from trouper.core.control_events import RunHeard as RunHeard
from trouper.core.control_events import RunSignalled as RunSignalled
from trouper.core.control_events import TimerFired as TimerFired
from trouper.core.control_events import TimerSet as TimerSet
from trouper.core.conversation import Message
from trouper.core.family import Parent
from trouper.core.fork import Fork as Fork
from trouper.core.hook_events import HookApplied as HookApplied
from trouper.core.hook_events import HookDone as HookDone
from trouper.core.output_events import OutputAccepted as OutputAccepted
from trouper.core.output_events import OutputRejected as OutputRejected
from trouper.core.rule_events import RuleAdded as RuleAdded
from trouper.core.rule_events import RuleRevoked as RuleRevoked
from trouper.core.rule_events import RuleUsed as RuleUsed
from trouper.core.session import SessionTurn as SessionTurn
from trouper.core.session import Standing as Standing
from trouper.core.session_events import SESSION_EVENTS as SESSION_EVENTS
from trouper.core.session_events import ApprovalWithdrawn as ApprovalWithdrawn
from trouper.core.session_events import ContextCompacted as ContextCompacted
from trouper.core.session_events import SessionCompacted as SessionCompacted
from trouper.core.session_events import SessionOpened as SessionOpened
from trouper.core.session_events import SummaryFailed as SummaryFailed
from trouper.core.session_events import SummaryRequested as SummaryRequested
from trouper.core.session_events import TurnEnded as TurnEnded
from trouper.core.session_events import TurnGiven as TurnGiven
from trouper.core.session_events import TurnQueued as TurnQueued
from trouper.core.session_events import TurnReopened as TurnReopened
from trouper.core.session_events import TurnWithdrawn as TurnWithdrawn
from trouper.core.state_events import StateChanged as StateChanged
from trouper.core.state_events import StateOp as StateOp
from trouper.core.state_events import StateRefused as StateRefused
from trouper.core.terms import NO_TERMS as NO_TERMS
from trouper.core.terms import AskedCall as AskedCall
from trouper.core.terms import FailureKind as FailureKind
from trouper.core.terms import Limits as Limits
from trouper.core.terms import Principal as Principal
from trouper.core.terms import Requirement as Requirement
from trouper.core.terms import Terms as Terms
from trouper.core.tool_events import ActionAuthorized as ActionAuthorized
from trouper.core.tool_events import ActionDenied as ActionDenied
from trouper.core.tool_events import ToolsBound as ToolsBound
from trouper_journal import Content, EventRegistry, Value, event


@event("definition.recorded", schema=1, driver=True)
@frozen
class DefinitionRecorded:
    """An agent's definition document, once in its own stream ``definition/<digest>``."""

    contract: str
    prose: str
    document: Content[dict[str, Value]]


@event("driver.started", schema=1, driver=True)
@frozen
class DriverStarted:
    """A runtime took the journal; in the stream ``system/driver``, so that an epoch in a record names a process.

    Attributes:
        epoch: The epoch that its records carry.
        node: The name that it was given.
    """

    epoch: int
    node: str


@event("run.submitted", schema=1)
@frozen
class RunSubmitted:
    """Somebody asked an agent to do something.

    Attributes:
        agent: The agent's name.
        limits: Limits asked for instead of the agent's own, or None.
        input: The messages that it starts with.
        salt: Random bytes that key the digests of this run's content.
        by: Who asked.
        base: The history that it shall start from, or None.
        state: Named state to begin with, or None.
        start_at: Before this moment it does not start (ns UTC); None for at once.
        parent: Which call it answers, where it is a sub-agent's run.
        path: Agent names from the root to this one, where it is a sub-agent's run.
        turn: Its place in a session, or None: it waits until its turn comes.
        grants: The permissions that it has.
        deadline: At this moment it ends, unless it has ended before (ns UTC); None for never.
        fork: Where it was forked from, or None.
    """

    agent: str
    limits: Limits | None = None
    input: Content[tuple[Message, ...]] = ()
    salt: Content[bytes] = b""
    by: Content[Principal | None] = None
    base: Base | None = None
    state: Content[dict[str, Value] | None] = None
    start_at: int | None = None
    parent: Parent | None = None
    path: tuple[str, ...] = ()
    turn: SessionTurn | None = None
    grants: tuple[str, ...] = ()
    deadline: int | None = None
    fork: Fork | None = None


@event("run.started", schema=1, driver=True)
@frozen
class RunStarted:
    """The agent took the run up; what it does from here on depends on nothing outside this stream.

    Attributes:
        definition: Digest of the definition document.
        contract: Digest of what the agent promises (schemas, effects, gates, limits).
        prose: Digest of how it is told (instructions, descriptions, settings).
        rules: Number of the decision rules that the run follows.
        limits: The limits in force.
        terms: What else the rules must know of the definition.
        base: The history that it starts from, with the digests of what stands there; None where it starts afresh.
        defaults: What keys of the named state hold that nobody has set.
        deadline: When its wall time is up (ns UTC), where that is limited.
    """

    definition: str
    contract: str
    prose: str
    rules: int
    limits: Limits
    terms: Terms = NO_TERMS
    base: Base | None = None
    defaults: Content[dict[str, Value] | None] = None
    deadline: int | None = None


@event("definition.adopted", schema=1)
@frozen
class DefinitionAdopted:
    """The run goes on under another definition than it began with."""

    definition: str
    contract: str
    prose: str
    by: Content[Principal | None] = None
    terms: Terms = NO_TERMS
    defaults: Content[dict[str, Value] | None] = None


@event("model.requested", schema=1, driver=True)
@frozen
class ModelRequested:
    """A request is about to be sent: one event for each attempt on the wire.

    Attributes:
        index: Number of the model call in the run, from 0.
        attempt: Number of the attempt, from 1.
        digest: Keyed digest over the digests of the messages, in order.
        closing: The last request of a run at its limit: no tools are offered.
        model: Name of the model that is asked, where a hook chose another than the agent's own.
        reserve: What it may come to, where a limit of tokens or cost asks for that.
    """

    index: int
    attempt: int
    digest: bytes
    closing: bool = False
    model: str = ""
    reserve: Reserve | None = None


@event("model.responded", schema=1, driver=True)
@frozen
class ModelResponded:
    """The model's reply, as it came.

    Attributes:
        cached_tokens: Tokens of the request that the provider had cached, where it told.
        assumed_tokens: Estimate of the tokens that it did not tell, where a limit asks for one.
        price: Id of the price entry that the cost was reckoned by.
        cost: What it cost in nano-units; None where there is no price, or too little is known.
    """

    index: int
    attempt: int
    finish: str
    truncated: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    request_id: str | None = None
    cached_tokens: int | None = None
    assumed_tokens: int = 0
    price: str | None = None
    cost: int | None = None
    text: Content[Value] = None
    calls: Content[tuple[AskedCall, ...]] = ()
    reasoning: Content[str | None] = None
    reasoning_field: Content[str | None] = None
    refusal: Content[str | None] = None
    extra: Content[dict[str, Value] | None] = None


@event("model.failed", schema=1, driver=True)
@frozen
class ModelFailed:
    """An attempt brought no reply, and it is known why.

    Attributes:
        retry_at: When it may be tried again (ns UTC); None where trying again is useless.
    """

    index: int
    attempt: int
    retry_at: int | None = None
    status: int | None = None
    message: Content[str] = ""


@event("model.lost", schema=1, driver=True)
@frozen
class ModelLost:
    """A request went out and nobody will ever know its reply: it may have been billed."""

    index: int
    attempt: int
    reason: Literal["restart", "shutdown", "cancelled", "deadline"]


@event("run.cancel_requested", schema=1)
@frozen
class CancelRequested:
    """Somebody wants the run to end."""

    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("run.resume_requested", schema=1)
@frozen
class ResumeRequested:
    """Somebody wants a run to go on that is paused, or that failed over its model's replies.

    Attributes:
        below: The runs that its calls began whose own such event stands in the same commit.
    """

    by: Content[Principal | None] = None
    reason: Content[str | None] = None
    below: tuple[str, ...] = ()


@event("run.waiting", schema=1, driver=True)
@frozen
class RunWaiting:
    """The driver has seen everything up to here and has nothing to do before the stream's ``wake_at``.

    Attributes:
        reason: ``drift``: the definition changed and the policy is to wait; None: it shows in the state.
    """

    reason: Literal["drift"] | None = None
    details: Content[tuple[str, ...]] = ()


@event("run.succeeded", schema=1, driver=True)
@frozen
class RunSucceeded:
    """The run has its output: the model's last reply, unless something else is named.

    Attributes:
        source: The call whose result is the output; None where a reply is.
    """

    source: str | None = None


@event("run.failed", schema=1, driver=True)
@frozen
class RunFailed:
    """The run cannot go on.

    Attributes:
        kind: ``model``: no reply to be had; ``step_limit``; ``truncated``: reply after reply was cut off; ``output``:
            answer after answer could not be read as the output; ``incomplete``: evidence was missing to the end;
            ``refused``: the model would not, or a filter stepped in; ``deadline``: its time was up; ``hook``: a hook
            said so, or raised; ``binding``: the tools of a step could not be chosen; ``budget``: at another limit than
            that of steps, or at one of a run above it; ``state``: the named state that it was submitted with does not
            fit. None of them but the last is for good: a resume, a raised limit or a later deadline lets the run go on.
    """

    kind: FailureKind
    message: Content[str] = ""


@event("run.cancelled", schema=1, driver=True)
@frozen
class RunCancelled:
    """The run ended because somebody wanted it to; calls in doubt stay in doubt."""


REGISTRY = EventRegistry(
    [
        DefinitionRecorded,
        DriverStarted,
        RunSubmitted,
        RunStarted,
        DefinitionAdopted,
        ModelRequested,
        ModelResponded,
        ModelFailed,
        ModelLost,
        ActionPlanned,
        ActionReplanned,
        ActionAuthorized,
        ActionDenied,
        ToolsBound,
        ApprovalRequested,
        ApprovalDecided,
        ApprovalExpired,
        ActionStarted,
        ActionReceipted,
        ActionInterrupted,
        ActionQueried,
        ActionUnresolved,
        ActionResolved,
        ActionReturnedLate,
        ChildStarted,
        ChildCancelRequested,
        ChildPauseRequested,
        ChildFinished,
        OutputAccepted,
        OutputRejected,
        CancelRequested,
        BudgetRefused,
        BudgetWarned,
        BudgetRaised,
        TimerSet,
        TimerFired,
        DeadlinePassed,
        DeadlineExtended,
        PauseRequested,
        ResumeRequested,
        HookApplied,
        StateChanged,
        StateRefused,
        RunSignalled,
        RunHeard,
        RuleAdded,
        RuleRevoked,
        RuleUsed,
        RunWaiting,
        RunSucceeded,
        RunFailed,
        RunCancelled,
        *SESSION_EVENTS,
    ]
)
"""All events of the runtime, for opening a journal with."""
