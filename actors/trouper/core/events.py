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

from trouper.core.conversation import Message
from trouper.core.effects import Effect
from trouper_journal import Content, EventRegistry, Value, content, event


@frozen
class Principal:
    """Who did something.

    Attributes:
        id: Name within ``via``, such as ``maria``.
        kind: A person, a service, a policy or an agent.
        via: How the claim reached us, such as ``api`` or ``os-user:maria``.
        assurance: Whether it was only said (``asserted``), checked (``authenticated``) or proven (``signed``).
    """

    id: str
    kind: Literal["person", "service", "policy", "agent"] = "person"
    via: str = "api"
    assurance: Literal["asserted", "authenticated", "signed"] = "asserted"


@frozen
class Limits:
    """How far a run may go.

    Attributes:
        max_steps: Super-steps: each answered model request is one, each batch of tools is one. A failed or lost
            request that is sent again is not another step.
        on_limit: ``raise`` fails the run, resumably; ``finish`` makes one last request, without tools, and takes its
            answer. That last request comes on top of ``max_steps``.
        model_attempts: How often one request is sent at most when it fails in a way that may pass.
    """

    max_steps: int = 50
    on_limit: Literal["raise", "finish"] = "raise"
    model_attempts: int = 5

    def __attrs_post_init__(self) -> None:
        if self.max_steps < 1 or self.model_attempts < 1:
            raise ValueError("max_steps and model_attempts are at least 1")


@frozen
class AskedCall:
    """A call as the model asked for it, raw."""

    name: str
    arguments: str
    provider_id: str | None = None
    extra: dict[str, Value] | None = None


@event("definition.recorded", schema=1, driver=True)
@frozen
class DefinitionRecorded:
    """An agent's definition document, once in its own stream ``definition/<digest>``."""

    contract: str
    prose: str
    document: Content[dict[str, Value]] = content()


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
    """

    agent: str
    limits: Limits | None = None
    input: Content[tuple[Message, ...]] = content(default=())
    salt: Content[bytes] = content(default=b"")
    by: Content[Principal | None] = content(default=None)


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
    """

    definition: str
    contract: str
    prose: str
    rules: int
    limits: Limits


@event("definition.adopted", schema=1)
@frozen
class DefinitionAdopted:
    """The run goes on under another definition than it began with."""

    definition: str
    contract: str
    prose: str
    by: Content[Principal | None] = content(default=None)


@event("model.requested", schema=1, driver=True)
@frozen
class ModelRequested:
    """A request is about to be sent: one event for each attempt on the wire.

    Attributes:
        index: Number of the model call in the run, from 0.
        attempt: Number of the attempt, from 1.
        digest: Keyed digest over the digests of the messages, in order.
        closing: The last request of a run at its limit: no tools are offered.
    """

    index: int
    attempt: int
    digest: bytes
    closing: bool = False


@event("model.responded", schema=1, driver=True)
@frozen
class ModelResponded:
    """The model's reply, as it came."""

    index: int
    attempt: int
    finish: str
    truncated: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    request_id: str | None = None
    text: Content[Value] = content(default=None)
    calls: Content[tuple[AskedCall, ...]] = content(default=())
    reasoning: Content[str | None] = content(default=None)
    reasoning_field: Content[str | None] = content(default=None)
    refusal: Content[str | None] = content(default=None)
    extra: Content[dict[str, Value] | None] = content(default=None)


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
    message: Content[str] = content(default="")


@event("model.lost", schema=1, driver=True)
@frozen
class ModelLost:
    """A request went out and nobody will ever know its reply: it may have been billed."""

    index: int
    attempt: int
    reason: Literal["restart", "shutdown", "cancelled"]


@event("action.planned", schema=1, driver=True)
@frozen
class ActionPlanned:
    """A call was read, checked against its tool, and given its gate.

    Attributes:
        action: ``<model index>.<call index>``.
        tool: The tool's name.
        effect: Its effect class.
        gate: ``free`` may run, ``person`` needs an approval, ``refused`` never runs (`refusal` tells the model why),
            ``limit`` was not looked at because the run had reached its limit.
        identity: Digest of what the tool promises (name, schema, effect, gate, limits).
        digest: Keyed digest of that and the arguments; what an approval binds to.
        attempts: How often the tool may be tried.
        arguments: The arguments as read, None where they could not be read.
        refusal: What the model is told where the call is refused.
    """

    action: str
    tool: str
    effect: Effect
    gate: Literal["free", "person", "refused", "limit"] = "free"
    identity: bytes = b""
    digest: bytes = b""
    attempts: int = 1
    arguments: Content[dict[str, Value] | None] = content(default=None)
    refusal: Content[str | None] = content(default=None)


@event("approval.requested", schema=1, driver=True)
@frozen
class ApprovalRequested:
    """A person is asked.

    Attributes:
        request: Number of the request for this action, from 1; a new one where the tool changed meanwhile.
        expires_at: When the request lapses (ns UTC), or None.
    """

    action: str
    request: int
    digest: bytes
    expires_at: int | None = None


@event("approval.decided", schema=1)
@frozen
class ApprovalDecided:
    """A person decided.

    Attributes:
        digest: Digest of the call decided on: of the edited arguments where there are any.
        arguments: The arguments to run instead of the model's, or None.
    """

    action: str
    request: int
    decision: Literal["approve", "deny"]
    digest: bytes
    by: Content[Principal | None] = content(default=None)
    reason: Content[str | None] = content(default=None)
    arguments: Content[dict[str, Value] | None] = content(default=None)


@event("approval.expired", schema=1, driver=True)
@frozen
class ApprovalExpired:
    """A request lapsed: its time ran out, or the tool changed and it must be asked anew."""

    action: str
    request: int
    reason: Literal["time", "changed"]


@event("action.replanned", schema=1, driver=True)
@frozen
class ActionReplanned:
    """After a new definition was adopted: the call's gate, limit and digest under it."""

    action: str
    effect: Effect
    gate: Literal["free", "person"]
    identity: bytes
    digest: bytes
    attempts: int = 1


@event("action.started", schema=1, driver=True)
@frozen
class ActionStarted:
    """An attempt at a call is about to be made."""

    action: str
    attempt: int


@event("action.receipted", schema=1, driver=True)
@frozen
class ActionReceipted:
    """A call is over and its outcome is known.

    Attributes:
        attempt: The attempt that it is about; 0 where none was made.
        outcome: Whether it did what was asked.
        evidence: What the outcome rests on.
        text: What the model is told.
        value: The tool's result, where it is more than ``text``.
    """

    action: str
    attempt: int
    outcome: Literal["ok", "error"]
    evidence: Literal["returned", "query", "person", "not_started", "tool_error", "late"] = "returned"
    text: Content[str] = content(default="")
    value: Content[Value] = content(default=None)


@event("action.interrupted", schema=1, driver=True)
@frozen
class ActionInterrupted:
    """An attempt ended without an outcome that can be trusted.

    Attributes:
        cause: ``lost`` with the process that made it; ``timeout``; ``cancelled`` with the run; ``shutdown`` with
            the runtime; ``exception``; ``transient``: known not applied, may be tried again.
        retry_at: Earliest moment of another attempt (ns UTC), or None for at once.
    """

    action: str
    attempt: int
    cause: Literal["lost", "timeout", "cancelled", "shutdown", "exception", "transient"]
    retry_at: int | None = None
    message: Content[str] = content(default="")


@event("action.queried", schema=1, driver=True)
@frozen
class ActionQueried:
    """The tool's query was asked whether an interrupted attempt took place (``found`` is receipted instead)."""

    action: str
    attempt: int
    answer: Literal["absent", "unknown"]
    message: Content[str] = content(default="")


@event("action.unresolved", schema=1, driver=True)
@frozen
class ActionUnresolved:
    """Whether the call took place is unknown, and only a named person can settle it."""

    action: str
    attempt: int
    text: Content[str] = content(default="")


@event("action.resolved", schema=1)
@frozen
class ActionResolved:
    """A person settled a call in doubt."""

    action: str
    verdict: Literal["applied", "not_applied", "run_again", "abandon"]
    by: Content[Principal | None] = content(default=None)
    evidence: Content[str | None] = content(default=None)


@event("action.returned_late", schema=1, driver=True)
@frozen
class ActionReturnedLate:
    """An attempt that had been given up came back after the call was settled: a note, never a second outcome."""

    action: str
    attempt: int
    outcome: Literal["ok", "error"]
    text: Content[str] = content(default="")


@event("run.cancel_requested", schema=1)
@frozen
class CancelRequested:
    """Somebody wants the run to end."""

    by: Content[Principal | None] = content(default=None)
    reason: Content[str | None] = content(default=None)


@event("budget.raised", schema=1)
@frozen
class BudgetRaised:
    """The run may take more steps; one that had failed at its limit goes on.

    Attributes:
        steps: How many more.
    """

    steps: int
    by: Content[Principal | None] = content(default=None)
    reason: Content[str | None] = content(default=None)


@event("run.resume_requested", schema=1)
@frozen
class ResumeRequested:
    """Somebody wants a run to go on that failed for want of a model's reply, or because replies were cut off."""

    by: Content[Principal | None] = content(default=None)
    reason: Content[str | None] = content(default=None)


@event("run.waiting", schema=1, driver=True)
@frozen
class RunWaiting:
    """The driver has seen everything up to here and has nothing to do before the stream's ``wake_at``.

    Attributes:
        reason: ``drift``: the definition changed and the policy is to wait; None: it shows in the state.
    """

    reason: Literal["drift"] | None = None
    details: Content[tuple[str, ...]] = content(default=())


@event("run.succeeded", schema=1, driver=True)
@frozen
class RunSucceeded:
    """The model's last reply is the run's output."""


@event("run.failed", schema=1, driver=True)
@frozen
class RunFailed:
    """The run cannot go on.

    kind: ``model``: no reply to be had; ``step_limit``; ``truncated``: reply after reply was cut off. None of them is
        for good: a resume, or a raised limit, lets the run go on.
        for good: a resume, or a raised limit, lets the run go on.
    """

    kind: Literal["model", "step_limit", "truncated"]
    message: Content[str] = content(default="")


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
        CancelRequested,
        BudgetRaised,
        ResumeRequested,
        RunWaiting,
        RunSucceeded,
        RunFailed,
        RunCancelled,
    ]
)
"""All events of the runtime, for opening a journal with."""
