"""``trouper approvals``: what waits for a person, be it for leave or for the truth. It changes nothing."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from trouper.cli.codes import Exit
from trouper.cli.command import paged_command, run_async
from trouper.cli.damage import KEEP_GOING, keeps_going, note_problem
from trouper.cli.journals import opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.cli.timeline import approval_wanted, doubt_to_settle
from trouper.core.state import Action, RunPhase, RunState
from trouper.core.status import AWAITING, RETRYING, SCHEDULED, SLEEPING
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.narration.plain import action_json
from trouper.narration.text import count
from trouper.runtime import Commands

# Whatever has one of these labels has no call in doubt.
_CERTAIN = frozenset(
    {phase.value for phase in RunPhase if phase is not RunPhase.RUNNING} | {AWAITING, RETRYING, SCHEDULED, SLEEPING}
)


@paged_command
@JOURNAL
@KEEP_GOING
def approvals(output: Output, /, journal: Path) -> Exit:
    """List the calls that wait for a decision, or are in doubt.

    Each is told with all that is needed to decide: what to approve or deny first, then what nobody knows whether it
    took effect, for somebody to look and to settle.
    """

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            commands = Commands(opened_journal)
            waiting = await _waiting(commands)
            doubts = await _doubts(commands)
            if output.as_json:
                for kind, calls in (("approval", waiting), ("doubt", doubts)):
                    for state, action in calls:
                        output.json({"kind": kind, **action_json(state, action)})
                return Exit.OK
            for state, action in waiting:
                output.result(*approval_wanted(state, action, journal), Text())
            if doubts:
                output.result(styled(f"In doubt: {count(len(doubts), 'call')}", "bold"), Text())
            for state, action in doubts:
                output.result(*doubt_to_settle(state, action, journal), Text())
            if not waiting and not doubts:
                output.nothing("nothing waits for a person")
        return Exit.OK

    return run_async(main)


async def _waiting(commands: Commands) -> list[tuple[RunState, Action]]:
    """The calls that wait for approval, with their runs."""
    found: list[tuple[RunState, Action]] = []
    for pending in await commands.approvals(_left_out):
        state = await commands.state(pending.run)
        action = state.action(pending.action.rpartition("/")[2])
        if action is not None:
            found.append((state, action))
    return found


async def _doubts(commands: Commands) -> list[tuple[RunState, Action]]:
    """The calls in doubt, with their runs, oldest run first; runs that cannot be read here are left out."""
    found: list[tuple[RunState, Action]] = []
    async for head in commands.runs():
        # A run that is being cancelled, or that has drifted, has a label that says nothing of its doubts.
        if head.label in _CERTAIN:
            continue
        try:
            state = await commands.state(head.stream.removeprefix("run/"))
        except (UnknownEvent, JournalCorrupt) as error:
            _left_out(error)
            continue
        found += [(state, action) for action in state.in_doubt]
    return found


def _left_out(error: Exception) -> None:
    """A run is left out: of a newer release, or damaged, which the command line must say to go on with."""
    if isinstance(error, JournalCorrupt):
        if not keeps_going():
            raise error
        note_problem(None, str(error))
