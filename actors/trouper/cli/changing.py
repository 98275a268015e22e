"""What the commands that change a run have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from trouper.cli.codes import Exit
from trouper.cli.command import run_async
from trouper.cli.journals import driven, find_run, opened
from trouper.cli.output import Output, styled
from trouper.core.state import RunState
from trouper.narration.plain import fields, state_json
from trouper.narration.text import clean
from trouper.runtime import Commands

AS = click.option("--as", "name", metavar="NAME", help="Who you are; your system user's name if left out.")
REASON = click.option("--reason", help="Why; it is recorded.")


def say_when(output: Output, journal: Path, state: RunState) -> None:
    """A decision is recorded at once; that it is acted upon needs somebody who drives the journal."""
    if not state.ended and driven(journal) is False:
        output.note(styled("no process drives this journal: it takes effect when a runtime next opens it", "yellow"))


def change_run(
    output: Output,
    journal: Path,
    run_id: str,
    change: Callable[[Commands, str], Awaitable[RunState]],
    tell: Callable[[RunState], str],
) -> Exit:
    """Change a run and tell of it."""

    async def main() -> Exit:
        async with opened(journal) as opened_journal:
            found = await find_run(opened_journal, run_id)
            state = await change(Commands(opened_journal), found)
            if output.as_json:
                cancel = None if state.cancel is None else fields(state.cancel)
                output.json({**state_json(state), "cancel": cancel, "driven": driven(journal)})
            else:
                output.result(styled(f"run {clean(found)} {tell(state)}"))
                say_when(output, journal, state)
        return Exit.OK

    return run_async(main)
