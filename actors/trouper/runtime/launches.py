"""What a step comes to: events to record, and launches to make once they are durable."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from trouper.core.steps import Authorize, BindTools, RunHook
from trouper.tools import Tool
from trouper_journal import Plain, Write


@frozen(repr=False, eq=False)
class SendRequest(Plain):
    """Send the conversation, as it is in the state after the commit."""

    index: int
    attempt: int
    closing: bool
    model: str = ""


@frozen(slots=False, repr=False, eq=False)
class SendSummary(Plain):
    """Ask for a summary of what a turn is not handed any more."""

    attempt: int


@frozen(repr=False, eq=False)
class CallTool(Plain):
    """Make an attempt at an action, or ask its query."""

    action: str
    attempt: int
    tool: Tool
    arguments: Mapping[str, object]
    query: bool = False


@frozen(slots=False, repr=False, eq=False)
class AskHost(Plain):
    """Ask the host's own code: the hooks of a point, or a callback."""

    step: RunHook | Authorize | BindTools


@frozen(slots=False, repr=False, eq=False)
class StopModel(Plain):
    """Stop waiting for a reply."""


@frozen(slots=False, repr=False, eq=False)
class StopTool(Plain):
    """Cancel an attempt."""

    action: str
    tool: str


Launch: TypeAlias = SendRequest | SendSummary | CallTool | AskHost | StopModel | StopTool


NO_REQUIREMENTS: Final[Mapping[str, int]] = MappingProxyType({})
"""Of what rests on no other stream."""


@frozen(repr=False, eq=False)
class Plan(Plain):
    """What a step comes to.

    Attributes:
        events: Events for the run's own stream.
        launches: What to do once they are durable.
        writes: Events for other streams in the same commit.
        requires: Versions of streams that were only read, and must still stand when it is committed.
    """

    events: tuple[object, ...] = ()
    launches: tuple[Launch, ...] = ()
    writes: tuple[Write, ...] = ()
    requires: Mapping[str, int] = NO_REQUIREMENTS

    def then(self, other: Plan) -> Plan:
        """Both, one after the other."""
        return Plan(
            self.events + other.events,
            self.launches + other.launches,
            self.writes + other.writes,
            {**other.requires, **self.requires},
        )


NOTHING = Plan()
