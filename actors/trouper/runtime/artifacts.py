"""What tools kept beside their results, read from a run's events."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from trouper.core.events import ActionPlanned, ActionReceipted
from trouper_journal import Erased, Plain, Value


@frozen(slots=False, repr=False, eq=False)
class Artifact(Plain):
    """What a tool kept beside its result (see `ToolResult`).

    Attributes:
        action: Id of the call.
        tool: The tool's name.
        value: What it kept, as a journal value: an object's fields as a mapping, bytes as bytes.
    """

    action: str
    tool: str
    value: Value = field(repr=False)


def artifacts_of(run: str, events: Iterable[object]) -> list[Artifact]:
    """The artifacts among a run's events, in the order in which the calls were asked for; erased ones are left out."""
    tools: dict[str, str] = {}
    found: dict[tuple[int, int], Artifact] = {}
    for event in events:
        match event:
            case ActionPlanned(action=action, tool=tool):
                tools[action] = tool
            case ActionReceipted(action=action, artifact=value) if value is not None and not isinstance(value, Erased):
                index, _, place = action.partition(".")
                found[int(index), int(place)] = Artifact(f"{run}/{action}", tools.get(action, ""), value)
    return [found[place] for place in sorted(found)]
