"""Whether a decision counted: anyone may append one, past the rules, and then the fold takes no notice of it."""

from __future__ import annotations

from typing import Final

from trouper.core.action_events import ActionResolved, ApprovalDecided
from trouper.core.session_events import ApprovalWithdrawn
from trouper.core.state import RunState

DID_NOT_COUNT: Final = "this did not count: it is past a rule, too late, or about another call than this"
"""What is said of such a decision."""


def without_effect(before: RunState, after: RunState, event: object) -> bool:
    """Whether an event is a decision about a call that changed nothing of it.

    Args:
        before: The run, folded up to the event.
        after: The run with it.
        event: The event.
    """
    if not isinstance(event, ApprovalDecided | ApprovalWithdrawn | ActionResolved):
        return False
    # The fold gives the very same value back where it takes no notice.
    return after.action(event.action) is before.action(event.action)
