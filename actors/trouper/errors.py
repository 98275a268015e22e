"""Every error that a user of the runtime may want to catch, in one place."""

from __future__ import annotations

from trouper_journal._errors import ArchiveRefused as ArchiveRefused
from trouper_journal._errors import CheckpointMismatch as CheckpointMismatch
from trouper_journal._errors import IdempotencyConflict as IdempotencyConflict
from trouper_journal._errors import InvalidKey as InvalidKey
from trouper_journal._errors import InvalidNote as InvalidNote
from trouper_journal._errors import InvalidProof as InvalidProof
from trouper_journal._errors import InvalidValue as InvalidValue
from trouper_journal._errors import InvalidWrite as InvalidWrite
from trouper_journal._errors import JournalBroken as JournalBroken
from trouper_journal._errors import JournalClosed as JournalClosed
from trouper_journal._errors import JournalCorrupt as JournalCorrupt
from trouper_journal._errors import JournalError as JournalError
from trouper_journal._errors import JournalInUse as JournalInUse
from trouper_journal._errors import JournalRolledBack as JournalRolledBack
from trouper_journal._errors import MissingExtra as MissingExtra
from trouper_journal._errors import NotAJournal as NotAJournal
from trouper_journal._errors import RecordArchived as RecordArchived
from trouper_journal._errors import RecordDamaged as RecordDamaged
from trouper_journal._errors import StaleFence as StaleFence
from trouper_journal._errors import StorageBusy as StorageBusy
from trouper_journal._errors import StorageFull as StorageFull
from trouper_journal._errors import StorageReadOnly as StorageReadOnly
from trouper_journal._errors import StorageUnreadable as StorageUnreadable
from trouper_journal._errors import TrouperError as TrouperError
from trouper_journal._errors import UnknownEvent as UnknownEvent
from trouper_journal._errors import VersionConflict as VersionConflict
from trouper_journal._errors import WitnessRefused as WitnessRefused


class ActorError(TrouperError):
    """Root of the errors of the actor kit.

    Attributes:
        actor: The path of the actor that it is about.
    """

    def __init__(self, actor: str, message: str) -> None:
        super().__init__(f"actor {actor}: {message}")
        self.actor = actor


class ActorStopped(ActorError):
    """The actor stopped before it could answer, or was stopped already; what it did meanwhile is unknown."""

    def __init__(self, actor: str) -> None:
        super().__init__(actor, "it has stopped or is stopping; spawn it anew or address another")


class ActorFailed(ActorError):
    """The actor raised while it handled the message.

    Attributes:
        cause: What it raised; also the ``__cause__``.
    """

    def __init__(self, actor: str, cause: Exception) -> None:
        super().__init__(actor, f"it failed with {type(cause).__name__}")
        self.cause = cause
        self.__cause__ = cause


class MailboxFull(ActorError):
    """``tell_nowait`` met a full mailbox (or an actor told itself while its own was full); nothing was accepted.

    Attributes:
        capacity: Bound of the mailbox.
    """

    def __init__(self, actor: str, capacity: int) -> None:
        super().__init__(actor, f"its mailbox is full ({capacity}); await tell, or shed load")
        self.capacity = capacity


class SelfWait(ActorError):
    """An actor would have waited for itself for ever (asked itself, or awaited its own or its supervisor's end)."""


class NameTaken(ActorError, ValueError):
    """A living sibling has this name already."""

    def __init__(self, actor: str) -> None:
        super().__init__(actor, "a living sibling has this name; choose another or wait until it has stopped")


class DefinitionError(TrouperError, ValueError):
    """An agent, a tool, limits or options that cannot work as defined (a bad name, no schema to be had, duplicates)."""


class SchemaError(DefinitionError):
    """A tool's parameter cannot be described to a model.

    Attributes:
        tool: The tool's name.
        parameter: The parameter's name; empty where it is about the whole tool.
        reason: What is wrong with it.
    """

    def __init__(self, tool: str, parameter: str, reason: str) -> None:
        where = f"tool {tool}, parameter {parameter}" if parameter else f"tool {tool}"
        super().__init__(f"{where}: {reason}")
        self.tool = tool
        self.parameter = parameter
        self.reason = reason


class ContentWithheld(TrouperError):
    """What must be known to go on is sealed and cannot be read here, or was erased; nothing was changed.

    Attributes:
        subject: The run or session.
        details: Why it cannot be read.
    """

    def __init__(self, subject: str, details: str) -> None:
        super().__init__(
            f"{subject} cannot be read here ({details}): open the journal with the keys that it was written with, "
            "or leave it as it is"
        )
        self.subject = subject
        self.details = details


class ErasureRefused(TrouperError):
    """A run or session cannot be erased as it stands; nothing was changed.

    Attributes:
        subject: The run or session.
        reason: Why not.
    """

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} is not erased: {reason}")
        self.subject = subject
        self.reason = reason


class ArgumentsError(TrouperError, ValueError):
    """Arguments for a tool that do not fit its schema; the message tells a model what to mend, path by path."""


class ToolError(TrouperError):
    """Raise this in a tool for "known not applied, tell the model": the call gets an error receipt."""


class TransientError(ToolError):
    """Raise this in a tool for "not applied, may be retried".

    Attributes:
        retry_after: Seconds to wait at least before another attempt, where the other side named them; a day counts as
            the most.
    """

    def __init__(self, *args: object, retry_after: float | None = None) -> None:
        super().__init__(*args)
        self.retry_after = retry_after


class ModelError(TrouperError):
    """A model call failed.

    Attributes:
        retryable: Whether the same request may succeed later.
        retry_after: Seconds that the provider asked to wait; None where it named none.
        status: HTTP status of the answer; None where there was none.
    """

    def __init__(
        self, message: str, *, retryable: bool = False, retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class RuntimeStopped(TrouperError):
    """The runtime is stopping, or has stopped; the run itself is safe in the journal."""


class BundleError(TrouperError):
    """An evidence bundle cannot be made as it was asked for."""


class ForkError(TrouperError, ValueError):
    """A fork that cannot be made: an edit that names nothing, or a history that is gone."""


class StreamOverrun(TrouperError):
    """Whoever listened to a run was too slow, and had chosen to be disconnected then; the run goes on."""


class UnknownRun(TrouperError, LookupError):
    """No run of that id is in the journal."""


class UnknownSession(TrouperError, LookupError):
    """No session of that id is in the journal."""


class SessionError(TrouperError):
    """A session that cannot do what was asked; nothing changed.

    Attributes:
        session: The session's id.
    """

    def __init__(self, session: str, message: str) -> None:
        super().__init__(f"session {session}: {message}")
        self.session = session


class UnknownAgent(TrouperError, LookupError):
    """No agent of that name was given to the runtime."""


class UnknownAction(TrouperError, LookupError):
    """No action of that id is in the journal."""


class ApprovalError(TrouperError):
    """A decision that cannot be taken (late, foreign, conflicting, or an edit that does not fit); nothing changed."""


class ApprovalConflict(ApprovalError):
    """The call was decided otherwise before.

    Attributes:
        action: The action's id.
        stored: The decision that stands ("approve" or "deny").
    """

    def __init__(self, action: str, stored: str, by: str) -> None:
        super().__init__(f"action {action} was decided before: {stored} by {by}; nothing was changed")
        self.action = action
        self.stored = stored


class NotEligible(ApprovalError):
    """Somebody who may not take this decision; nothing changed.

    Attributes:
        action: The action's id.
        rule: ``eligible``: not among those who may decide; ``separation``: whoever asked for the run cannot approve;
            ``unnamed``: the decision names nobody; ``unknown_requester``: nobody knows who asked for the run, so that
            separation of duties cannot be kept.
    """

    def __init__(self, action: str, rule: str, reason: str) -> None:
        super().__init__(f"action {action}: {reason}; nothing was changed")
        self.action = action
        self.rule = rule


class UnknownRule(TrouperError, LookupError):
    """No standing rule of that id is in the journal."""


class EditError(ApprovalError):
    """Edited arguments that do not fit the tool's schema; the call still waits, nothing changed."""


class ResolveError(TrouperError):
    """An action that cannot be resolved (it is not in doubt, or was settled otherwise); nothing changed."""


class SteerError(TrouperError):
    """A run that cannot take in messages (it is over, or about to be); nothing changed.

    Attributes:
        run: The run's id.
    """

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(f"run {run} cannot be steered: {reason}")
        self.run = run


class DefinitionDrift(TrouperError):
    """A run's agent is not defined as it was when the run began, and the policy is to wait.

    Attributes:
        run: The run's id.
        changes: What differs, one line each.
    """

    def __init__(self, run: str, changes: tuple[str, ...]) -> None:
        super().__init__(f"run {run} waits: its agent's definition changed ({'; '.join(changes)}); adopt it to go on")
        self.run = run
        self.changes = changes


class RunError(TrouperError):
    """Root of the ways in which a run ends without succeeding.

    Attributes:
        run: The run's id.
        result: How it ended: messages, usage and what is in doubt (a ``RunResult``); None where it is not known.
    """

    result: object | None = None

    def __init__(self, run: str, message: str) -> None:
        super().__init__(f"run {run}: {message}")
        self.run = run


class RunFailed(RunError):
    """The run failed: its model or its definition could not go on."""


class RunCancelled(RunError):
    """The run was cancelled; the message says by whom and why."""


class BudgetExceeded(RunError):
    """The run reached one of its limits, or one of a run above it; its state is kept, and it can go on with more.

    Attributes:
        resource: What there was not enough of: ``steps``, ``model_calls``, ``tool_calls``, ``tokens``, ``cost`` or
            ``seconds``.
        limit: The limit, in the resource's unit (nano-units for cost).
        spent: What had been spent of it, reserves included.
        owner: The run whose limit it is.
    """

    def __init__(
        self, run: str, message: str, *, resource: str = "steps", limit: float = 0, spent: float = 0, owner: str = ""
    ) -> None:
        super().__init__(run, message)
        self.resource = resource
        self.limit = limit
        self.spent = spent
        self.owner = owner or run


class StepLimitExceeded(BudgetExceeded):
    """The run reached ``max_steps``; its state is kept, and it can go on with a higher limit."""


class DeadlineExceeded(RunError):
    """The run's deadline passed before it had ended; its state is kept, and it can go on with a later one."""


class OutputInvalid(RunError):
    """Answer after answer could not be read as the structured output that the agent is to give."""


class RunIncomplete(RunError):
    """The model wanted to end without the evidence that the agent's completion rules ask for, to the end."""


class ModelRefused(RunError):
    """The model refused to answer, or its provider filtered the reply; ``result.text`` is what it said."""


class OutputTruncated(RunError):
    """The model's reply was cut off by its length limit again and again."""
