"""What a hook is: an object with named methods, called at named points of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import frozen

from trouper.core.conversation import AI, Message, Usage, Value
from trouper.core.hook_ops import POINTS, Op, Point
from trouper.models import Model
from trouper_journal import Plain

Asked: TypeAlias = Op | Sequence[Op] | None
"""What a hook's method returns: nothing, one operation, or several in order."""

NO_MODELS: Final[Mapping[str, Model]] = MappingProxyType({})


@frozen(slots=False, repr=False, eq=False)
class View(Plain):
    """A run as a hook sees it, to read only.

    Attributes:
        run: The run's id.
        agent: The agent's name.
        index: Number of the model call that it is about, from 0.
        messages: The conversation as the model would be shown it, after what hooks did before; the agent's
            instructions are not among it.
        state: The named state, as Python values.
        steps: Super-steps taken.
        usage: Tokens spent, as far as providers told; None in it where it is not known whole.
        passed: How many calls of each tool hooks have let through; counted where the agent has hooks before tools.
    """

    run: str
    agent: str
    index: int
    messages: tuple[Message, ...]
    state: Mapping[str, Any]
    steps: int
    usage: Usage
    passed: Mapping[str, int]


@frozen(slots=False, repr=False, eq=False)
class Call(Plain):
    """A call that the model asked for.

    Attributes:
        action: ``<model index>.<call index>``.
        tool: The tool's name as the model wrote it.
        arguments: Its arguments as hooks before left them; None where they cannot be read.
    """

    action: str
    tool: str
    arguments: Mapping[str, Value] | None


@frozen(slots=False, repr=False, eq=False)
class CallResult(Plain):
    """How a call ended.

    Attributes:
        ok: Whether it did what was asked.
        text: What the model is told.
    """

    ok: bool
    text: str


@frozen(slots=False, repr=False, eq=False)
class ModelFailure(Plain):
    """An attempt at a model call that brought no reply.

    Attributes:
        message: What is known.
        attempt: Number of the attempt, from 1.
        model: Name of the model among the agent's further ones; empty for its own.
        status: HTTP status of the answer; None where there was none.
        final: Whether nothing more would be tried, so that the run would fail.
    """

    message: str
    attempt: int
    model: str
    status: int | None
    final: bool


class Hook:
    """Derive from this, and define the methods that you need: ``async def`` or plain ``def``.

    Each returns None, one operation of `trouper.hooks`, or several. What it returned is journaled before anything is
    done on it, and once that is so the method is not called again for that point: not by a restart, not by a replay.
    A crash before that calls it again, so that it must have no effects outside. All that it is given is to read only.

    The hooks of an agent are called in the order of ``Agent(hooks=[...])``; each sees what those before it did. One
    that raises, or takes longer than its ``timeout``, fails the run with its error, resumably; but in `on_error` it
    counts as having said nothing. A plain method runs in a thread of its own, which goes on when its time is up. One
    object serves all runs of the agent, also at the same time.

    Attributes:
        timeout: Seconds that a call of a method may take.
        models: Models that it may choose by name, or that it asks itself; the runtime closes them.
    """

    timeout: float = 30.0
    models: Mapping[str, Model] = NO_MODELS

    @property
    def name(self) -> str:
        """Its name in the journal."""
        return type(self).__name__

    def identity(self) -> Mapping[str, Value]:
        """What enters the agent's definition document: name and settings, such as ``{"hook": "Redact", ...}``."""
        return {"hook": self.name}

    def before_model(self, view: View) -> Asked | Awaitable[Asked]:  # noqa: ARG002
        """Before each model call: `Drop`, `Insert`, `Replace`, `UseModel`, `Reply`, or `Update`, `Fail`."""
        return None

    def after_model(self, view: View, reply: AI) -> Asked | Awaitable[Asked]:  # noqa: ARG002
        """When a reply has come: `Drop`, `Insert`, `Replace`, or `Update`, `Fail`. ``view`` holds the reply too."""
        return None

    def before_tool(self, view: View, call: Call) -> Asked | Awaitable[Asked]:  # noqa: ARG002
        """Before a call is checked, approved and made: `SetArguments`, `Answer`, or `Update`, `Fail`."""
        return None

    def after_tool(self, view: View, call: Call, result: CallResult) -> Asked | Awaitable[Asked]:  # noqa: ARG002
        """When a call that was made is over: `Answer` to tell the model something else, or `Update`, `Fail`."""
        return None

    def on_error(self, view: View, error: ModelFailure) -> Asked | Awaitable[Asked]:  # noqa: ARG002
        """When a model call failed: `UseModel`, `Reply`, `Drop`, `Insert`, `Replace`, or `Update`, `Fail`.

        A model that failed at this call already is not asked again by this: choosing it changes nothing.
        """
        return None


def points_of(hook: Hook) -> frozenset[Point]:
    """The points at which a hook has something to say."""
    return frozenset(point for point in POINTS if getattr(type(hook), point) is not getattr(Hook, point))
