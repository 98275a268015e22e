"""A run from its submission to its end; and what stands in the streams of definitions and of drivers."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.core.base import Base
from trouper.core.conversation import Message
from trouper.core.family import Parent
from trouper.core.fork import Fork
from trouper.core.session import SessionTurn
from trouper.core.terms import NO_TERMS, FailureKind, Limits, Principal, Terms
from trouper_journal import Content, Plain, Value, event


@event("definition.recorded", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class DefinitionRecorded(Plain):
    """An agent's definition document, once in its own stream ``definition/<digest>``."""

    contract: str
    prose: str
    document: Content[dict[str, Value]]


@event("driver.started", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class DriverStarted(Plain):
    """A runtime took the journal; in the stream ``system/driver``, so that an epoch in a record names a process.

    Attributes:
        epoch: The epoch that its records carry.
        node: The name that it was given.
    """

    epoch: int
    node: str


@event("run.submitted", schema=1)
@frozen(repr=False, eq=False)
class RunSubmitted(Plain):
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
@frozen(repr=False, eq=False)
class RunStarted(Plain):
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
@frozen(slots=False, repr=False, eq=False)
class DefinitionAdopted(Plain):
    """The run goes on under another definition than it began with."""

    definition: str
    contract: str
    prose: str
    by: Content[Principal | None] = None
    terms: Terms = NO_TERMS
    defaults: Content[dict[str, Value] | None] = None


@event("run.cancel_requested", schema=1)
@frozen(slots=False, repr=False, eq=False)
class CancelRequested(Plain):
    """Somebody wants the run to end."""

    by: Content[Principal | None] = None
    reason: Content[str | None] = None


@event("run.resume_requested", schema=1)
@frozen(slots=False, repr=False, eq=False)
class ResumeRequested(Plain):
    """Somebody wants a run to go on that is paused, or that failed over its model's replies.

    Attributes:
        below: The runs that its calls began whose own such event stands in the same commit.
    """

    by: Content[Principal | None] = None
    reason: Content[str | None] = None
    below: tuple[str, ...] = ()


@event("run.waiting", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class RunWaiting(Plain):
    """The driver has seen everything up to here and has nothing to do before the stream's ``wake_at``.

    Attributes:
        reason: ``drift``: the definition changed and the policy is to wait; None: it shows in the state.
    """

    reason: Literal["drift"] | None = None
    details: Content[tuple[str, ...]] = ()


@event("run.succeeded", schema=1, driver=True)
@frozen(repr=False, eq=False)
class RunSucceeded(Plain):
    """The run has its output: the model's last reply, unless something else is named.

    Attributes:
        source: The call whose result is the output; None where a reply is.
    """

    source: str | None = None


@event("run.failed", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class RunFailed(Plain):
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
@frozen(slots=False, repr=False, eq=False)
class RunCancelled(Plain):
    """The run ended because somebody wanted it to; calls in doubt stay in doubt."""
