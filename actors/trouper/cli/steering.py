"""Commands on a run under way: ``steer``, ``pause``, ``extend``."""

from __future__ import annotations

from pathlib import Path

import click

from trouper.cli.changing import AS, REASON, change_run
from trouper.cli.codes import ConflictError, Exit
from trouper.cli.command import command
from trouper.cli.journals import person, until_moment
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output
from trouper.core.state import RunState
from trouper.narration.text import claim, quoted, who
from trouper.narration.when import when
from trouper.runtime import Commands


@command
@JOURNAL
@click.argument("run_id", metavar="RUN")
@click.argument("text")
@AS
@click.option("--command-id", metavar="ID", help="Names what is said: given again, it has no second effect.")
def steer(
    output: Output, /, journal: Path, run_id: str, text: str, *, name: str | None, command_id: str | None
) -> Exit:
    """Say something to a run under way. It hears it before it next asks its model."""

    async def change(commands: Commands, found: str) -> RunState:
        return await commands.steer(found, text, by=person(name), command_id=command_id)

    def tell(state: RunState) -> str:
        if state.ended or not state.control.inbox:
            return "has heard that before"
        return f"hears {quoted(text)} from {who(person(name))} before it next asks its model"

    return change_run(output, journal, run_id, change, tell)


@command
@JOURNAL
@click.argument("run_id", metavar="RUN")
@AS
@REASON
def pause(output: Output, /, journal: Path, run_id: str, *, name: str | None, reason: str | None) -> Exit:
    """Have a run begin nothing more until it is resumed. What is under way ends and is recorded."""

    async def change(commands: Commands, found: str) -> RunState:
        state = await commands.pause(found, by=person(name), reason=reason)
        if state.ended:
            raise ConflictError(f"run {found} is over: it has {state.phase.value} already; nothing was changed")
        if state.cancel is not None:
            raise ConflictError(f"run {found} is being cancelled; nothing was changed")
        return state

    def tell(state: RunState) -> str:
        pause = state.control.pause
        by = pause.by if pause else None
        why = f": {quoted(pause.reason)}" if pause and pause.reason else ""
        return f"paused by {who(by)} {claim(by)}{why}; `trouper resume` lets it go on"

    return change_run(output, journal, run_id, change, tell)


@command
@JOURNAL
@click.argument("run_id", metavar="RUN")
@click.option("--until", metavar="MOMENT", required=True, help="ISO 8601 with a time zone, or `never` for no deadline.")
@AS
@REASON
def extend(output: Output, /, journal: Path, run_id: str, *, until: str, name: str | None, reason: str | None) -> Exit:
    """Let a run take longer; one that failed at its deadline goes on."""
    deadline = None if until == "never" else until_moment(until, ", nor `never`")

    async def change(commands: Commands, found: str) -> RunState:
        before = await commands.state(found)
        if before.ended and before.failure != "deadline":
            raise ConflictError(f"run {found} is over: it has {before.phase.value}; more time would change nothing")
        return await commands.extend(found, deadline, by=person(name), reason=reason)

    def tell(state: RunState) -> str:
        new = state.control.deadline
        return f"has time {'without end' if new is None else f'until {when(new)}'}, by {who(person(name))}"

    return change_run(output, journal, run_id, change, tell)
