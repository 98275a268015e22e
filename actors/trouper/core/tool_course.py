"""What replies and results change in what a run's state holds about tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trouper.core.folding import changed
from trouper.core.state import Action
from trouper.core.tooling import Tooling


def tools_after_reply(tools: Tooling, names: Iterable[str]) -> Tooling:
    """After a reply: the tools that it calls have been called, and no result of an earlier one ends the run."""
    called = tools.called
    for name in names:
        if name not in called:
            called = (*called, name)
    if called is tools.called and tools.direct is None:
        return tools
    return changed(tools, called=called, direct=None)


def tools_after_batch(tools: Tooling, batch: Sequence[Action]) -> Tooling:
    """After a batch: the last of its calls, if its result is to be the run's output."""
    if not all(action.direct and action.ok for action in batch):
        return tools
    return changed(tools, direct=batch[-1].action)


def tools_after_resume(tools: Tooling) -> Tooling:
    """After somebody resumed the run: tools that could not be chosen are chosen again."""
    return changed(tools, bound_for=-1, misbound="") if tools.misbound else tools
