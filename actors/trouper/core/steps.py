"""The steps that the rules can name: what must happen now, as values.

A step with ``not_before`` is due at that moment (ns UTC) and not earlier; knowing the time is the shell's part.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from trouper.core.hook_ops import Point
from trouper.core.limits import Resource
from trouper.core.terms import FailureKind
from trouper_journal import Printable


@frozen(repr=False)
class Start(Printable):
    """Pin the definition and take the run up."""

    not_before: int | None = None


@frozen(slots=False, repr=False)
class Hear(Printable):
    """Make what was sent to the run part of its conversation, up to the signal of that version."""

    through: int


@frozen(slots=False, repr=False)
class Summarise(Printable):
    """Ask for a summary of what is not handed on, again."""

    attempt: int
    not_before: int | None = None


@frozen(slots=False, repr=False)
class AbandonSummary(Printable):
    """The run is being cancelled: stop waiting for the summary."""

    attempt: int


@frozen(slots=False, repr=False)
class Compact(Printable):
    """Go on without a summary."""


@frozen(slots=False, repr=False)
class FireTimer(Printable):
    """Wake a call that sleeps."""

    action: str
    attempt: int
    not_before: int


@frozen(slots=False, repr=False)
class PassDeadline(Printable):
    """The run's time is up: once that is due, no other step is."""

    not_before: int


@frozen(repr=False)
class RequestModel(Printable):
    """Send the conversation to the model."""

    index: int
    attempt: int
    closing: bool = False
    not_before: int | None = None


@frozen(slots=False, repr=False)
class AbandonModel(Printable):
    """The run is being cancelled: stop waiting for the reply."""

    index: int
    attempt: int


@frozen(slots=False, repr=False)
class RunHook(Printable):
    """Call the hooks of one point.

    Attributes:
        subject: What it is about (see `HookApplied`).
    """

    point: Point
    subject: str
    not_before: int | None = None


@frozen(repr=False)
class Plan(Printable):
    """Read a call and check it; ``refuse`` closes it unseen, with that reason."""

    action: str
    refuse: Literal["limit", "truncated", "refused", "cancelled", "deadline"] | None = None


@frozen(slots=False, repr=False)
class AskApproval(Printable):
    """Ask a person, or so many that ``quorum`` different ones may approve."""

    action: str
    request: int
    quorum: int = 1
    separation: bool = False


@frozen(slots=False, repr=False)
class BindTools(Printable):
    """Choose the tools of a model call."""

    index: int


@frozen(slots=False, repr=False)
class Deny(Printable):
    """Refuse a call for which the run was not granted what it takes."""

    action: str
    missing: tuple[str, ...]


@frozen(slots=False, repr=False)
class Authorize(Printable):
    """Ask the ``authorize`` callbacks whether a call may start."""

    action: str


@frozen(slots=False, repr=False)
class Expire(Printable):
    """Let a request for approval lapse."""

    action: str
    request: int
    not_before: int


@frozen(repr=False)
class StartAction(Printable):
    """Make an attempt."""

    action: str
    attempt: int
    not_before: int | None = None


@frozen(slots=False, repr=False)
class QueryAction(Printable):
    """Ask the tool's query whether an attempt took place."""

    action: str
    attempt: int


@frozen(slots=False, repr=False)
class AbortAction(Printable):
    """The run is being cancelled: stop an attempt that is under way."""

    action: str
    attempt: int


@frozen(slots=False, repr=False)
class PauseChild(Printable):
    """The run is paused, or goes on again: so shall the run that a call began."""

    action: str
    run: str
    paused: bool


@frozen(slots=False, repr=False)
class CancelChild(Printable):
    """The run is being cancelled: so shall be the run that a call began."""

    action: str
    run: str


@frozen(slots=False, repr=False)
class Close(Printable):
    """Give a call its receipt without (another) attempt."""

    action: str
    attempt: int
    outcome: Literal["ok", "error"]
    evidence: Literal["person", "not_started", "tool_error", "query", "child", "output", "hook", "timer"]
    text: str


@frozen(slots=False, repr=False)
class Doubt(Printable):
    """Record that nobody knows whether the call took place."""

    action: str
    attempt: int
    text: str


@frozen(slots=False, repr=False)
class CheckOutput(Printable):
    """Read the output out of a reply and check it."""

    index: int


@frozen(slots=False, repr=False)
class Reject(Printable):
    """The reply does not end the run, because something is missing."""

    index: int
    text: str


@frozen(slots=False, repr=False)
class Refuse(Printable):
    """Record that something must not be spent, because of a limit of the run's own.

    Attributes:
        limit: The limit; seconds are in nanoseconds.
        spent: What has been spent of it.
        action: The call that is not started, where it is about one.
    """

    resource: Resource
    limit: int
    spent: int
    action: str | None = None
    not_before: int | None = None


@frozen(slots=False, repr=False)
class Warn(Printable):
    """Tell the model that something is running out."""

    resource: Resource
    limit: int
    spent: int
    not_before: int | None = None


@frozen(repr=False)
class Succeed(Printable):
    """The last reply is the output, or the result of the call named ``source``."""

    source: str | None = None


@frozen(slots=False, repr=False)
class Fail(Printable):
    """The run cannot go on."""

    kind: FailureKind
    message: str


@frozen(slots=False, repr=False)
class EndCancelled(Printable):
    """End the run, as was asked."""


Step: TypeAlias = (
    Start
    | Hear
    | Summarise
    | AbandonSummary
    | Compact
    | FireTimer
    | PassDeadline
    | RequestModel
    | AbandonModel
    | RunHook
    | Plan
    | AskApproval
    | BindTools
    | Deny
    | Authorize
    | Expire
    | StartAction
    | QueryAction
    | AbortAction
    | PauseChild
    | CancelChild
    | Close
    | Doubt
    | CheckOutput
    | Reject
    | Refuse
    | Warn
    | Succeed
    | Fail
    | EndCancelled
)


def due(step: Step) -> int | None:
    """The moment before which a step must not be taken (ns UTC); None for at once."""
    moment: int | None = getattr(step, "not_before", None)
    return moment
