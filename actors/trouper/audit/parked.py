"""The runs of an older copy that are not over: what had begun there, and what may have been done since."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from attrs import frozen

from trouper.core.restoring import ahead, under_way
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.runtime.histories import run_state
from trouper.runtime.restoring import runs_not_over
from trouper_journal import Journal, Plain


@frozen(slots=False, repr=False, eq=False)
class ParkedCall(Plain):
    """A write of such a run.

    Attributes:
        action: The call's full id.
        tool: The tool.
        effect: Its effect class.
        state: ``under_way``: it was started, and counts as unknown once the copy is accepted. ``ahead``: it was not,
            and is made when its turn comes, though it may have been made since.
    """

    action: str
    tool: str
    effect: str
    state: Literal["under_way", "ahead"]


@frozen(slots=False, repr=False, eq=False)
class ParkedRun(Plain):
    """A run that goes on when an older copy is accepted.

    Attributes:
        run: Its id.
        label: Its status in the copy.
        calls: Its writes that have no outcome in the copy; None where it cannot be read here.
    """

    run: str
    label: str
    calls: tuple[ParkedCall, ...] | None


async def parked_runs(journal: Journal) -> AsyncIterator[ParkedRun]:
    """The runs that are not over, in the order of their ids.

    Raises:
        JournalError: The journal cannot be read.
    """
    async for head in runs_not_over(journal):
        label, run = head.label or "?", head.stream.removeprefix("run/")
        try:
            state = await run_state(journal, run)
        except (UnknownEvent, JournalCorrupt):
            yield ParkedRun(run, label, None)
            continue
        calls = tuple(
            ParkedCall(
                f"{run}/{action.action}", action.tool, action.effect.value, "ahead" if ahead(action) else "under_way"
            )
            for action in state.batch
            if ahead(action) or under_way(action)
        )
        yield ParkedRun(run, label, calls)
