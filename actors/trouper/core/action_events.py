"""What happens to a call that a model asked for: planned, approved, started, receipted, in doubt, settled."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from trouper.core.approvals import NO_GROUNDS, Grounds
from trouper.core.effects import Effect
from trouper.core.terms import Principal
from trouper_journal import Content, Plain, Value, event

Cause: TypeAlias = Literal[
    "lost",
    "timeout",
    "cancelled",
    "deadline",
    "shutdown",
    "exception",
    "transient",
    "retryable",
    "tool_error",
    "not_begun",
    "restored",
]
"""Why an attempt has no outcome that can be trusted."""
Gate: TypeAlias = Literal["free", "person", "refused", "limit", "output", "hook", "recorded", "simulated"]
"""What stands between a call and its tool."""

Evidence: TypeAlias = Literal[
    "returned",
    "query",
    "person",
    "not_started",
    "tool_error",
    "late",
    "timer",
    "child",
    "output",
    "hook",
    "recorded",
    "simulated",
]
"""What an outcome rests on; ``recorded``: on the receipt of the same call in the run that was forked."""


@event("action.planned", schema=1, driver=True)
@frozen(repr=False, eq=False)
class ActionPlanned(Plain):
    """A call was read, checked against its tool, and given its gate.

    Attributes:
        action: ``<model index>.<call index>``.
        tool: The tool's name.
        effect: Its effect class.
        gate: ``free`` may run, ``person`` needs an approval, ``refused`` never runs (`refusal` tells the model why),
            ``limit`` was not looked at because the run had reached its limit, ``output`` runs nothing: it hands in
            the final output, ``hook`` was answered by a hook. In a fork ``recorded`` and ``simulated`` are answered
            without being run.
        identity: Digest of what the tool promises (name, schema, effect, gate, limits).
        digest: Keyed digest of that and the arguments; what an approval binds to.
        attempts: How often the tool may be tried.
        arguments: The arguments as read, None where they could not be read.
        refusal: What the model is told where the call is refused, or answered by a hook.
        permissions: What the run must have been granted, beside all else.
        authorize: Whether a callback must be asked just before it starts.
        answer: How a hook answered it.
        asked: The model's own arguments, where a hook changed them.
        recorded: Whose receipt answers it, in a fork: the whole id of a call of the run that was forked.
        direct: Whether its result may be the run's output.
        grounds: What let the call through, refused it, or has people asked.
        people: Names of those who may decide, for each request that the grounds name; an empty one lets anybody.
        reason: The grounds in words.
    """

    action: str
    tool: str
    effect: Effect
    gate: Gate = "free"
    identity: bytes = b""
    digest: bytes = b""
    attempts: int = 1
    arguments: Content[dict[str, Value] | None] = None
    refusal: Content[str | None] = None
    permissions: tuple[str, ...] = ()
    authorize: bool = False
    answer: Literal["ok", "error"] | None = None
    asked: Content[dict[str, Value] | None] = None
    recorded: str | None = None
    direct: bool = False
    grounds: Grounds = NO_GROUNDS
    people: Content[tuple[tuple[str, ...], ...]] = ()
    reason: Content[str | None] = None


@event("approval.requested", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ApprovalRequested(Plain):
    """A person is asked.

    Attributes:
        request: Number of the request for this action, from 1; a new one where the tool changed meanwhile.
        expires_at: When the request lapses (ns UTC), or None.
        quorum: How many different principals must approve.
        separation: Whether whoever asked for the run is barred from approving.
        eligible: Names of those who may decide; empty for anybody.
    """

    action: str
    request: int
    digest: bytes
    expires_at: int | None = None
    quorum: int = 1
    separation: bool = False
    eligible: Content[tuple[str, ...]] = ()


@event("approval.decided", schema=1)
@frozen(slots=False, repr=False, eq=False)
class ApprovalDecided(Plain):
    """A person decided; where several must approve, it is that person's vote.

    Attributes:
        digest: Digest of the call decided on: of the edited arguments where there are any.
        voter: Where several must approve: keyed digest of the principal's id, which tells voters apart for ever.
        arguments: The arguments to run instead of the model's, or None.
    """

    action: str
    request: int
    decision: Literal["approve", "deny"]
    digest: bytes
    by: Content[Principal | None] = None
    reason: Content[str | None] = None
    arguments: Content[dict[str, Value] | None] = None
    voter: bytes = b""


@event("approval.expired", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ApprovalExpired(Plain):
    """A request lapsed: its time ran out, or the tool changed and it must be asked anew."""

    action: str
    request: int
    reason: Literal["time", "changed"]


@event("action.replanned", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionReplanned(Plain):
    """After a new definition was adopted: the call's gate, limit and digest under it."""

    action: str
    effect: Effect
    gate: Literal["free", "person", "refused"]
    identity: bytes
    digest: bytes
    attempts: int = 1
    permissions: tuple[str, ...] = ()
    authorize: bool = False
    direct: bool = False
    refusal: Content[str | None] = None
    grounds: Grounds = NO_GROUNDS
    people: Content[tuple[tuple[str, ...], ...]] = ()
    reason: Content[str | None] = None


@event("action.started", schema=1, driver=True)
@frozen(repr=False, eq=False)
class ActionStarted(Plain):
    """An attempt at a call is about to be made."""

    action: str
    attempt: int


@event("action.receipted", schema=1, driver=True)
@frozen(repr=False, eq=False)
class ActionReceipted(Plain):
    """A call is over and its outcome is known.

    Attributes:
        attempt: The attempt that it is about; 0 where none was made.
        outcome: Whether it did what was asked.
        evidence: What the outcome rests on.
        text: What the model is told.
        value: The tool's result, where it is more than ``text``.
        parts: What the model is told in place of ``text``, as content parts, where not all of it is text.
        artifact: What the tool kept beside its result; no model is told.
        cut: How many characters of the result ``text`` leaves out; ``value`` has it whole.
    """

    action: str
    attempt: int
    outcome: Literal["ok", "error"]
    evidence: Evidence = "returned"
    text: Content[str] = ""
    value: Content[Value] = None
    parts: Content[Value] = None
    artifact: Content[Value] = None
    cut: int = 0


@event("action.interrupted", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionInterrupted(Plain):
    """An attempt ended without an outcome that can be trusted.

    Attributes:
        cause: ``lost`` with the process that made it; ``timeout``; ``cancelled`` with the run; ``deadline`` of the run;
            ``shutdown`` with
            the runtime; ``exception``; ``retryable``: an exception that the tool names as worth another attempt,
            where its effect class allows one; ``transient``: this attempt was not applied, another may be made;
            ``tool_error``: it was not applied, but an earlier one may have been; ``not_begun``: it ended before the
            tool was called.
        retry_at: Earliest moment of another attempt (ns UTC), or None for at once.
    """

    action: str
    attempt: int
    cause: Cause
    retry_at: int | None = None
    message: Content[str] = ""


@event("action.queried", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionQueried(Plain):
    """The tool's query was asked whether an interrupted attempt took place (``found`` is receipted instead)."""

    action: str
    attempt: int
    answer: Literal["absent", "unknown"]
    message: Content[str] = ""


@event("action.unresolved", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionUnresolved(Plain):
    """Whether the call took place is unknown, and only a named person can settle it."""

    action: str
    attempt: int
    text: Content[str] = ""


@event("action.resolved", schema=1)
@frozen(slots=False, repr=False, eq=False)
class ActionResolved(Plain):
    """A person settled a call in doubt."""

    action: str
    verdict: Literal["applied", "not_applied", "run_again", "abandon"]
    by: Content[Principal | None] = None
    evidence: Content[str | None] = None


@event("action.returned_late", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class ActionReturnedLate(Plain):
    """An attempt that had been given up came back after the call was settled: a note, never a second outcome."""

    action: str
    attempt: int
    outcome: Literal["ok", "error"]
    text: Content[str] = ""
