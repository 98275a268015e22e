"""A call that a model asked for, as a run's state holds it: where it stands, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from attrs import frozen

from trouper.core.action_events import Gate
from trouper.core.approvals import NO_CONSENT, Consent
from trouper.core.control import Sleep
from trouper.core.conversation import Part
from trouper.core.effects import Effect
from trouper.core.family import Child
from trouper.core.terms import Principal
from trouper.core.tooling import Denial
from trouper_journal import Plain, Value


class Phase(StrEnum):
    """Where an action stands in its life.

    ``UNRESOLVED`` is the explicit doubt: started, and nobody knows whether it took place. ``REPEAT`` is a doubt that
    a person settled by sending the call again.
    """

    PLANNED = "planned"
    FORBIDDEN = "forbidden"
    AWAITING = "awaiting"
    APPROVED = "approved"
    DENIED = "denied"
    LAPSED = "lapsed"
    STARTED = "started"
    SLEEPING = "sleeping"
    INTERRUPTED = "interrupted"
    UNRESOLVED = "unresolved"
    REPEAT = "repeat"
    RESOLVED = "resolved"
    CLOSED = "closed"


@frozen(slots=False, repr=False, eq=False)
class Decision(Plain):
    """How a request for approval was decided, for good: the last vote that it took."""

    request: int
    decision: Literal["approve", "deny"]
    digest: bytes
    by: Principal | None
    reason: str | None
    edited: bool


@frozen(slots=False, repr=False, eq=False)
class Action(Plain):
    """A call that a model asked for, and what became of it.

    Attributes:
        action: ``<model index>.<call index>``.
        arguments: What would run, or ran: the approver's edit where there was one.
        original: The arguments before, where an approver edited them.
        asked: The model's own arguments, where a hook changed them.
        attempt: The last attempt started; 0 for none.
        losses: How many attempts do not count: lost with a process, or never begun.
        doubted: An attempt of a write was cut off, and nobody has found out since whether it took place.
        query: What the tool's query answered about the last attempt.
        request: Number of the last approval request; 0 for none.
        ok: The outcome, once closed.
        text: What the model is told, once closed or in doubt.
        parts: What it is told in place of that, where it is more than text.
        permissions: What the run must have been granted.
        authorize: Whether a callback must still be asked before it starts.
        denial: Why it may not run.
        direct: Whether its result may be the run's output.
        verdict: What a person settled a doubt with.
        child: The run that it began, where it calls a sub-agent.
        answer: How a hook answered the call in place of the tool, or None.
        reviewed: Hooks have seen its result.
        sleep: What it waits for, where its tool has set a timer.
        consent: Who must agree to it, and who has.
    """

    action: str
    tool: str
    effect: Effect
    gate: Gate
    identity: bytes
    digest: bytes
    attempts: int
    arguments: Mapping[str, Value] | None
    phase: Phase = Phase.PLANNED
    attempt: int = 0
    losses: int = 0
    doubted: bool = False
    request: int = 0
    expires_at: int | None = None
    cause: str | None = None
    retry_at: int | None = None
    query: Literal["absent", "unknown"] | None = None
    refusal: str | None = None
    original: Mapping[str, Value] | None = None
    asked: Mapping[str, Value] | None = None
    answer: Literal["ok", "error"] | None = None
    reviewed: bool = False
    decision: Decision | None = None
    ok: bool | None = None
    text: str = ""
    parts: tuple[Part, ...] = ()
    permissions: tuple[str, ...] = ()
    authorize: bool = False
    denial: Denial | None = None
    direct: bool = False
    verdict: Literal["applied", "not_applied", "run_again", "abandon"] | None = None
    settled_by: Principal | None = None
    evidence: str | None = None
    child: Child | None = None
    sleep: Sleep | None = None
    consent: Consent = NO_CONSENT

    @property
    def unreviewed(self) -> bool:
        """Whether it was made, is over, and was not shown to hooks."""
        return self.phase is Phase.CLOSED and self.attempt > 0 and not self.reviewed
