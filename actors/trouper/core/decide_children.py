"""The rules for a call that is a run of its own: wait for it, take its result in, pass a cancellation on.

Such a call is never interrupted: whatever dies, its run is in the journal and goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator

from trouper.core import wording
from trouper.core.state import Action, Phase, RunState
from trouper.core.steps import CancelChild, Close, Step


def waits_for_child(action: Action) -> bool:
    """Whether a call is out as a run that has not ended."""
    return action.phase is Phase.STARTED and action.child is not None and not action.child.ended


def child_steps(action: Action) -> Iterator[Step]:
    """Take in what a child that has ended came to."""
    child = action.child
    if child is not None and child.ended:
        ok = child.status == "succeeded"
        text = child.text if action.original is None else wording.edited(action, child.text)
        yield Close(action.action, action.attempt, "ok" if ok else "error", "child", text)


def children_first(state: RunState) -> tuple[Step, ...] | None:
    """What must happen to children that are out before a run may fail; None where none is out any more."""
    out = [action for action in state.batch if waits_for_child(action)]
    steps = (cancel_child(action) for action in out)
    return tuple(step for step in steps if step is not None) if out else None


def cancel_child(action: Action) -> Step | None:
    """What must happen to a child so that its parent can end; None while it is on its way to its own end."""
    child = action.child
    if child is None or child.ended:
        return next(child_steps(action), None)
    return None if child.cancelled else CancelChild(action.action, child.run)
