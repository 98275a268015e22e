"""The conversation of the system: every message that its actors exchange.

Requests flow one way only: Runtime → Agent → Model, Executor, Approver → journal. Answers go back through a
``deliver`` function that never waits, and an agent that has something to do is rung, once, however many reasons there
are. So no two actors ever wait for each other, and bounded mailboxes cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from trouper.approvals import ProposedCall, Ruling
from trouper.core.conversation import Message, ToolSpec, Value
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.core.hook_events import HookDone
from trouper.core.hook_ops import Point
from trouper.core.state import RunState
from trouper.core.steps import Authorize, BindTools
from trouper.kit import Request
from trouper.tools import NO_STATE, FailureKind, Retry, Shown, Timer, Tool
from trouper_journal import Plain

# ---- to an agent


@frozen(slots=False, repr=False, eq=False)
class Wake(Plain):
    """There is news in the run's stream: read it."""


@frozen(repr=False, eq=False)
class Ring(Plain):
    """An agent's own bell: something was delivered."""


AgentMessage: TypeAlias = Wake | Ring

# ---- to a model


SUMMARY: Final = -1
"""The index of the model call that brings a summary: not one of the run's own."""


@frozen(repr=False, eq=False)
class Generate(Plain):
    """Make one attempt at one model call."""

    run: str
    index: int
    attempt: int
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    config: ModelConfig
    deliver: Deliver


@frozen(slots=False, repr=False, eq=False)
class Abandon(Plain):
    """Stop waiting for the replies of a run; nothing is delivered."""

    run: str


@frozen(slots=False, repr=False, eq=False)
class AbandonAll(Plain):
    """The runtime stops: cancel the calls; each is delivered as lost."""


@frozen(repr=False, eq=False)
class ReplySettled(Plain):
    """The reply of this attempt is durable; forget it."""

    run: str
    index: int
    attempt: int


@frozen(slots=False, repr=False, eq=False)
class Held(Plain):
    """What is still held of an attempt that an agent asks about after a restart of its own.

    Attributes:
        state: ``nothing``; ``under_way``, its outcome will be delivered; ``over``, here it is; or ``lingering``, given
            up, and what it still brings will be delivered.
        outcome: Its outcome, where it is over.
    """

    state: Literal["nothing", "under_way", "over", "lingering"] = "nothing"
    outcome: Outcome | None = None


@frozen
class Calling(Request[Held]):
    """What do you hold of this attempt of the run's call? What is to come goes to ``deliver`` from now on."""

    run: str
    index: int
    attempt: int
    deliver: Deliver


ModelMessage: TypeAlias = Generate | Abandon | AbandonAll | ReplySettled | Calling

# ---- to an executor


@frozen(repr=False, eq=False)
class Execute(Plain):
    """Make one attempt at one action."""

    run: str
    action: str
    attempt: int
    tool: Tool
    arguments: Mapping[str, object]
    agent: str
    principal: str | None
    deliver: Deliver
    state: Mapping[str, object] = NO_STATE


@frozen(slots=False, repr=False, eq=False)
class Query(Plain):
    """Ask the tool's query whether an attempt took place."""

    run: str
    action: str
    attempt: int
    tool: Tool
    arguments: Mapping[str, object]
    agent: str
    principal: str | None
    deliver: Deliver
    state: Mapping[str, object] = NO_STATE


@frozen(slots=False, repr=False, eq=False)
class Abort(Plain):
    """Cancel what is under way for an action; its outcome is delivered as ever."""

    run: str
    action: str


@frozen(slots=False, repr=False, eq=False)
class AbortAll(Plain):
    """The runtime stops: cancel what is under way."""


@frozen(repr=False, eq=False)
class Settled(Plain):
    """The outcome of this attempt is durable; forget it."""

    run: str
    action: str
    attempt: int


@frozen
class Holding(Request[Held]):
    """What do you hold of this attempt? What is to come goes to ``deliver`` from now on."""

    run: str
    action: str
    attempt: int
    deliver: Deliver


ExecutorMessage: TypeAlias = Execute | Query | Abort | AbortAll | Settled | Holding

# ---- to an approver


@frozen
class Consider(Request[Ruling]):
    """May this call run?"""

    tool: Tool
    call: ProposedCall


ApproverMessage: TypeAlias = Consider

# ---- what is delivered to an agent


@frozen(repr=False, eq=False)
class Replied(Plain):
    """A model call came to an end: with a reply, with an error in its place, or (neither) lost with the runtime."""

    index: int
    attempt: int
    reply: ModelReply | None
    error: Exception | None = None


@frozen(repr=False, eq=False)
class Acted(Plain):
    """An attempt at an action came to an end.

    Attributes:
        result: ``returned``, or how it failed; ``not_begun``: it ended before the tool was called.
        lingering: A thread of it goes on, and will be heard of once more.
        late: It had been given up before.
        update: What it wrote to the run's named state.
        retry: How the tool's attempts follow each other, where it says so.
        shown: The result, where it is more than text and value.
        retry_after: Seconds that the tool asked to wait before another attempt, or None.
        timer: What it returned in place of a result: to be answered later.
    """

    action: str
    attempt: int
    result: Literal["returned", "not_begun"] | FailureKind
    text: str
    value: Value = None
    lingering: bool = False
    late: bool = False
    update: Mapping[str, Value] = field(factory=dict)
    retry: Retry | None = None
    shown: Shown | None = None
    retry_after: float | None = None
    timer: Timer | None = None


@frozen(slots=False, repr=False, eq=False)
class Answered(Plain):
    """A tool's query answered."""

    action: str
    attempt: int
    answer: Literal["found", "absent", "unknown"]
    text: str
    value: Value = None
    update: Mapping[str, Value] = field(factory=dict)
    shown: Shown | None = None


@frozen(slots=False, repr=False, eq=False)
class Hooked(Plain):
    """The hooks of one point were called.

    Attributes:
        point: Where in the run.
        subject: What it was about (see `trouper.core.hook_events.HookApplied`).
        chain: Digest over the messages that they were shown.
        done: What each asked for.
        updates: What each wrote to the named state, by its name.
        failed: Why the run must fail; empty where it need not.
    """

    point: Point
    subject: str
    chain: bytes
    done: tuple[HookDone, ...] = ()
    updates: tuple[tuple[str, Mapping[str, Value]], ...] = ()
    failed: str = ""


@frozen(slots=False, repr=False, eq=False)
class Advised(Plain):
    """The host's callbacks answered.

    Attributes:
        step: What they were asked for.
        event: What is recorded of their answer.
        about: The run as they were asked about it.
    """

    step: Authorize | BindTools
    event: object
    about: RunState


Outcome: TypeAlias = Replied | Acted | Answered | Hooked | Advised
Deliver: TypeAlias = Callable[[Outcome], None]
